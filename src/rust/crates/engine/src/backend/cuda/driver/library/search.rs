//! The folders that are searched for CUDA's libraries, and the order in which the files found there are tried.
//!
//! Searching is separate from loading: it is a function of a list of folders, so tests can run it on folders of their
//! own.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::Library;

/// How a library was found. Candidates are tried in the order of the variants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Origin {
    Option,
    Environment,
    Process,
    Package,
    Toolkit,
    Torch,
    Python,
    Loader,
    System,
}

impl Origin {
    /// A description for messages: "found by …".
    pub const fn label(self) -> &'static str {
        match self {
            Origin::Option => "option verdigris.cuda_path",
            Origin::Environment => "environment variable VERDIGRIS_CUDA_PATH",
            Origin::Process => "already loaded in this process",
            Origin::Package => "R package",
            Origin::Toolkit => "CUDA_HOME or CUDA_PATH",
            Origin::Torch => "torch for R",
            Origin::Python => "Python or conda environment",
            Origin::Loader => "the system's loader",
            Origin::System => "system folder",
        }
    }
}

/// Folders or files that R passes in.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct SearchPaths {
    /// `getOption("verdigris.cuda_path")`.
    pub option: Vec<PathBuf>,
    /// The library folders of the installed `cuda12.x` and `cuda13.x` packages, newest first.
    pub packages: Vec<PathBuf>,
    /// The library folder of an installed torch for R.
    pub torch: Vec<PathBuf>,
}

/// The folders to search, in order.
#[derive(Clone, Default, Debug)]
pub struct SearchList {
    /// Existing folders, each with the setting or installation that it comes from.
    pub folders: Vec<(Origin, PathBuf)>,
    /// Whether to use libraries that the process has loaded, and to ask the dynamic loader by bare name.
    pub loader: bool,
}

/// A file to try, or a bare name for the dynamic loader.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    pub origin: Origin,
    /// A bare name if it has no folder.
    pub path: PathBuf,
    /// The CUDA major version of the library, if its name or its folder shows it.
    pub cuda: Option<u32>,
    /// Whether the driver can run it: see `served()`.
    pub(crate) served: bool,
}

impl SearchList {
    /// The folders of this machine, in order of precedence.
    pub fn of_machine(paths: &SearchPaths) -> SearchList {
        let mut list = SearchList { folders: Vec::new(), loader: true };
        for path in &paths.option {
            list.add(Origin::Option, path);
        }
        if let Some(value) = env::var_os("VERDIGRIS_CUDA_PATH") {
            for path in env::split_paths(&value) {
                list.add(Origin::Environment, &path);
            }
        }
        for path in &paths.packages {
            list.add(Origin::Package, path);
        }
        for name in ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"] {
            if let Some(path) = env::var_os(name).filter(|p| !p.is_empty()) {
                list.add(Origin::Toolkit, Path::new(&path));
            }
        }
        for path in &paths.torch {
            list.add(Origin::Torch, path);
        }
        for prefix in python_prefixes() {
            list.add_python(&prefix);
        }
        for path in system_roots() {
            list.add(Origin::System, &path);
        }
        list
    }

    /// Adds the folders below `root` in which toolkits, wheels and R packages keep libraries. A file stands for its
    /// folder.
    pub fn add(&mut self, origin: Origin, root: &Path) {
        if root.as_os_str().is_empty() {
            return;
        }
        let root = if root.is_file() { root.parent().unwrap_or(root) } else { root };
        let target = if cfg!(target_arch = "aarch64") { "targets/sbsa-linux/lib" } else { "targets/x86_64-linux/lib" };
        for below in ["", "lib64", "lib", target, "bin", "bin/x64"] {
            self.push(origin, root.join(below));
        }
        // NVIDIA's wheels in a Python environment or an R package
        self.add_wheels(origin, &root.join("nvidia"));
    }

    fn add_python(&mut self, prefix: &Path) {
        if prefix.join("conda-meta").is_dir() {
            self.add(Origin::Python, prefix);
        }
        let mut sites = Vec::new();
        for lib in listed(&prefix.join("lib")) {
            if starts(&lib, "python3") {
                sites.extend([lib.join("site-packages"), lib.join("dist-packages")]);
            }
        }
        sites.push(prefix.join("Lib").join("site-packages"));
        for site in sites {
            self.add_wheels(Origin::Python, &site.join("nvidia"));
        }
    }

    /// Adds the library folders of NVIDIA's wheels: `nvidia/cu13/lib` (CUDA 13), `nvidia/cublas/lib` (CUDA 12).
    fn add_wheels(&mut self, origin: Origin, nvidia: &Path) {
        let mut parts = listed(nvidia);
        parts.sort_by(|a, b| b.cmp(a));
        for part in parts {
            for below in ["lib", "bin", "bin/x86_64"] {
                self.push(origin, part.join(below));
            }
        }
    }

    fn push(&mut self, origin: Origin, folder: PathBuf) {
        if folder.is_dir() && !self.folders.iter().any(|(_, known)| *known == folder) {
            self.folders.push((origin, folder));
        }
    }

    /// The candidates for a library, best first: those that the driver can run, then by origin, then the newest.
    /// `driver` is the newest CUDA major version that the driver supports.
    pub fn candidates(&self, library: Library, driver: Option<u32>) -> Vec<Candidate> {
        let mut out = Vec::new();
        for (origin, folder) in &self.folders {
            let mut found: Vec<(Rank, Candidate)> = Vec::new();
            for path in listed(folder) {
                let Some(rank) = path.file_name().and_then(OsStr::to_str).and_then(|name| rank(library, name)) else {
                    continue;
                };
                let cuda = library.cuda_of(rank.version.first().copied()).or_else(|| cuda_of_folder(folder));
                found.push((rank, Candidate { origin: *origin, path, cuda, served: served(cuda, driver) }));
            }
            // newest first, plain names before hashed ones, links (`.so.12`) before their targets (`.so.12.8.93`)
            found.sort_by(|(a, x), (b, y)| {
                (b.version.first(), a.hashed, a.version.len(), &b.version, &x.path).cmp(&(
                    a.version.first(),
                    b.hashed,
                    b.version.len(),
                    &a.version,
                    &y.path,
                ))
            });
            out.extend(found.into_iter().map(|(_, candidate)| candidate));
        }
        if self.loader {
            for name in library.names() {
                let rank = rank(library, name);
                let cuda = library.cuda_of(rank.and_then(|r| r.version.first().copied()));
                let path = PathBuf::from(name);
                out.push(Candidate { origin: Origin::Loader, path, cuda, served: served(cuda, driver) });
            }
        }
        // a stable sort: candidates of equal rank keep the order of the folders
        out.sort_by_key(|c| (!c.served, c.origin));
        out
    }
}

