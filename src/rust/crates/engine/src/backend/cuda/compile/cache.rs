//! The disk cache of compiled kernels, a folder that many processes use at once.
//!
//! A file is named by a hash of everything that the kernel depends on. The file contains that name too, ends in a
//! checksum of both, and is written under another name and renamed into place. So a reader sees the complete file of
//! the right kernel or none. Errors are harmless: a kernel that cannot be read is compiled, and one that cannot be
//! written is not cached. Cached code runs with the user's rights, so a folder or file that others may write to is not
//! used. The least recently used files are removed when the total size exceeds the limit.

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

/// The cache folder and its limit in bytes; None for no disk cache.
static CACHE: Mutex<Option<(PathBuf, u64)>> = Mutex::new(None);

/// Sets the folder and its limit in bytes; `None` disables the disk cache.
pub fn set_cache_dir(directory: Option<PathBuf>, limit: u64) {
    *lock(&CACHE) = directory.map(|directory| (directory, limit));
}

/// The folder and the limit; None where others may write to the folder.
fn configured() -> Option<(PathBuf, u64)> {
    let cache = lock(&CACHE).clone()?;
    disk::distrusted(&cache.0).is_none().then_some(cache)
}

/// Whether the disk cache is enabled.
pub(crate) fn is_on() -> bool {
    configured().is_some()
}

/// Why the configured folder is not used, if so.
pub fn cache_problem() -> Option<String> {
    let (directory, _) = lock(&CACHE).clone()?;
    disk::distrusted(&directory)
}

/// The total size is checked at the first write and at every 32nd one after it.
const TRIM_EVERY: u32 = 32;
/// The modification time, which is that of the last use, is updated only when older than this, so that not every read
/// writes.
const NOTED: Duration = Duration::from_secs(24 * 3600);
/// The first bytes of each file; they change with the layout.
const MAGIC: &[u8; 8] = b"vgkern02";
/// Larger files are not read: no kernel is this large.
const MOST: u64 = 1 << 30;

/// Whether a file of this name exists; it may be damaged.
pub(crate) fn has(name: &str) -> bool {
    configured().is_some_and(|(directory, _)| file_of(&directory, name).exists())
}

fn file_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.bin"))
}

/// Loads the cached content of a name with `load`. If there is none or it does not load, loads what `make` returns and
/// caches that. So a file that is intact and does not load is replaced. Without a name nothing is cached.
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

/// The header of a file: the layout's magic bytes, and the length and text of its name.
fn head(name: &str) -> Vec<u8> {
    [&MAGIC[..], &(name.len() as u64).to_le_bytes(), name.as_bytes()].concat()
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish().to_le_bytes()
}

/// The content of a file, if it is intact, has this name, and belongs to this user.
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
        // fails if the folder is read-only
        let _ = file.set_modified(SystemTime::now());
    }
    Some(bytes)
}

/// Writes a file and renames it into place, so that no reader sees part of it. Errors are ignored.
fn keep(directory: &Path, name: &str, bytes: &[u8]) {
    let mut content = [&head(name), bytes].concat();
    let end = checksum(&content);
    content.extend_from_slice(&end);
    let _ = make_folder(directory)
        .and_then(|()| Part::private(&file_of(directory, name)))
        .and_then(|part| part.file().write_all(&content).and_then(|()| part.put()));
}

/// Creates a folder that only this user may access.
fn make_folder(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Removes parts that killed processes have left and, if the total exceeds the limit, the least recently used files
/// until three quarters of the limit remain. Files that another process removes meanwhile are skipped.
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
        // truncated at every length
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
        // content that does not load is not cached
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
        // a symbolic link is judged by the folder that it points to
        let link = folder("modes-link");
        symlink(&directory, &link).unwrap();
        assert!(disk::distrusted(&link).is_none());
        set(&directory, 0o777);
        assert!(disk::distrusted(&link).is_some());
        // only root can change the owner
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
        // a file in place of the folder: nobody can create the folder, not even root
        let directory = folder("nofolder");
        fs::write(&directory, b"").unwrap();
        keep(&directory, "x", b"content");
        assert!(fetch(&directory, "x").is_none());
        trim(&directory, 0);
        fs::remove_file(&directory).unwrap();
        // a full disk: writes to /dev/full fail
        if Path::new("/dev/full").exists() {
            assert!(fs::write("/dev/full", b"content").is_err());
        }
        // a folder in place of the file: the rename fails, and the temporary file is removed
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
            // with header and checksum 100 bytes
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
        // reading a file updates its time
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

    /// Content that is determined by its first byte.
    fn content(seed: u8) -> Vec<u8> {
        (0..10_000u32).map(|i| seed.wrapping_add((i / 7) as u8)).collect()
    }

    const FOLDER: &str = "VERDIGRIS_TEST_CACHE_FOLDER";

    /// One of the processes of the next test, which starts this test in each of them.
    #[test]
    fn one_of_many_processes() {
        let Some(directory) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
        let mut seed = std::process::id();
        let mut read = 0;
        for round in 0..400 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let name = (seed >> 20 & 15).to_string();
            match seed >> 28 {
                // simulates a write that was lost in part
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
