//! Compiled kernels on disk, in a folder that many processes use at once.
//!
//! A file is named by a hash of everything that the kernel depends on. It contains that name too, ends in a checksum of
//! both, and is written under another name and renamed into place, so that a reader sees a complete file of the right
//! kernel or none. Errors are harmless: a kernel that cannot be read is compiled, and one that cannot be written is not
//! kept. Cached code runs with the user's rights, so a folder or a file that others may write to is not used. The least
//! recently used files are removed when the total exceeds the limit.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use crate::backend::cuda::context::core::lock;
use crate::disk::{self, Part};
use crate::memory::counters;
use verdigris_ops::error::Result;

/// Where compiled kernels are kept between sessions, and how many bytes of them; nowhere unless set.
static CACHE: Mutex<Option<(PathBuf, u64)>> = Mutex::new(None);

/// Sets the folder; `None` for none.
pub fn set_cache_dir(directory: Option<PathBuf>, limit: u64) {
    *lock(&CACHE) = directory.map(|directory| (directory, limit));
}

/// The folder and the limit; none where the folder may be other people's work.
fn configured() -> Option<(PathBuf, u64)> {
    let cache = lock(&CACHE).clone()?;
    disk::distrusted(&cache.0).is_none().then_some(cache)
}

/// Whether kernels are kept on disk at all.
pub(crate) fn is_on() -> bool {
    configured().is_some()
}

/// Why the folder that was set is not used.
pub fn cache_problem() -> Option<String> {
    let (directory, _) = lock(&CACHE).clone()?;
    disk::distrusted(&directory)
}

/// Files are looked through for what is too much at the first of this many that are written.
const TRIM_EVERY: u32 = 32;
/// A use is noted where the last is so long ago: reading should not always write.
const NOTED: Duration = Duration::from_secs(24 * 3600);
/// Begins each file. Of another layout there would be another.
const MAGIC: &[u8; 8] = b"vgkern02";
/// No kernel is so large.
const MOST: u64 = 1 << 30;

/// Whether there is a file of a name, whole or not.
pub(crate) fn has(name: &str) -> bool {
    configured().is_some_and(|(directory, _)| file_of(&directory, name).exists())
}

fn file_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.bin"))
}

/// What `load` makes of the content that is kept under a name, or else of what `make` gives, which then is kept. So a
/// file that is whole and cannot be loaded is replaced.
pub(crate) fn kept<T>(
    name: Option<&str>,
    make: impl FnOnce() -> Result<Vec<u8>>,
    load: impl Fn(&[u8]) -> Result<T>,
) -> Result<T> {
    if let Some(loaded) = name.and_then(get).and_then(|bytes| load(&bytes).ok()) {
        counters::CACHE_HITS.add(1);
        return Ok(loaded);
    }
    let bytes = make()?;
    let loaded = load(&bytes)?;
    if let Some(name) = name {
        put(name, &bytes);
    }
    Ok(loaded)
}

fn get(name: &str) -> Option<Vec<u8>> {
    let (directory, _) = configured()?;
    fetch(&directory, name)
}

fn put(name: &str, bytes: &[u8]) {
    static WRITTEN: AtomicU32 = AtomicU32::new(0);
    let Some((directory, limit)) = configured() else { return };
    keep(&directory, name, bytes);
    if WRITTEN.fetch_add(1, Ordering::Relaxed).is_multiple_of(TRIM_EVERY) {
        trim(&directory, limit);
    }
}

/// What stands before the content: the layout's name, and the file's with its length.
fn head(name: &str) -> Vec<u8> {
    [&MAGIC[..], &(name.len() as u64).to_le_bytes(), name.as_bytes()].concat()
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish().to_le_bytes()
}

/// A file's content, if it is whole, of this name, and no one else's work.
fn fetch(directory: &Path, name: &str) -> Option<Vec<u8>> {
    let (file, size) = disk::open_regular(&file_of(directory, name)).ok()?;
    let facts = file.metadata().ok()?;
    if size > MOST || disk::foreign(&facts).is_some() {
        return None;
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size as usize).ok()?;
    (&file).take(size).read_to_end(&mut bytes).ok()?;
    let at = bytes.len().checked_sub(8)?;
    let end = bytes.split_off(at);
    let head = head(name);
    if checksum(&bytes)[..] != end[..] || !bytes.starts_with(&head) {
        return None;
    }
    bytes.drain(..head.len());
    if facts.modified().ok().and_then(|t| t.elapsed().ok()).is_some_and(|age| age > NOTED) {
        // the folder may be read only
        let _ = file.set_modified(SystemTime::now());
    }
    Some(bytes)
}

/// Writes a file and moves it into place, so that no one sees a part of it. A cache that cannot be written is none.
fn keep(directory: &Path, name: &str, bytes: &[u8]) {
    let mut content = [&head(name), bytes].concat();
    let end = checksum(&content);
    content.extend_from_slice(&end);
    let _ = make_folder(directory)
        .and_then(|()| Part::private(&file_of(directory, name)))
        .and_then(|part| part.file().write_all(&content).and_then(|()| part.put()));
}

