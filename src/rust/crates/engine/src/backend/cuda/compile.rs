//! From CUDA C to loaded kernels: NVRTC, a cache in memory and one on disk.

use std::collections::hash_map::DefaultHasher;
use std::collections::HashMap;
use std::ffi::{c_char, CStr, CString};
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::api::{self, nvrtcProgram, nvrtcResult, CUfunction_attribute, Function, Nvrtc};
use super::device::{lock, Cuda};
use super::launch::Kernel;
use crate::counters;
use crate::error::{Error, Kind, Result};

// HEADERS: name and text of every file in kernels/, which sources may include.
include!(concat!(env!("OUT_DIR"), "/headers.rs"));

/// No fused multiply-add that the text does not ask for: `x*x - y*y` must be R's.
pub const OPTIONS: &[&str] = &["--fmad=false", "--std=c++17", "--device-as-default-execution-space"];

/// How a source is compiled.
pub struct Style {
    /// What the compiler's messages call it.
    pub label: &'static CStr,
    pub options: &'static [&'static str],
}

/// Sources of our own.
const OWN: Style = Style { label: c"verdigris.cu", options: OPTIONS };

/// What NVRTC made of a source.
pub struct Image {
    /// A cubin, or PTX with its closing zero.
    pub bytes: Vec<u8>,
}

/// Where compiled kernels are kept between sessions; nowhere unless set.
static DIRECTORY: Mutex<Option<PathBuf>> = Mutex::new(None);

pub fn set_cache_dir(directory: Option<PathBuf>) {
    *lock(&DIRECTORY) = directory;
}

/// A device's loaded modules, by key.
#[derive(Default)]
pub struct Kernels {
    modules: Mutex<HashMap<String, Arc<Module>>>,
    pub(super) plans: super::run::Plans,
}

/// A loaded module. Never unloaded.
pub struct Module {
    handle: api::Module,
    label: String,
    kernels: Mutex<HashMap<String, Arc<Kernel>>>,
}

impl Cuda {
    /// The module that a source compiles to. `key` must determine the source, which is only made where
    /// the key is new.
    ///
    /// # Errors
    /// `Library` without NVRTC; `Compile`, with the compiler's log as detail.
    pub fn module(&self, key: &str, source: impl FnOnce() -> String) -> Result<Arc<Module>> {
        self.module_as(key, &OWN, source)
    }

    /// As `module`; the key must determine the style too.
    pub fn module_as(&self, key: &str, style: &Style, source: impl FnOnce() -> String) -> Result<Arc<Module>> {
        if let Some(module) = lock(&self.kernels.modules).get(key) {
            return Ok(module.clone());
        }
        let module = Arc::new(self.load_as(&source(), key, style)?);
        // where two threads compiled the same, the first one's is kept
        Ok(lock(&self.kernels.modules).entry(key.into()).or_insert(module).clone())
    }

    /// Compiles and loads a source, whatever was compiled before.
    pub(super) fn load(&self, source: &str, label: &str) -> Result<Module> {
        self.load_as(source, label, &OWN)
    }

    fn load_as(&self, source: &str, label: &str, style: &Style) -> Result<Module> {
        let image = image(source, Target::of(self.properties.capability)?, style)?;
        let _entered = self.enter()?;
        let mut handle = api::Module::NULL;
        // SAFETY: the image is a whole cubin, or PTX that ends in zero.
        let status = unsafe { (self.driver.module_load)(&mut handle, image.bytes.as_ptr().cast()) };
        self.check(status, "cuModuleLoadData")?;
        Ok(Module { handle, label: label.into(), kernels: Mutex::default() })
    }

