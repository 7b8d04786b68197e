//! Files on disk: opened without blocking, and written under a temporary name that is renamed once the file is
//! complete.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub mod direct;

/// On these systems direct I/O is not supported: `Direct::open` returns an error, and files are read the usual way.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))))]
pub mod direct {
    use std::io;
    use std::path::Path;

    pub enum Direct {}

    impl Direct {
        pub fn open(_: &Path) -> io::Result<Direct> {
            Err(io::Error::new(io::ErrorKind::Unsupported, "direct I/O is implemented for Linux only"))
        }

        pub fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
            match *self {}
        }
    }
}

/// Opens a regular file for reading; also returns its size. A FIFO or a device is refused at once, because opening it
/// the usual way may block for ever.
pub fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        const O_NONBLOCK: i32 = if cfg!(target_os = "linux") { 0o4000 } else { 4 };
        options.custom_flags(O_NONBLOCK);
    }
    // Checked before opening as well: opening some devices has side effects, and the error for a socket is unclear.
    regular(&fs::metadata(path)?)?;
    let file = options.open(path)?;
    let facts = file.metadata()?;
    regular(&facts)?;
    Ok((file, facts.len()))
}

/// The bytes of a regular file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let (mut file, length) = open_regular(path)?;
    let out = usize::try_from(length).ok().and_then(|n| crate::memory::fallible::filled(0u8, n).ok());
    let mut bytes = out.ok_or(io::ErrorKind::OutOfMemory)?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// An error that says what the path is, if it is not a regular file.
fn regular(facts: &fs::Metadata) -> io::Result<()> {
    if facts.is_file() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {}, not a file", kind_of(facts))))
}

/// What kind of file this is, for messages.
fn kind_of(facts: &fs::Metadata) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = facts.file_type();
        if kind.is_fifo() {
            return "a FIFO";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_block_device() || kind.is_char_device() {
            return "a device";
        }
    }
    if facts.is_dir() {
        "a folder"
    } else {
        "a special file"
    }
}

/// A file that is being written under a temporary name in its target's folder. Dropping it before `put` removes it.
pub struct Part {
    file: File,
    path: PathBuf,
    target: PathBuf,
    #[cfg_attr(not(unix), allow(dead_code))]
    kept: Option<fs::Metadata>,
    /// Whether the file must survive a power failure.
    durable: bool,
    done: bool,
}

const PREFIX: &str = ".verdigris-";
const SUFFIX: &str = ".part";
/// A part is locked while its writer lives. It is not locked for a moment after its creation, so `sweep` leaves parts
/// younger than this alone.
const YOUNG: Duration = Duration::from_secs(60);