/// Whether a driver can run a library of this CUDA major version: its own or an earlier one, from the oldest supported
/// version on. A library of unknown version is tried.
fn served(cuda: Option<u32>, driver: Option<u32>) -> bool {
    match (cuda, driver) {
        (Some(cuda), Some(driver)) => cuda <= driver.max(super::driver::OLDEST.0) && cuda >= super::driver::OLDEST.0,
        (Some(cuda), None) => cuda >= super::driver::OLDEST.0,
        (None, _) => true,
    }
}

#[derive(PartialEq, Debug)]
struct Rank {
    /// The numbers in the file's name: `libnvrtc.so.12.8.93`.
    version: Vec<u32>,
    /// Whether the name contains a hash: torch ships `libnvrtc-1ea3d5c4.so.12`.
    hashed: bool,
}

/// The rank of a file by its name; `None` if it is not the library.
fn rank(library: Library, name: &str) -> Option<Rank> {
    let stem = library.stem();
    if let Some(rest) = name.strip_prefix("lib").and_then(|n| n.strip_prefix(stem)) {
        let at = rest.find(".so")?;
        let hashed = match &rest[..at] {
            "" => false,
            hash => {
                let hash = hash.strip_prefix('-')?;
                if hash.len() < 6 || !hash.chars().all(|c| c.is_ascii_hexdigit()) {
                    return None;
                }
                true
            }
        };
        let version = match &rest[at + 3..] {
            "" => Vec::new(),
            numbers => numbers.strip_prefix('.')?.split('.').map(|n| n.parse().ok()).collect::<Option<_>>()?,
        };
        return Some(Rank { version, hashed });
    }
    let known = library.names().iter().find(|known| known.ends_with(".dll") && name.eq_ignore_ascii_case(known))?;
    // nvrtc64_120_0.dll, cublas64_12.dll
    let number: u32 = known.trim_end_matches(".dll").split('_').nth(1)?.parse().ok()?;
    Some(Rank { version: vec![if number >= 100 { number / 10 } else { number }], hashed: false })
}

/// A folder's CUDA major version, by its name or by the other libraries in it. cuSPARSE needs this: its own number is
/// 12 with CUDA 12 and 13.
fn cuda_of_folder(folder: &Path) -> Option<u32> {
    let text = folder.to_string_lossy();
    for cuda in [13, 12] {
        let name = format!("cuda{cuda}.");
        let version = format!("cuda-{cuda}");
        if text.contains(&format!("/cu{cuda}/")) || text.contains(&name) || text.contains(&version) {
            return Some(cuda);
        }
    }
    let stems = ["cudart", "nvJitLink", "cublas", "nvrtc"];
    [13, 12].into_iter().find(|cuda| stems.iter().any(|stem| folder.join(format!("lib{stem}.so.{cuda}")).exists()))
}

