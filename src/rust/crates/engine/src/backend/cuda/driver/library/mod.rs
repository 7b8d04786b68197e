//! Finds and loads CUDA's libraries.
//!
//! cudarc loads by bare name, panics if a library is missing, and treats an unknown status code as a value of its
//! enums. So no CUDA function is called before this module has found the library and checked it: `driver()` for the
//! driver, `load()` for the other libraries. Statuses are `u32` here. Once a library is loaded by full path, later
//! requests for its soname, by cudarc or by other CUDA libraries, resolve to it (glibc compares sonames). This module
//! searches, loads, reads versions, and advises how to install what is missing. It does not use the libraries.

pub mod driver;
mod elf;
mod handle;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub mod imports;
mod loader;
mod search;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::Mutex;

pub use driver::{DeviceInfo, Driver};
use handle::lacks;
pub use handle::{Failure, Handle};
use search::Candidate;
pub use search::{Origin, SearchList, SearchPaths};

use verdigris_ops::error::{Error, Kind, Result};

/// CUDA's libraries, without the driver's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Library {
    Nvrtc,
    NvJitLink,
    CublasLt,
    Cublas,
    Cusparse,
    Cusolver,
    Cufft,
    Nccl,
}

type Property = unsafe extern "C" fn(c_int, *mut c_int) -> u32;
type Number = unsafe extern "C" fn(*mut c_int) -> u32;
type Pair = unsafe extern "C" fn(*mut c_int, *mut c_int) -> u32;

