//! Finds the file that the system's loader would open for a bare name, and checks that it can be loaded safely.
//!
//! glibc's loader trusts the files that it finds. So a name is first looked up here, in the loader's order, the file
//! and its dependencies are checked, and the library is then loaded by its path. Names that are not found here (with
//! musl, or in folders built into glibc) are left to the loader.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::elf::{self, Unfit};
use super::handle::{load, Failure, Handle};

/// The folders that the loader searches, in its order.
pub struct Loader {
    /// Folders of `LD_LIBRARY_PATH`.
    folders: Vec<PathBuf>,
    /// Content of `ld.so.cache`.
    cache: Vec<u8>,
    defaults: Vec<PathBuf>,
}

impl Handle {
    /// Loads a library by path or by bare name. A bare name may be that of a library that is already loaded.
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
            // the loader may search folders that are not known here
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

    /// The existing files with a name, in the loader's order; the folders `first` are searched before the others.
    pub fn files(&self, name: &str, first: &[PathBuf]) -> Vec<PathBuf> {
        let inside = |folders: &[PathBuf]| folders.iter().map(|folder| folder.join(name)).collect::<Vec<_>>();
        let mut files = inside(first);
        files.extend(inside(&self.folders));
        files.extend(self.cached(name));
        files.extend(inside(&self.defaults));
        // the loader ignores dangling links
        files.retain(|path| fs::metadata(path).is_ok());
        files
    }

    /// Paths in `ld.so.cache` that end in the name. The cache is a table followed by strings; only the strings are
    /// examined.
    fn cached(&self, name: &str) -> Vec<PathBuf> {
        let ending = format!("/{name}");
        let found = self.cache.split(|&b| b == 0).filter(|text| text.ends_with(ending.as_bytes()));
        found
            .map(|text| PathBuf::from(String::from_utf8_lossy(text).into_owned()))
            .filter(|p| p.is_absolute())
            .collect()
    }

    /// Checks that a file, and those of its dependencies that the process has not loaded, can be loaded safely.
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
            // the loader skips files for other machines, and opens the first one for this machine
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

/// The folders in a list such as `LD_LIBRARY_PATH`; an empty entry is the current folder.
fn split(list: &OsStr) -> Vec<PathBuf> {
    let list = list.to_string_lossy();
    if list.is_empty() {
        return Vec::new();
    }
    list.split([':', ';']).map(|folder| PathBuf::from(if folder.is_empty() { "." } else { folder })).collect()
}

/// An environment variable as it was when the process started, since the loader reads it only then.
fn initial(name: &str) -> OsString {
    let Ok(all) = fs::read("/proc/self/environ") else { return std::env::var_os(name).unwrap_or_default() };
    let value = all.split(|&b| b == 0).find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    String::from_utf8_lossy(value.unwrap_or_default()).into_owned().into()
}