/// Roots of Python environments, found without running Python.
fn python_prefixes() -> Vec<PathBuf> {
    let mut prefixes: Vec<PathBuf> = Vec::new();
    let mut add = |path: PathBuf| {
        if path.is_dir() && !prefixes.contains(&path) {
            prefixes.push(path);
        }
    };
    let of_program = |program: &Path| -> Option<PathBuf> { Some(program.parent()?.parent()?.to_path_buf()) };
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        if let Some(path) = env::var_os(name).filter(|p| !p.is_empty()) {
            add(PathBuf::from(path));
        }
    }
    // reticulate's choice, and the python3 that a shell would start
    if let Some(path) = env::var_os("RETICULATE_PYTHON").and_then(|p| of_program(Path::new(&p))) {
        add(path);
    }
    let on_path =
        env::var_os("PATH").and_then(|list| env::split_paths(&list).map(|d| d.join("python3")).find(|p| p.is_file()));
    if let Some(program) = on_path {
        of_program(&program).into_iter().for_each(&mut add);
        fs::canonicalize(&program).ok().and_then(|p| of_program(&p)).into_iter().for_each(&mut add);
    }
    if let Some(home) = env::var_os("HOME").or_else(|| env::var_os("USERPROFILE")).map(PathBuf::from) {
        add(home.join(".local"));
        for folder in [".virtualenvs", ".pyenv/versions", "miniconda3/envs", "miniforge3/envs", "anaconda3/envs"] {
            listed(&home.join(folder)).into_iter().for_each(&mut add);
        }
        for folder in ["miniconda3", "miniforge3", "anaconda3"] {
            add(home.join(folder));
        }
    }
    add(PathBuf::from("/usr/local"));
    add(PathBuf::from("/usr"));
    listed(Path::new("/opt")).into_iter().for_each(&mut add);
    prefixes
}

/// `/usr/local/cuda` first, then its versions from the newest.
fn system_roots() -> Vec<PathBuf> {
    let mut roots = Vec::new();
    if cfg!(windows) {
        let program_files =
            env::var_os("ProgramFiles").map(PathBuf::from).unwrap_or_else(|| "C:\\Program Files".into());
        roots.extend(listed(&program_files.join("NVIDIA GPU Computing Toolkit").join("CUDA")));
        roots.sort_by(|a, b| b.cmp(a));
        return roots;
    }
    let mut versions: Vec<PathBuf> =
        listed(Path::new("/usr/local")).into_iter().filter(|p| starts(p, "cuda-")).collect();
    let number = |path: &PathBuf| -> Vec<u32> {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.trim_start_matches("cuda-").split('.').filter_map(|n| n.parse().ok()).collect()
    };
    versions.sort_by_key(|path| std::cmp::Reverse(number(path)));
    roots.push(PathBuf::from("/usr/local/cuda"));
    roots.extend(versions);
    roots.push(PathBuf::from("/opt/cuda"));
    roots
}

fn starts(path: &Path, prefix: &str) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(prefix))
}

/// The entries of a folder, sorted; empty if it cannot be read.
fn listed(folder: &Path) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> =
        fs::read_dir(folder).map(|entries| entries.flatten().map(|e| e.path()).collect()).unwrap_or_default();
    out.sort();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_library_or_not() {
        let numbers = |name| rank(Library::Nvrtc, name).map(|r| r.version);
        assert_eq!(numbers("libnvrtc.so.12"), Some(vec![12]));
        assert_eq!(numbers("libnvrtc.so.12.8.93"), Some(vec![12, 8, 93]));
        assert_eq!(numbers("libnvrtc-1ea3d5c4.so.12"), Some(vec![12]));
        if cfg!(windows) {
            assert_eq!(numbers("nvrtc64_130_0.dll"), Some(vec![13]));
        }
        for other in
            ["libnvrtc.alt.so.12", "libnvrtc-builtins.so.12.8", "libnvrtc_static.a", "libnvrtc.so.12.bak", "nvrtc.txt"]
        {
            assert_eq!(numbers(other), None, "{other}");
        }
        assert!(rank(Library::Cublas, "libcublasLt.so.12").is_none());
    }

    #[test]
    fn what_the_driver_serves_comes_first() {
        let root = tempfile("search");
        let make = |folder: &str, name: &str| {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(root.join(folder).join(name), "").unwrap();
        };
        make("a/lib", "libnvrtc.so.13");
        make("a/lib", "libnvrtc.so.12");
        make("b/nvidia/cu13/lib", "libcusparse.so.12");
        make("b/nvidia/cusparse/lib", "libcusparse.so.12");
        let mut list = SearchList::default();
        list.add(Origin::Toolkit, &root.join("a"));
        list.add(Origin::Python, &root.join("b"));
        let order =
            |library, driver| -> Vec<Option<u32>> { list.candidates(library, driver).iter().map(|c| c.cuda).collect() };
        assert_eq!(order(Library::Nvrtc, Some(12)), [Some(12), Some(13)]);
        assert_eq!(order(Library::Nvrtc, Some(13)), [Some(13), Some(12)]);
        assert_eq!(order(Library::Nvrtc, None), [Some(13), Some(12)]);
        // both have the same soname; only their folders show the version
        let first = list.candidates(Library::Cusparse, Some(12)).remove(0);
        assert!(first.path.ends_with("nvidia/cusparse/lib/libcusparse.so.12"), "{first:?}");
        fs::remove_dir_all(&root).unwrap();
    }

    pub fn tempfile(name: &str) -> PathBuf {
        let path = env::temp_dir().join(format!("verdigris-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }
}