impl Library {
    /// All libraries; each comes after those that it depends on.
    pub const ALL: [Library; 8] = [
        Library::Nvrtc,
        Library::NvJitLink,
        Library::CublasLt,
        Library::Cublas,
        Library::Cusparse,
        Library::Cusolver,
        Library::Cufft,
        Library::Nccl,
    ];

    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Library::Nvrtc => "NVRTC",
            Library::NvJitLink => "nvJitLink",
            Library::CublasLt => "cuBLASLt",
            Library::Cublas => "cuBLAS",
            Library::Cusparse => "cuSPARSE",
            Library::Cusolver => "cuSOLVER",
            Library::Cufft => "cuFFT",
            Library::Nccl => "NCCL",
        }
    }

    /// What the package needs the library for.
    pub const fn purpose(self) -> &'static str {
        match self {
            Library::Nvrtc => "a kernel for each expression, and user-written kernels",
            Library::NvJitLink => "linking for cuSPARSE and cuSOLVER",
            Library::CublasLt | Library::Cublas => "matrix products",
            Library::Cusparse => "sparse matrices",
            Library::Cusolver => "solve, chol, qr, svd, eigen",
            Library::Cufft => "fft",
            Library::Nccl => "several GPUs at once",
        }
    }

    const fn stem(self) -> &'static str {
        match self {
            Library::Nvrtc => "nvrtc",
            Library::NvJitLink => "nvJitLink",
            Library::CublasLt => "cublasLt",
            Library::Cublas => "cublas",
            Library::Cusparse => "cusparse",
            Library::Cusolver => "cusolver",
            Library::Cufft => "cufft",
            Library::Nccl => "nccl",
        }
    }

    /// The bare names under which the loader may find the library: those of CUDA 13, then those of CUDA 12.
    const fn names(self) -> &'static [&'static str] {
        if cfg!(windows) {
            match self {
                Library::Nvrtc => &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"],
                Library::NvJitLink => &["nvJitLink_130_0.dll", "nvJitLink_120_0.dll"],
                Library::CublasLt => &["cublasLt64_13.dll", "cublasLt64_12.dll"],
                Library::Cublas => &["cublas64_13.dll", "cublas64_12.dll"],
                Library::Cusparse => &["cusparse64_12.dll"],
                Library::Cusolver => &["cusolver64_12.dll", "cusolver64_11.dll"],
                Library::Cufft => &["cufft64_12.dll", "cufft64_11.dll"],
                Library::Nccl => &[],
            }
        } else {
            match self {
                Library::Nvrtc => &["libnvrtc.so.13", "libnvrtc.so.12"],
                Library::NvJitLink => &["libnvJitLink.so.13", "libnvJitLink.so.12"],
                Library::CublasLt => &["libcublasLt.so.13", "libcublasLt.so.12"],
                Library::Cublas => &["libcublas.so.13", "libcublas.so.12"],
                Library::Cusparse => &["libcusparse.so.12"],
                Library::Cusolver => &["libcusolver.so.12", "libcusolver.so.11"],
                Library::Cufft => &["libcufft.so.12", "libcufft.so.11"],
                Library::Nccl => &["libnccl.so.2"],
            }
        }
    }

    /// The major CUDA version that a library with this major version belongs to; None where it cannot be told.
    fn cuda_of(self, number: Option<u32>) -> Option<u32> {
        match (self, number?) {
            (Library::Cusparse, 12) | (Library::Nccl, _) => None,
            // their versions are one below CUDA's since CUDA 11
            (Library::Cusolver | Library::Cufft, n) => Some(n + 1),
            (_, n) => Some(n),
        }
    }

    /// A function that the file must have to be accepted as this library.
    const fn essential(self) -> Option<&'static str> {
        match self {
            Library::Nvrtc => Some("nvrtcCompileProgram"),
            Library::NvJitLink => None, // its names carry versions
            Library::CublasLt => Some("cublasLtCreate"),
            Library::Cublas => Some("cublasCreate_v2"),
            Library::Cusparse => Some("cusparseCreate"),
            Library::Cusolver => Some("cusolverDnCreate"),
            Library::Cufft => Some("cufftCreate"),
            Library::Nccl => Some("ncclCommInitAll"),
        }
    }

    /// The libraries that it is linked against, to load beforehand if the loader does not find them itself.
    const fn needs(self) -> &'static [Library] {
        match self {
            Library::Cublas => &[Library::CublasLt],
            Library::Cusparse => &[Library::NvJitLink],
            Library::Cusolver => &[Library::NvJitLink, Library::CublasLt, Library::Cublas, Library::Cusparse],
            _ => &[],
        }
    }

    /// The version that the library itself reports; `None` if it has no such function or the call fails.
    fn version(self, handle: &Handle) -> Option<Vec<u32>> {
        let ask_property = |name| {
            // SAFETY: lib*GetProperty(libraryPropertyType, int*): 0 major, 1 minor, 2 patch.
            unsafe {
                let get: Property = handle.function(name)?;
                let mut out = [0; 3];
                for (which, value) in out.iter_mut().enumerate() {
                    if get(which as c_int, value) != 0 {
                        return None;
                    }
                }
                Some(out.to_vec())
            }
        };
        let ask_pair = |name| {
            // SAFETY: the function writes two ints.
            unsafe {
                let get: Pair = handle.function(name)?;
                let (mut major, mut minor) = (0, 0);
                (get(&mut major, &mut minor) == 0).then(|| vec![major, minor])
            }
        };
        let numbers = match self {
            Library::Nvrtc => ask_pair("nvrtcVersion"),
            Library::NvJitLink => ask_pair("nvJitLinkVersion"),
            Library::CublasLt => ask_property("cublasLtGetProperty"),
            Library::Cublas => ask_property("cublasGetProperty"),
            Library::Cusparse => ask_property("cusparseGetProperty"),
            Library::Cusolver => ask_property("cusolverGetProperty"),
            Library::Cufft => ask_property("cufftGetProperty"),
            Library::Nccl => {
                // SAFETY: ncclGetVersion(int*); 22807 is 2.28.7.
                let number = unsafe {
                    let get: Number = handle.function("ncclGetVersion")?;
                    let mut number = 0;
                    (get(&mut number) == 0).then_some(number)?
                };
                Some(vec![number / 10000, number / 100 % 100, number % 100])
            }
        }?;
        numbers.into_iter().map(|n| u32::try_from(n).ok()).collect()
    }

    /// The Python wheel that contains the library.
    const fn wheel(self) -> &'static str {
        match self {
            Library::Nvrtc => "nvidia-cuda-nvrtc",
            Library::NvJitLink => "nvidia-nvjitlink",
            Library::CublasLt | Library::Cublas => "nvidia-cublas",
            Library::Cusparse => "nvidia-cusparse",
            Library::Cusolver => "nvidia-cusolver",
            Library::Cufft => "nvidia-cufft",
            Library::Nccl => "nvidia-nccl",
        }
    }

    /// The R command that installs the library. CUDA 12.8 runs on every supported driver and supports every GPU up to
    /// Blackwell, so the command is the same for all libraries.
    pub fn remedy(self) -> String {
        "install.packages(\"cuda12.8\", repos = \"https://mlverse.r-universe.dev\")".into()
    }

    fn missing(self, driver: Option<u32>, tried: &[String]) -> Error {
        let cuda = if driver == Some(12) || self == Library::Nccl { "12" } else { "13" };
        // the wheels of CUDA 13 have no suffix
        let suffix = if cuda == "12" { "-cu12" } else { "" };
        let found = if tried.is_empty() { "was not found" } else { "was found, but cannot be loaded" };
        Error::new(Kind::Library, format!("{} ({}) {found}", self.name(), self.purpose()))
            .advise(format!("Install it: `{}`.", self.remedy()))
            .advise(format!(
                "Or: `pip install {}{suffix}`; or name the folder that has it: `options(verdigris.cuda_path = )`.",
                self.wheel()
            ))
            .detail(tried.join("\n"))
    }
}

