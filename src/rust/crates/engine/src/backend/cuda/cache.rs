//! Compiled kernels on disk: a folder that many processes use at once.
//!
//! A file is named by a hash of all that went into the kernel, ends in a checksum, and is written under another name and
//! renamed into place, so that a reader sees all of it or nothing. Whatever goes wrong, a kernel that cannot be read
//! is compiled, and one that cannot be written is not kept. The files that were not used for longest are
//! removed where all together pass the limit.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use super::device::lock;

/// Where compiled kernels are kept between sessions, and how many bytes of them; nowhere unless set.
static PLACE: Mutex<Option<(PathBuf, u64)>> = Mutex::new(None);

/// Sets the folder; `None` for none.
pub fn set_cache_dir(directory: Option<PathBuf>, limit: u64) {
    *lock(&PLACE) = directory.map(|directory| (directory, limit));
}

/// The folder and the limit.
pub(super) fn place() -> Option<(PathBuf, u64)> {
    lock(&PLACE).clone()
}

/// Files are looked through for what is too much at the first of this many that are written.
const TRIM_EVERY: u32 = 32;
/// A use is noted where the last is so long ago: reading should not always write.
const NOTED: Duration = Duration::from_secs(24 * 3600);
/// What a process that ended while it wrote has left.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Whether there is a file of a name, whole or not.
pub(super) fn has(name: &str) -> bool {
    place().is_some_and(|(directory, _)| directory.join(format!("{name}.bin")).exists())
}

/// The content kept under a name.
pub(super) fn get(name: &str) -> Option<Vec<u8>> {
    let (directory, _) = place()?;
    fetch(&directory.join(format!("{name}.bin")))
}

/// Keeps content under a name.
pub(super) fn put(name: &str, bytes: &[u8]) {
    static WRITTEN: AtomicU32 = AtomicU32::new(0);
    let Some((directory, limit)) = place() else { return };
    keep(&directory.join(format!("{name}.bin")), bytes);
    if WRITTEN.fetch_add(1, Ordering::Relaxed).is_multiple_of(TRIM_EVERY) {
        trim(&directory, limit);
    }
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish().to_le_bytes()
}

/// A file's content, if it is whole.
fn fetch(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = fs::read(path).ok()?;
    let at = bytes.len().checked_sub(8)?;
    let end = bytes.split_off(at);
    if checksum(&bytes)[..] != end[..] {
        return None;
    }
    let used = fs::metadata(path).and_then(|m| m.modified()).ok();
    if used.and_then(|t| t.elapsed().ok()).is_some_and(|age| age > NOTED) {
        // another's folder may be read only
        let _ = fs::File::options().append(true).open(path).and_then(|f| f.set_modified(SystemTime::now()));
    }
    Some(bytes)
}

/// Writes a file and moves it into place, so that no one sees a part of it. A cache that cannot be written is none.
fn keep(path: &Path, bytes: &[u8]) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let Some(directory) = path.parent() else { return };
    let own = format!("{}.{}.part", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let part = directory.join(own);
    let content = [bytes, &checksum(bytes)].concat();
    if fs::create_dir_all(directory)
        .and_then(|()| fs::write(&part, content))
        .and_then(|()| fs::rename(&part, path))
        .is_err()
    {
        let _ = fs::remove_file(&part);
    }
}

