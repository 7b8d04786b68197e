//! Finds the file that the system's loader would open for a bare name, and checks whether it can be opened without
//! harm.
//!
//! glibc's loader trusts the files that it finds. So a name is first looked up here, in the loader's order; each file
//! that the loader would open is checked, its dependencies too, and the library is then loaded by its path. Names that
//! are not found here (musl, and folders that glibc was built with) are left to the loader.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::elf::{self, Unfit};
use super::handle::{load, Failure, Handle};

/// The folders that the loader searches, in its order.
pub struct Loader {
    /// Of `LD_LIBRARY_PATH`.
    folders: Vec<PathBuf>,
    /// Text of `ld.so.cache`.
    cache: Vec<u8>,
    defaults: Vec<PathBuf>,
}

impl Handle {
    /// Loads a library by path, or by a bare name that the process has or the loader knows.
    pub fn open(path: &Path) -> std::result::Result<Handle, Failure> {
        Handle::open_by(path, &Loader::of_process())
    }

    pub(crate) fn open_by(path: &Path, loader: &Loader) -> std::result::Result<Handle, Failure> {
        if path.components().count() > 1 || cfg!(windows) {
            return Handle::open_file(path, loader);
        }
        let name = path.to_string_lossy();
        if let Some(handle) = Handle::loaded(&name) {
            return Ok(handle);
        }
        let mut first = None;
        for file in loader.files(&name, &[]) {
            match Handle::open_file(&file, loader) {
                Ok(handle) => return Ok(handle),
                Err(failure) => {
                    let reason = format!("{}: {}", file.display(), failure.reason);
                    first.get_or_insert(Failure { absent: false, reason });
                }
            }
        }
        match first {
            Some(failure) => Err(failure),
            // the loader may have folders that are not known here
            None => load(path).map_err(|reason| Failure { absent: true, reason }),
        }
    }

    fn open_file(path: &Path, loader: &Loader) -> std::result::Result<Handle, Failure> {
        let absent = std::fs::symlink_metadata(path).is_err();
        if !cfg!(windows) {
            loader.check(path).map_err(|unfit| Failure { absent, reason: unfit.reason })?;
        }
        load(path).map_err(|reason| Failure { absent, reason })
    }
}

impl Loader {
    pub fn of_process() -> Loader {
        let target = if cfg!(target_arch = "aarch64") { "aarch64-linux-gnu" } else { "x86_64-linux-gnu" };
        let defaults = ["/lib/{}", "/usr/lib/{}", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];
        Loader {
            folders: split(&initial("LD_LIBRARY_PATH")),
            cache: fs::read("/etc/ld.so.cache").unwrap_or_default(),
            defaults: defaults.iter().map(|folder| folder.replace("{}", target).into()).collect(),
        }
    }

    #[cfg(test)]
    pub fn of(folders: &[&Path]) -> Loader {
        let folders = folders.iter().map(|&folder| folder.into()).collect();
        Loader { folders, cache: Vec::new(), defaults: Vec::new() }
    }

    /// Files of a name, in the loader's order; `first` are folders that are looked through before.
    pub fn files(&self, name: &str, first: &[PathBuf]) -> Vec<PathBuf> {
        let inside = |folders: &[PathBuf]| folders.iter().map(|folder| folder.join(name)).collect::<Vec<_>>();
        let mut files = inside(first);
        files.extend(inside(&self.folders));
        files.extend(self.cached(name));
        files.extend(inside(&self.defaults));
        // a link that leads nowhere is no file to the loader
        files.retain(|path| fs::metadata(path).is_ok());
        files
    }

    /// Paths of `ld.so.cache` that end in the name. The cache is strings behind a table; the strings are all that is
    /// looked at.
    fn cached(&self, name: &str) -> Vec<PathBuf> {
        let ending = format!("/{name}");
        let found = self.cache.split(|&b| b == 0).filter(|text| text.ends_with(ending.as_bytes()));
        found
            .map(|text| PathBuf::from(String::from_utf8_lossy(text).into_owned()))
            .filter(|p| p.is_absolute())
            .collect()
    }

    /// Whether a file, and what it is linked against and the process does not have, can be loaded without harm.
    pub fn check(&self, path: &Path) -> Result<(), Unfit> {
        self.check_all(path, &mut HashSet::new())
    }

    fn check_all(&self, path: &Path, seen: &mut HashSet<PathBuf>) -> Result<(), Unfit> {
        if !seen.insert(path.into()) {
            return Ok(());
        }
        let library = elf::read(path)?;
        let origin = path.parent().unwrap_or(Path::new("")).to_string_lossy().into_owned();
        let own: Vec<PathBuf> = library
            .runpath
            .iter()
            .map(|folder| folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin).into())
            .collect();
        for name in library.needed.iter().filter(|name| Handle::loaded(name).is_none()) {
            let files = if name.contains('/') { vec![PathBuf::from(name)] } else { self.files(name, &own) };
            // the loader passes over files of other machines, and opens the first of its own
            for file in files {
                match self.check_all(&file, seen) {
                    Ok(()) => break,
                    Err(unfit) if unfit.skipped => {}
                    Err(unfit) => {
                        let reason = format!("needs {}: {}", file.display(), unfit.reason);
                        return Err(Unfit { reason, skipped: false });
                    }
                }
            }
        }
        Ok(())
    }
}

/// Folders of a list such as `LD_LIBRARY_PATH`; an empty one is the current folder.
fn split(list: &OsStr) -> Vec<PathBuf> {
    let list = list.to_string_lossy();
    if list.is_empty() {
        return Vec::new();
    }
    list.split([':', ';']).map(|folder| PathBuf::from(if folder.is_empty() { "." } else { folder })).collect()
}

/// An environment variable as it was when the process began: the loader does not look again.
fn initial(name: &str) -> OsString {
    let Ok(all) = fs::read("/proc/self/environ") else { return std::env::var_os(name).unwrap_or_default() };
    let value = all.split(|&b| b == 0).find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    String::from_utf8_lossy(value.unwrap_or_default()).into_owned().into()
}