/// A library that is loaded until the process ends.
pub struct Loaded {
    pub library: Library,
    pub path: PathBuf,
    pub origin: Origin,
    /// The version that the library reports, else that in its file name; empty if neither tells.
    pub version: Vec<u32>,
    handle: Handle,
}

impl Loaded {
    /// The version as text: `12.8.93`, or `unknown`.
    pub fn version_text(&self) -> String {
        if self.version.is_empty() {
            return "unknown".into();
        }
        self.version.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
    }

    /// A function of the library, as an `unsafe extern "C" fn` type whose status is `u32`.
    ///
    /// # Safety
    /// `F` must be a function pointer type with the signature that the library's header gives.
    ///
    /// # Errors
    /// `Library` where this version has no such function.
    pub unsafe fn symbol<F: Copy>(&self, name: &str) -> Result<F> {
        // SAFETY: the caller's promise.
        unsafe { self.handle.function(name) }.ok_or_else(|| {
            lacks(&self.path, name).advise(format!(
                "This is {} {}; install a newer one: `{}`.",
                self.library.name(),
                self.version_text(),
                self.library.remedy()
            ))
        })
    }
}

/// Searches for a library, and loads the first candidate that works.
///
/// # Errors
/// `Library`, with the files that were tried in the detail.
pub fn open(library: Library, search: &SearchList, driver: Option<u32>) -> Result<Loaded> {
    let mut tried = Vec::new();
    let candidates = search.candidates(library, driver);
    // Dependencies are resolved by soname: if torch's cuBLASLt is loaded, a newly loaded cuBLAS would use it, whatever
    // its version. So a library that the process already has is preferred to all but the user's own paths.
    let named = |c: &&Candidate| c.origin <= Origin::Environment;
    let in_process = if search.loader { in_process(library, driver) } else { None };
    for candidate in candidates.iter().filter(named) {
        match attempt(library, candidate, search, driver) {
            Ok(loaded) => return Ok(loaded),
            Err(failure) => tried.push(failure.reason),
        }
    }
    if let Some(loaded) = in_process {
        return Ok(loaded);
    }
    for candidate in candidates.iter().filter(|c| !named(c)) {
        match attempt(library, candidate, search, driver) {
            Ok(loaded) => return Ok(loaded),
            // a bare name that the loader does not find is not worth reporting
            Err(failure) if candidate.origin == Origin::Loader && failure.absent => {}
            Err(failure) => tried.push(failure.reason),
        }
    }
    Err(library.missing(driver, &tried))
}