/// Makes a folder that no one else may write to.
fn make_folder(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Removes what was not used for longest until three quarters of the limit are left, and what killed processes have
/// left. What another process removes meanwhile is gone as well.
fn trim(directory: &Path, limit: u64) {
    disk::sweep(directory);
    let Ok(listed) = fs::read_dir(directory) else { return };
    let mut files = Vec::new();
    for entry in listed.flatten() {
        let path = entry.path();
        let Ok(facts) = entry.metadata() else { continue };
        let used = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        if path.extension() == Some("bin".as_ref()) {
            files.push((used, facts.len(), path));
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
        keep(&directory, "x", b"content");
        let whole = fs::read(&path).unwrap();
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).unwrap();
            assert!(fetch(&directory, "x").is_none(), "bit {bit}");
        }
        // cut off at every length
        for n in 0..whole.len() {
            fs::write(&path, &whole[..n]).unwrap();
            assert!(fetch(&directory, "x").is_none(), "{n} bytes of {}", whole.len());
        }
        keep(&directory, "x", b"again");
        assert_eq!(fetch(&directory, "x").as_deref(), Some(&b"again"[..]));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_file_under_another_name_is_no_file() {
        let directory = folder("renamed");
        keep(&directory, "x", b"one");
        keep(&directory, "y", b"two");
        fs::rename(directory.join("x.bin"), directory.join("z.bin")).unwrap();
        fs::rename(directory.join("y.bin"), directory.join("x.bin")).unwrap();
        fs::rename(directory.join("z.bin"), directory.join("y.bin")).unwrap();
        assert!(fetch(&directory, "x").is_none() && fetch(&directory, "y").is_none());
        keep(&directory, "x", b"one");
        assert_eq!(fetch(&directory, "x").as_deref(), Some(&b"one"[..]));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn content_that_does_not_load_is_replaced() {
        let directory = folder("replaced");
        set_cache_dir(Some(directory.clone()), 1 << 20);
        keep(&directory, "x", b"bad");
        let load = |bytes: &[u8]| match bytes {
            b"good" => Ok(4),
            _ => Err(verdigris_ops::error::Error::new(verdigris_ops::error::Kind::Compile, "no module")),
        };
        assert_eq!(kept(Some("x"), || Ok(b"good".to_vec()), load).unwrap(), 4);
        assert_eq!(fetch(&directory, "x").as_deref(), Some(&b"good"[..]));
        // what cannot be loaded is not kept
        assert!(kept(Some("y"), || Ok(b"bad".to_vec()), load).is_err());
        assert!(fetch(&directory, "y").is_none());
        set_cache_dir(None, 0);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn what_others_may_write_is_not_used() {
        use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
        let directory = folder("modes");
        keep(&directory, "x", b"content");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&directory.join("x.bin"))), (0o700, 0o600));
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        for open in [0o720, 0o702, 0o777, 0o1777] {
            set(&directory, open);
            assert!(disk::distrusted(&directory).unwrap().contains("others may write"), "{open:o}");
        }
        set(&directory, 0o755);
        assert!(disk::distrusted(&directory).is_none());
        set(&directory.join("x.bin"), 0o620);
        assert!(fetch(&directory, "x").is_none());
        // a link to a folder is that folder
        let link = folder("modes-link");
        symlink(&directory, &link).unwrap();
        assert!(disk::distrusted(&link).is_none());
        set(&directory, 0o777);
        assert!(disk::distrusted(&link).is_some());
        // root can give files away
        if std::os::unix::fs::chown(&directory, Some(12_345), None).is_ok() {
            set(&directory, 0o755);
            assert!(disk::distrusted(&directory).unwrap().contains("12345"));
        }
        fs::remove_file(&link).unwrap();
        fs::remove_dir_all(&directory).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_a_files_place_is_replaced() {
        let directory = folder("links");
        fs::create_dir_all(&directory).unwrap();
        let other = directory.join("precious");
        fs::write(&other, b"kept").unwrap();
        std::os::unix::fs::symlink(&other, directory.join("x.bin")).unwrap();
        keep(&directory, "x", b"content");
        assert_eq!(fs::read(&other).unwrap(), b"kept");
        assert_eq!(fetch(&directory, "x").as_deref(), Some(&b"content"[..]));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_written_keeps_nothing() {
        // a file where the folder should be: no one may make it, root neither
        let directory = folder("nofolder");
        fs::write(&directory, b"").unwrap();
        keep(&directory, "x", b"content");
        assert!(fetch(&directory, "x").is_none());
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
        keep(&directory, "x", b"content");
        assert!(fetch(&directory, "x").is_none());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn what_was_used_last_stays() {
        let directory = folder("trim");
        for k in 0..10u64 {
            let path = directory.join(format!("{k}.bin"));
            // with its name and the checksum a hundred bytes
            keep(&directory, &k.to_string(), &[0; 75]);
            let used = SystemTime::now() - Duration::from_secs(3600 * (20 - k));
            fs::File::options().append(true).open(&path).unwrap().set_modified(used).unwrap();
        }
        let old = directory.join(".verdigris-0123456789abcdef.part");
        fs::write(&old, b"left").unwrap();
        let hour = Duration::from_secs(3600);
        fs::File::options().append(true).open(&old).unwrap().set_modified(SystemTime::now() - hour).unwrap();
        trim(&directory, 1000);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 10, "1000 bytes fit");
        trim(&directory, 800);
        let mut left: Vec<_> = fs::read_dir(&directory).unwrap().map(|f| f.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["4.bin", "5.bin", "6.bin", "7.bin", "8.bin", "9.bin"]);
        // a use makes a file young again
        assert!(fetch(&directory, "4").is_some());
        fs::File::options()
            .append(true)
            .open(directory.join("5.bin"))
            .unwrap()
            .set_modified(SystemTime::now() - 3 * NOTED)
            .unwrap();
        assert!(fetch(&directory, "5").is_some());
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
            let name = (seed >> 20 & 15).to_string();
            match seed >> 28 {
                // as if a disk had lost what was written
                0 => fs::write(file_of(&directory, &name), b"torn").unwrap_or(()),
                1 => trim(&directory, 60_000),
                2..8 => keep(&directory, &name, &content((seed >> 12) as u8)),
                _ => {
                    if let Some(found) = fetch(&directory, &name) {
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
                    .args(["--exact", "backend::cuda::compile::cache::tests::one_of_many_processes"])
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