impl Part {
    /// A temporary file for `target`, or for the file to which the link `target` leads. An existing file is replaced
    /// and keeps its mode and owner; a new file gets `mode`, restricted by the umask.
    ///
    /// # Errors
    /// Where the path exists but is no regular file, or its folder cannot be written to.
    pub fn new(target: &Path, mode: u32) -> io::Result<Part> {
        let target = followed(target)?;
        let kept = match fs::symlink_metadata(&target) {
            Ok(facts) => {
                regular(&facts)?;
                Some(facts)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Part::open(target, kept, mode, true)
    }

    /// A temporary file that only this user may read, and that need not survive a power failure. Whatever is at
    /// `target`, even a link, is replaced.
    pub fn private(target: &Path) -> io::Result<Part> {
        Part::open(target.into(), None, 0o600, false)
    }

    fn open(target: PathBuf, kept: Option<fs::Metadata>, mode: u32, durable: bool) -> io::Result<Part> {
        let folder = folder_of(&target);
        let mut options = OpenOptions::new();
        // exclusive: a link of this name is not followed
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            // The replacement of a private file must never be readable by others.
            options.mode(if kept.is_some() { 0o600 } else { mode });
        }
        #[cfg(not(unix))]
        let _ = mode;
        let mut tries = 0;
        loop {
            // A std hasher gets its keys from the system's random numbers.
            let random = RandomState::new().hash_one((std::process::id(), tries));
            let path = folder.join(format!("{PREFIX}{random:016x}{SUFFIX}"));
            match options.open(&path) {
                Ok(file) => {
                    lock(&file);
                    return Ok(Part { file, path, target, kept, durable, done: false });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < 100 => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Moves the file to its target, after its bytes are on the disk. An existing file is replaced atomically, or
    /// unchanged on failure.
    pub fn put(mut self) -> io::Result<()> {
        #[cfg(unix)]
        if let Some(kept) = &self.kept {
            use std::os::unix::fs::{fchown, MetadataExt, PermissionsExt};
            let own = self.file.metadata()?;
            if (own.uid(), own.gid()) != (kept.uid(), kept.gid()) {
                // Only root may change the owner, and only a group's members the group. If neither works, the file
                // belongs to its writer, as it does after `mv`.
                let changed = fchown(&self.file, Some(kept.uid()), Some(kept.gid()))
                    .or_else(|_| fchown(&self.file, None, Some(kept.gid())));
                let _ = changed;
            }
            // After the owner: changing the owner clears the set-user-ID and set-group-ID bits. A file of another owner
            // or group than before must not have them.
            let own = self.file.metadata()?;
            let mut mode = kept.mode() & 0o7777;
            for (same, bit) in [(own.uid() == kept.uid(), 0o4000), (own.gid() == kept.gid(), 0o2000)] {
                if !same {
                    mode &= !bit;
                }
            }
            self.file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        if self.durable {
            self.file.sync_all()?;
        }
        fs::rename(&self.path, &self.target)?;
        self.done = true;
        // Synchronises the folder, which has the new name. Some file systems (FUSE, SMB) cannot; that is ignored.
        #[cfg(unix)]
        if let (true, Ok(folder)) = (self.durable, File::open(folder_of(&self.target))) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Follows symbolic links at the end of a path. The last link may lead to a file that does not exist yet.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    // Linux follows as many.
    for _ in 0..40 {
        match fs::read_link(&path) {
            Ok(to) => path = folder_of(&path).join(to),
            // not a link
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Removes temporary files from a folder whose writers were killed.
pub fn sweep(folder: &Path) {
    let Ok(listed) = fs::read_dir(folder) else { return };
    for entry in listed.flatten() {
        if is_part(&entry.file_name().to_string_lossy()) && is_abandoned(&entry) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_part(name: &str) -> bool {
    let random = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    random.is_some_and(|random| random.len() == 16 && random.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn is_abandoned(entry: &fs::DirEntry) -> bool {
    let old = |facts: &fs::Metadata| {
        facts.is_file() && facts.modified().is_ok_and(|t| t.elapsed().is_ok_and(|age| age > YOUNG))
    };
    // A part is never a link, so links are not followed.
    entry.metadata().is_ok_and(|facts| old(&facts)) && open_regular(&entry.path()).is_ok_and(|(file, _)| lock(&file))
}

/// Locks a file until it is closed. Returns false if another process holds the lock, or the file system has no locks.
#[cfg(unix)]
fn lock(file: &File) -> bool {
    use std::os::fd::AsRawFd;
    unsafe extern "C" {
        fn flock(file: std::ffi::c_int, operation: std::ffi::c_int) -> std::ffi::c_int;
    }
    const EXCLUSIVE: i32 = 2;
    const NONBLOCKING: i32 = 4;
    // SAFETY: the descriptor is open.
    unsafe { flock(file.as_raw_fd(), EXCLUSIVE | NONBLOCKING) == 0 }
}

#[cfg(not(unix))]
fn lock(_: &File) -> bool {
    // Windows does not remove open files.
    true
}

/// Why files in a folder may have been written by others; None if only this user (or root) can write to it, or if it
/// does not exist.
pub fn distrusted(folder: &Path) -> Option<String> {
    match fs::metadata(folder) {
        Ok(facts) if !facts.is_dir() => Some(format!("it is {}, not a folder", kind_of(&facts))),
        Ok(facts) => foreign(&facts),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(error.to_string()),
    }
}

/// Why a file or folder may have been written by others: its owner, or its mode.
#[cfg(unix)]
pub fn foreign(facts: &fs::Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    unsafe extern "C" {
        fn geteuid() -> u32;
    }
    // SAFETY: it has no arguments and cannot fail.
    let me = unsafe { geteuid() };
    if facts.uid() != me && facts.uid() != 0 {
        return Some(format!("it belongs to user {}, not to user {me}", facts.uid()));
    }
    let mode = facts.mode() & 0o7777;
    (mode & 0o022 != 0).then(|| format!("others may write to it (mode {mode:o})"))
}

#[cfg(not(unix))]
pub fn foreign(_: &fs::Metadata) -> Option<String> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
    use std::time::SystemTime;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("verdigris-disk-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn write(path: &Path, text: &str) -> io::Result<()> {
        let part = Part::new(path, 0o666)?;
        part.file().write_all(text.as_bytes())?;
        part.put()
    }

    #[test]
    fn modes_are_kept_and_links_followed() {
        let folder = folder("kept");
        let path = folder.join("x");
        write(&path, "one").unwrap();
        for mode in [0o600, 0o640, 0o666, 0o444] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            write(&path, "two").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
        }
        // Root can give files away; replacing them keeps the owner.
        if std::os::unix::fs::chown(&path, Some(12_345), Some(12_346)).is_ok() {
            write(&path, "three").unwrap();
            let facts = fs::metadata(&path).unwrap();
            assert_eq!((facts.uid(), facts.gid()), (12_345, 12_346));
        }
        fs::create_dir(folder.join("below")).unwrap();
        let links = [("a", "x"), ("b", "a"), ("c", "below/../b"), ("new", "below/made")];
        for (link, to) in links {
            symlink(to, folder.join(link)).unwrap();
            write(&folder.join(link), link).unwrap();
            assert_eq!(fs::read_link(folder.join(link)).unwrap(), Path::new(to));
        }
        assert_eq!(fs::read(&path).unwrap(), b"c");
        assert_eq!(fs::read(folder.join("below/made")).unwrap(), b"new");
        symlink("round", folder.join("round")).unwrap();
        assert!(write(&folder.join("round"), "").is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_no_file_stays() {
        let folder = folder("special");
        let fifo = folder.join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let socket = folder.join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        symlink(&fifo, folder.join("link")).unwrap();
        for (path, kind) in [
            (fifo.as_path(), "a FIFO"),
            (&folder.join("link"), "a FIFO"),
            (&socket, "a socket"),
            (&folder, "a folder"),
            (Path::new("/dev/null"), "a device"),
            (Path::new("/dev/full"), "a device"),
        ] {
            for error in [write(path, "x").unwrap_err(), open_regular(path).map(|_| ()).unwrap_err()] {
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", path.display());
                assert!(error.to_string().contains(kind), "{error}");
            }
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn parts_of_the_dead_are_swept() {
        let folder = folder("sweep");
        let kept = Part::new(&folder.join("x"), 0o666).unwrap();
        let age = |path: &Path| {
            File::options().append(true).open(path).unwrap().set_modified(SystemTime::now() - 2 * YOUNG).unwrap();
        };
        age(&kept.path);
        let make = |name: &str| {
            fs::write(folder.join(name), "").unwrap();
            folder.join(name)
        };
        let dead = make(".verdigris-00000000deadbeef.part");
        age(&dead);
        let young = make(".verdigris-0000000000000001.part");
        let others = [".verdigris-0001.part", "x.part", ".verdigris-00000000deadbeeg.part"].map(make);
        others.iter().for_each(|path| age(path));
        sweep(&folder);
        assert!(!dead.exists() && kept.path.exists() && young.exists() && others.iter().all(|path| path.exists()));
        let path = kept.path.clone();
        drop(kept);
        assert!(!path.exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