/// The library that the process has already loaded, if any.
fn in_process(library: Library, driver: Option<u32>) -> Option<Loaded> {
    for name in library.names() {
        let candidate = SearchList { folders: Vec::new(), loader: true }
            .candidates(library, driver)
            .into_iter()
            .find(|c| c.path.as_os_str() == *name)?;
        let accepted = |handle| accept(library, handle, &Candidate { origin: Origin::Process, ..candidate }).ok();
        if let Some(loaded) = Handle::loaded(name).and_then(accepted) {
            return Some(loaded);
        }
    }
    None
}

fn attempt(
    library: Library,
    candidate: &Candidate,
    search: &SearchList,
    driver: Option<u32>,
) -> std::result::Result<Loaded, Failure> {
    let at = |failure: Failure| {
        // for a bare name the reason already contains the files
        let prefix = if candidate.origin == Origin::Loader && !failure.absent {
            String::new()
        } else {
            format!("{}: ", candidate.path.display())
        };
        Failure { reason: format!("{prefix}{}", failure.reason), ..failure }
    };
    let handle = match Handle::open(&candidate.path) {
        Ok(handle) => handle,
        Err(first) => {
            // the dependencies may be in folders that the loader does not search, as when wheels are installed apart
            if library.needs().is_empty() || candidate.origin == Origin::Loader {
                return Err(at(first));
            }
            for &needed in library.needs() {
                // it only needs to be loaded: the loader keeps it
                let _ = open(needed, search, driver);
            }
            Handle::open(&candidate.path).map_err(at)?
        }
    };
    accept(library, handle, candidate)
        .map_err(|reason| Failure { absent: false, reason: format!("{}: {reason}", candidate.path.display()) })
}

/// Checks that a loaded file is the library, and determines its path and version.
fn accept(library: Library, handle: Handle, candidate: &Candidate) -> std::result::Result<Loaded, String> {
    if let Some(function) = library.essential() {
        if handle.address(function).is_none() {
            return Err(format!("has no function {function}"));
        }
    }
    let path = library.essential().and_then(|f| handle.path(f)).unwrap_or_else(|| candidate.path.clone());
    let version = library.version(&handle).unwrap_or_else(|| {
        let name = candidate.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        name.split_once(".so.").map(|(_, n)| n.split('.').map_while(|n| n.parse().ok()).collect()).unwrap_or_default()
    });
    Ok(Loaded { library, path, origin: candidate.origin, version, handle })
}

// ---- the state of this process ------------------------------------------------------------------

/// The libraries that were found, and errors for those that were not, until the search paths change. Found libraries
/// live as long as the process.
struct State {
    paths: SearchPaths,
    search: Option<SearchList>,
    driver: Option<std::result::Result<&'static Driver, Error>>,
    loaded: [Option<std::result::Result<&'static Loaded, Error>>; Library::ALL.len()],
}

static STATE: Mutex<State> = Mutex::new(State {
    paths: SearchPaths { option: Vec::new(), packages: Vec::new(), torch: Vec::new() },
    search: None,
    driver: None,
    loaded: [const { None }; Library::ALL.len()],
});

fn state() -> std::sync::MutexGuard<'static, State> {
    // a panic cannot leave the state half changed
    STATE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl State {
    fn driver(&mut self) -> Result<&'static Driver> {
        if self.driver.is_none() {
            let probed = driver::probe(&driver::candidates());
            self.driver = Some(probed.map(|driver| &*Box::leak(Box::new(driver))));
        }
        self.driver.clone().expect("just set")
    }