    /// A kernel of a module, by its (`extern "C"`) name.
    pub fn function(&self, module: &Module, name: &str) -> Result<Arc<Kernel>> {
        if let Some(kernel) = lock(&module.kernels).get(name) {
            return Ok(kernel.clone());
        }
        let _entered = self.enter()?;
        let symbol = CString::new(name)
            .map_err(|_| Error::new(Kind::Argument, "the name of a kernel must not contain a zero byte"))?;
        let mut function = Function::NULL;
        // SAFETY: a loaded module, and a string that ends in zero.
        let status = unsafe { (self.driver.module_function)(&mut function, module.handle, symbol.as_ptr()) };
        self.check(status, "cuModuleGetFunction").map_err(|e| {
            e.advise(format!("Is there an `extern \"C\" __global__` function `{name}` in `{}`?", module.label))
        })?;
        let get = |attribute: CUfunction_attribute| -> Result<u32> {
            let mut value = 0;
            // SAFETY: writes a number.
            let status = unsafe { (self.driver.function_attribute)(&mut value, attribute, function) };
            self.check(status, "cuFuncGetAttribute")?;
            Ok(value.max(0) as u32)
        };
        let kernel = Arc::new(Kernel {
            function,
            name: name.into(),
            registers: get(CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: get(CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            max_threads: get(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        });
        lock(&module.kernels).insert(name.into(), kernel.clone());
        Ok(kernel)
    }

    /// The kernel `name` of the module that a source compiles to: `module` and `function` in one.
    pub fn kernel(&self, key: &str, source: impl FnOnce() -> String, name: &str) -> Result<Arc<Kernel>> {
        self.function(&*self.module(key, source)?, name)
    }

    /// Lets a kernel use more shared memory, given at launch, than the 48 kB that all may use.
    pub fn allow_shared(&self, kernel: &Kernel, bytes: u32) -> Result<()> {
        let _entered = self.enter()?;
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: a loaded function.
        let status = unsafe { (self.driver.function_set)(kernel.function, attribute, bytes as i32) };
        self.check(status, "cuFuncSetAttribute")
    }

    /// Blocks of this size that a multiprocessor runs at once.
    pub fn occupancy(&self, kernel: &Kernel, threads: u32, shared: u32) -> Result<u32> {
        let _entered = self.enter()?;
        let mut blocks = 0;
        // SAFETY: writes a number.
        let status = unsafe { (self.driver.occupancy)(&mut blocks, kernel.function, threads as i32, shared as usize) };
        self.check(status, "cuOccupancyMaxActiveBlocksPerMultiprocessor")?;
        Ok(blocks.max(1) as u32)
    }
}

/// What to compile for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// Machine code of one architecture: `sm_90`.
    Cubin(u32),
    /// PTX for the driver to compile, where NVRTC does not know the device: `compute_90`.
    Ptx(u32),
}

impl Target {
    /// The target for a device that NVRTC serves best.
    pub fn of(capability: (u32, u32)) -> Result<Target> {
        let wanted = capability.0 * 10 + capability.1;
        let known = archs(api::nvrtc()?)?;
        if known.contains(&wanted) {
            return Ok(Target::Cubin(wanted));
        }
        known.iter().copied().filter(|&a| a < wanted).max().map(Target::Ptx).ok_or_else(|| {
            Error::new(
                Kind::Compile,
                format!(
                    "this NVRTC compiles for compute capability {}.{} and later, and the device has {}.{}",
                    known.iter().min().unwrap_or(&0) / 10,
                    known.iter().min().unwrap_or(&0) % 10,
                    capability.0,
                    capability.1
                ),
            )
            .advise("Install an NVRTC of an earlier CUDA version; `gpu_sitrep()` shows which one is in use.")
        })
    }

    fn option(self) -> String {
        match self {
            Target::Cubin(a) => format!("--gpu-architecture=sm_{a}"),
            Target::Ptx(a) => format!("--gpu-architecture=compute_{a}"),
        }
    }
}

/// The architectures that the loaded NVRTC compiles for.
pub fn known_archs() -> Result<Vec<u32>> {
    archs(api::nvrtc()?)
}

pub(super) fn archs(nvrtc: &Nvrtc) -> Result<Vec<u32>> {
    let mut count = 0;
    // SAFETY: writes a number.
    nvrtc_check(unsafe { (nvrtc.arch_count)(&mut count) }, "nvrtcGetNumSupportedArchs")?;
    let mut archs = vec![0i32; count.max(0) as usize];
    // SAFETY: there is room for as many as it said.
    nvrtc_check(unsafe { (nvrtc.archs)(archs.as_mut_ptr()) }, "nvrtcGetSupportedArchs")?;
    Ok(archs.into_iter().map(|a| a as u32).collect())
}

api::codes! {
    /// `nvrtcResult`.
    nvrtc_code: nvrtcResult {
        NVRTC_SUCCESS
        NVRTC_ERROR_OUT_OF_MEMORY
        NVRTC_ERROR_COMPILATION
        NVRTC_ERROR_BUILTIN_OPERATION_FAILURE
    }
}

fn nvrtc_check(status: u32, function: &str) -> Result<()> {
    match nvrtc_code(status) {
        Some(nvrtcResult::NVRTC_SUCCESS) => Ok(()),
        Some(nvrtcResult::NVRTC_ERROR_OUT_OF_MEMORY) => {
            Err(Error::new(Kind::Memory, format!("`{function}`: out of host memory")))
        }
        Some(nvrtcResult::NVRTC_ERROR_BUILTIN_OPERATION_FAILURE) => {
            Err(Error::new(Kind::Library, format!("`{function}`: NVRTC does not find its libnvrtc-builtins"))
                .advise("It must be in the same folder as libnvrtc; `gpu_sitrep()` shows where that is."))
        }
        _ => Err(Error::new(Kind::Compile, format!("`{function}` failed with code {status}"))),
    }
}

/// The compiled source, from the disk if it is there.
pub fn image(source: &str, target: Target, style: &Style) -> Result<Image> {
    let directory = lock(&DIRECTORY).clone();
    let Some(directory) = directory else {
        return compile_as(source, target, style);
    };
    let path = directory.join(format!("{}.bin", name(source, target, style)?));
    if let Some(bytes) = fetch(&path) {
        counters::CACHE_HITS.add(1);
        return Ok(Image { bytes });
    }
    let image = compile_as(source, target, style)?;
    keep(&path, &image.bytes);
    Ok(image)
}

/// Compiles, without any cache.
pub fn compile(source: &str, target: Target) -> Result<Image> {
    compile_as(source, target, &OWN)
}

/// As `compile`, in another style.
pub fn compile_as(source: &str, target: Target, style: &Style) -> Result<Image> {
    let nvrtc = api::nvrtc()?;
    counters::COMPILED.add(1);
    let zeroed = |text: &str| {
        CString::new(text).map_err(|_| Error::new(Kind::Argument, "a kernel's source must not contain a zero byte"))
    };
    static HEADER_TEXTS: OnceLock<(Vec<CString>, Vec<CString>)> = OnceLock::new();
    let (names, texts) = HEADER_TEXTS.get_or_init(|| {
        let text = |s: &str| CString::new(s).unwrap_or_default();
        (HEADERS.iter().map(|h| text(h.0)).collect(), HEADERS.iter().map(|h| text(h.1)).collect())
    });
    let pointers = |strings: &[CString]| strings.iter().map(|s| s.as_ptr()).collect::<Vec<*const c_char>>();
    let (names, texts) = (pointers(names), pointers(texts));
    let text = zeroed(source)?;
    let mut program = Program { nvrtc, handle: std::ptr::null_mut() };
    // SAFETY: all strings end in zero and outlive the program.
    let status = unsafe {
        let label = style.label.as_ptr();
        (nvrtc.create)(&mut program.handle, text.as_ptr(), label, names.len() as i32, texts.as_ptr(), names.as_ptr())
    };
    nvrtc_check(status, "nvrtcCreateProgram")?;
    let mut options = vec![zeroed(&target.option())?];
    for option in style.options {
        options.push(zeroed(option)?);
    }
    // SAFETY: a program, and strings that end in zero.
    let status = unsafe { (nvrtc.compile)(program.handle, options.len() as i32, pointers(&options).as_ptr()) };
    if nvrtc_code(status) == Some(nvrtcResult::NVRTC_ERROR_COMPILATION) {
        let log = program.text(nvrtc.log_size, nvrtc.log, "nvrtcGetProgramLog")?;
        let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_string();
        let first = log.lines().find(|l| l.contains("error")).unwrap_or("see the log").to_string();
        return Err(Error::new(Kind::Compile, format!("the CUDA compiler refused the kernel: {first}")).detail(log));
    }
    nvrtc_check(status, "nvrtcCompileProgram")?;
    let bytes = match target {
        Target::Cubin(_) => program.text(nvrtc.cubin_size, nvrtc.cubin, "nvrtcGetCUBIN")?,
        Target::Ptx(_) => program.text(nvrtc.ptx_size, nvrtc.ptx, "nvrtcGetPTX")?,
    };
    Ok(Image { bytes })
}

struct Program {
    nvrtc: &'static Nvrtc,
    handle: nvrtcProgram,
}

impl Program {
    fn text(
        &self,
        size: unsafe extern "C" fn(nvrtcProgram, *mut usize) -> u32,
        get: unsafe extern "C" fn(nvrtcProgram, *mut u8) -> u32,
        function: &str,
    ) -> Result<Vec<u8>> {
        let mut n = 0;
        // SAFETY: writes a number.
        nvrtc_check(unsafe { size(self.handle, &mut n) }, function)?;
        let mut bytes = vec![0u8; n];
        // SAFETY: there is room for as many as it said.
        nvrtc_check(unsafe { get(self.handle, bytes.as_mut_ptr()) }, function)?;
        Ok(bytes)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: created and destroyed once; a status cannot be used here.
            unsafe { (self.nvrtc.destroy)(&mut self.handle) };
        }
    }
}

/// The name of a compiled source on disk: a hash of all that goes into it.
fn name(source: &str, target: Target, style: &Style) -> Result<String> {
    let nvrtc = api::nvrtc()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: writes two numbers.
    nvrtc_check(unsafe { (nvrtc.version)(&mut major, &mut minor) }, "nvrtcVersion")?;
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, source, HEADERS, style.options, target, major, minor).hash(&mut hasher);
        hasher.finish()
    };
    Ok(format!("{:016x}{:016x}", half(0), half(1)))
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
    (checksum(&bytes)[..] == end[..]).then_some(bytes)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_no_file() {
        let directory = std::env::temp_dir().join(format!("verdigris-cache-{}", std::process::id()));
        let path = directory.join("x.bin");
        keep(&path, b"content");
        assert_eq!(fetch(&path).as_deref(), Some(&b"content"[..]));
        let mut bytes = fs::read(&path).unwrap();
        bytes[0] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(fetch(&path).is_none());
        fs::write(&path, b"short").unwrap();
        assert!(fetch(&path).is_none());
        keep(&path, b"again");
        assert_eq!(fetch(&path).as_deref(), Some(&b"again"[..]));
        fs::remove_dir_all(&directory).unwrap();
    }
}