/// Removes what was not used for longest until three quarters of the limit are left, and abandoned parts. What another
/// process removes meanwhile is gone as well.
fn trim(directory: &Path, limit: u64) {
    let Ok(listed) = fs::read_dir(directory) else { return };
    let mut files = Vec::new();
    for entry in listed.flatten() {
        let path = entry.path();
        let Ok(facts) = entry.metadata() else { continue };
        let used = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        match path.extension().and_then(|e| e.to_str()) {
            Some("bin") => files.push((used, facts.len(), path)),
            Some("part") if used.elapsed().is_ok_and(|age| age > ABANDONED) => {
                let _ = fs::remove_file(path);
            }
            _ => {}
        }
    }
    let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    if total <= limit {
        return;
    }
    files.sort();
    for (_, bytes, path) in files {
        if total <= limit / 4 * 3 {
            break;
        }
        if fs::remove_file(path).is_ok() {
            total -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("verdigris-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_damaged_file_is_no_file() {
        let directory = folder("cache");
        let path = directory.join("x.bin");
        keep(&path, b"content");
        assert_eq!(fetch(&path).as_deref(), Some(&b"content"[..]));
        let mut bytes = fs::read(&path).unwrap();
        bytes[0] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(fetch(&path).is_none());
        // cut off at every length
        keep(&path, b"again");
        let whole = fs::read(&path).unwrap();
        for n in 0..whole.len() {
            fs::write(&path, &whole[..n]).unwrap();
            assert!(fetch(&path).is_none(), "{n} bytes of {}", whole.len());
        }
        keep(&path, b"again");
        assert_eq!(fetch(&path).as_deref(), Some(&b"again"[..]));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_written_keeps_nothing() {
        // a file where the folder should be: no one may make it, root neither
        let directory = folder("nofolder");
        fs::write(&directory, b"").unwrap();
        let path = directory.join("x.bin");
        keep(&path, b"content");
        assert!(fetch(&path).is_none());
        trim(&directory, 0);
        fs::remove_file(&directory).unwrap();
        // a disk that is full: /dev/full takes no byte
        if Path::new("/dev/full").exists() {
            assert!(fs::write("/dev/full", b"content").is_err());
        }
        // a folder in the file's place: the rename fails, and no part is left behind
        let directory = folder("blocked");
        let path = directory.join("x.bin");
        fs::create_dir_all(path.join("inside")).unwrap();
        keep(&path, b"content");
        assert!(fetch(&path).is_none());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn what_was_used_last_stays() {
        let directory = folder("trim");
        for k in 0..10u64 {
            let path = directory.join(format!("{k}.bin"));
            keep(&path, &[0; 92]);
            let used = SystemTime::now() - Duration::from_secs(3600 * (20 - k));
            fs::File::options().append(true).open(&path).unwrap().set_modified(used).unwrap();
        }
        let old = directory.join("1.2.part");
        fs::write(&old, b"left").unwrap();
        fs::File::options().append(true).open(&old).unwrap().set_modified(SystemTime::now() - 2 * ABANDONED).unwrap();
        trim(&directory, 1000);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 10, "1000 bytes fit");
        trim(&directory, 800);
        let mut left: Vec<_> = fs::read_dir(&directory).unwrap().map(|f| f.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["4.bin", "5.bin", "6.bin", "7.bin", "8.bin", "9.bin"]);
        // a use makes a file young again
        assert!(fetch(&directory.join("4.bin")).is_some());
        fs::File::options()
            .append(true)
            .open(directory.join("5.bin"))
            .unwrap()
            .set_modified(SystemTime::now() - 3 * NOTED)
            .unwrap();
        assert!(fetch(&directory.join("5.bin")).is_some());
        trim(&directory, 200);
        assert!(directory.join("5.bin").exists() && !directory.join("6.bin").exists());
        fs::remove_dir_all(&directory).unwrap();
    }

    /// Content whose first byte says what the rest must be.
    fn content(seed: u8) -> Vec<u8> {
        (0..10_000u32).map(|i| seed.wrapping_add((i / 7) as u8)).collect()
    }

    const FOLDER: &str = "VERDIGRIS_TEST_CACHE_FOLDER";

    /// The part of one process in the next test, which starts it.
    #[test]
    fn one_of_many_processes() {
        let Some(directory) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
        let mut seed = std::process::id();
        let mut read = 0;
        for round in 0..400 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let path = directory.join(format!("{}.bin", seed >> 20 & 15));
            match seed >> 28 {
                0 => fs::write(&path, b"torn").unwrap_or(()), // as if a disk had lost what was written
                1 => trim(&directory, 60_000),
                2..8 => keep(&path, &content((seed >> 12) as u8)),
                _ => {
                    if let Some(found) = fetch(&path) {
                        assert_eq!(found, content(found[0]), "round {round}");
                        read += 1;
                    }
                }
            }
        }
        assert!(read > 20, "{read} files were whole");
    }

    #[test]
    fn many_processes_share_a_folder() {
        let directory = folder("shared");
        fs::create_dir_all(&directory).unwrap();
        let processes: Vec<_> = (0..8)
            .map(|_| {
                std::process::Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "backend::cuda::cache::tests::one_of_many_processes"])
                    .env(FOLDER, &directory)
                    .stdout(std::process::Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for process in processes {
            let done = process.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&done.stdout).into_owned();
            assert!(done.status.success() && said.contains("1 passed"), "{said}");
        }
        let parts =
            fs::read_dir(&directory).unwrap().flatten().filter(|f| f.path().extension() == Some("part".as_ref()));
        assert_eq!(parts.count(), 0);
        fs::remove_dir_all(&directory).unwrap();
    }
}