    fn load(&mut self, library: Library) -> Result<&'static Loaded> {
        if let Some(known) = &self.loaded[library as usize] {
            return known.clone();
        }
        let driver = self.driver().ok().map(|d| d.version.0);
        let search = self.search.get_or_insert_with(|| SearchList::of_machine(&self.paths));
        let opened = open(library, search, driver).map(|loaded| &*Box::leak(Box::new(loaded)));
        self.loaded[library as usize] = Some(opened.clone());
        opened
    }

    /// Discards errors, so that libraries that were not found are searched again.
    fn forget_failures(&mut self) {
        self.search = None;
        if matches!(self.driver, Some(Err(_))) {
            self.driver = None;
        }
        for known in &mut self.loaded {
            if matches!(known, Some(Err(_))) {
                *known = None;
            }
        }
    }
}

/// Sets the user's search paths. Loaded libraries stay; those that were not found are searched again.
pub fn set_search_paths(paths: SearchPaths) {
    let mut state = state();
    if state.paths != paths {
        state.paths = paths;
        state.forget_failures();
    }
}

/// The driver. The first call checks it and initialises CUDA in this process; a child forked afterwards cannot use
/// CUDA.
///
/// # Errors
/// `Library` where there is none, `Device` where it shows no device; with the command that fixes it.
pub fn driver() -> Result<&'static Driver> {
    state().driver()
}

/// A library. The first call finds and loads it.
///
/// # Errors
/// `Library`, with the command that installs it, and in the detail the files that were tried.
pub fn load(library: Library) -> Result<&'static Loaded> {
    state().load(library)
}

/// The file that `load` would open, with its size and modification time, found without loading it where possible. None
/// where only the loader knows the file, or where NVRTC is disabled.
pub fn expected(library: Library) -> Option<(PathBuf, u64, Option<std::time::SystemTime>)> {
    if library == Library::Nvrtc && std::env::var_os("VERDIGRIS_NVRTC").is_some_and(|v| v == "none") {
        return None;
    }
    let mut state = state();
    let path = match &state.loaded[library as usize] {
        Some(Ok(loaded)) => loaded.path.clone(),
        _ => {
            let driver = state.driver().ok().map(|d| d.version.0);
            let paths = state.paths.clone();
            let search = state.search.get_or_insert_with(|| SearchList::of_machine(&paths));
            let candidates = search.candidates(library, driver);
            let file = |named: bool| {
                candidates
                    .iter()
                    .find(|c| c.served && (c.origin <= Origin::Environment) == named && c.path.is_file())
                    .map(|c| c.path.clone())
            };
            file(true)
                .or_else(|| in_process(library, driver).map(|loaded| loaded.path.clone()))
                .or_else(|| file(false))?
        }
    };
    let facts = std::fs::metadata(&path).ok()?;
    Some((path, facts.len(), facts.modified().ok()))
}

/// The folders that are searched for libraries, in order.
pub fn folders() -> Vec<PathBuf> {
    let mut state = state();
    let paths = state.paths.clone();
    let search = state.search.get_or_insert_with(|| SearchList::of_machine(&paths));
    search.folders.iter().map(|(_, folder)| folder.clone()).collect()
}

/// The report of `gpu_sitrep()` on a library.
pub struct Finding {
    pub library: Library,
    pub outcome: Result<&'static Loaded>,
    pub remedy: String,
}

/// Searches for every library, also again for those that were not found. Loads what it finds, which takes a second or
/// two.
pub fn report() -> (Result<&'static Driver>, Vec<Finding>) {
    let mut state = state();
    state.forget_failures();
    let driver = state.driver();
    let findings = Library::ALL
        .into_iter()
        .filter(|&library| library != Library::CublasLt)
        .map(|library| Finding { library, outcome: state.load(library), remedy: library.remedy() })
        .collect();
    (driver, findings)
}
