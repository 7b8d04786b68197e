//! Compiles CUDA C to a cubin or PTX with NVRTC. Does not cache.

use std::ffi::{c_char, CStr, CString};
use std::sync::OnceLock;

use crate::backend::cuda::driver::api::{self, nvrtcProgram, nvrtcResult, Nvrtc};
use crate::memory::counters;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::headers::HEADERS;

/// The architecture to compile for, and the kind of output.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// Machine code of one architecture: `sm_90`.
    Cubin(u32),
    /// PTX, which the driver compiles when it is loaded, for devices newer than NVRTC: `compute_90`.
    Ptx(u32),
}

impl Target {
    /// The best target that NVRTC supports for a device.
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
                    "this NVRTC compiles for compute capability {}.{} and later, but the device has {}.{}",
                    known.iter().min().unwrap_or(&0) / 10,
                    known.iter().min().unwrap_or(&0) % 10,
                    capability.0,
                    capability.1
                ),
            )
            .advise("Install an NVRTC of an earlier CUDA version; `gpu_sitrep()` shows which one is in use.")
        })
    }

    pub(crate) fn option(self) -> String {
        match self {
            Target::Cubin(a) => format!("--gpu-architecture=sm_{a}"),
            Target::Ptx(a) => format!("--gpu-architecture=compute_{a}"),
        }
    }
}

/// The input of a compilation.
pub struct Request<'a> {
    pub source: &'a str,
    /// The file name in the compiler's messages.
    pub label: &'a CStr,
    pub target: Target,
    pub options: Vec<String>,
    /// Whether the source may include the package's own headers.
    pub headers: bool,
    /// Names to look up in the result although C++ mangles them, such as template instances.
    pub expressions: &'a [String],
}

/// The output of a compilation.
pub struct Compiled {
    /// A cubin, or PTX with its terminating zero.
    pub bytes: Vec<u8>,
    /// The mangled names of the requested expressions.
    pub lowered: Vec<String>,
}

/// The architectures that NVRTC compiles for, such as 90.
pub(crate) fn archs(nvrtc: &Nvrtc) -> Result<Vec<u32>> {
    let mut count = 0;
    // SAFETY: writes a number.
    nvrtc_check(unsafe { (nvrtc.arch_count)(&mut count) }, "nvrtcGetNumSupportedArchs")?;
    let mut archs = vec![0i32; count.max(0) as usize];
    // SAFETY: there is room for as many as it said.
    nvrtc_check(unsafe { (nvrtc.archs)(archs.as_mut_ptr()) }, "nvrtcGetSupportedArchs")?;
    Ok(archs.into_iter().map(|a| a as u32).collect())
}

crate::backend::cuda::driver::status::codes! {
    /// `nvrtcResult`.
    nvrtc_code: nvrtcResult {
        NVRTC_SUCCESS
        NVRTC_ERROR_OUT_OF_MEMORY
        NVRTC_ERROR_COMPILATION
        NVRTC_ERROR_INVALID_OPTION
        NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID
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
            Err(Error::new(Kind::Library, format!("`{function}`: NVRTC cannot find its libnvrtc-builtins"))
                .advise("It must be in the same folder as libnvrtc; `gpu_sitrep()` shows where that is."))
        }
        _ => Err(Error::new(Kind::Compile, format!("`{function}` failed with code {status}"))),
    }
}

/// Compiles a source, without any cache.
///
/// # Errors
/// `Library` without NVRTC; `Compile`, with the compiler's log as detail, also for an option that it does not know;
/// `Argument` for a zero byte in the source or an option.
pub fn compile(request: &Request<'_>) -> Result<Compiled> {
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
    let (names, texts) = if request.headers { (pointers(names), pointers(texts)) } else { Default::default() };
    let text = zeroed(request.source)?;
    let mut program = Program { nvrtc, handle: std::ptr::null_mut() };
    // SAFETY: all strings end in zero and outlive the program.
    let status = unsafe {
        let label = request.label.as_ptr();
        (nvrtc.create)(&mut program.handle, text.as_ptr(), label, names.len() as i32, texts.as_ptr(), names.as_ptr())
    };
    nvrtc_check(status, "nvrtcCreateProgram")?;
    let expressions = request.expressions.iter().map(|e| zeroed(e)).collect::<Result<Vec<_>>>()?;
    for expression in &expressions {
        // SAFETY: a program, and a string that ends in zero.
        nvrtc_check(unsafe { (nvrtc.add_name)(program.handle, expression.as_ptr()) }, "nvrtcAddNameExpression")?;
    }
    let mut options = vec![zeroed(&request.target.option())?];
    for option in &request.options {
        options.push(zeroed(option)?);
    }
    // SAFETY: a program, and strings that end in zero.
    let status = unsafe { (nvrtc.compile)(program.handle, options.len() as i32, pointers(&options).as_ptr()) };
    match nvrtc_code(status) {
        Some(nvrtcResult::NVRTC_ERROR_COMPILATION) => {
            let log = program.log()?;
            let first = log.lines().find(|l| l.contains("error")).unwrap_or("see the log").to_string();
            return Err(Error::new(Kind::Compile, format!("the CUDA compiler refused the kernel: {first}")).detail(log));
        }
        Some(nvrtcResult::NVRTC_ERROR_INVALID_OPTION) => {
            let log = program.log()?;
            let first = log.lines().find(|l| !l.trim().is_empty()).unwrap_or("it does not say which").to_string();
            let error = Error::new(Kind::Compile, format!("the CUDA compiler refused an option: {first}"));
            return Err(error.advise(format!("The options were {}.", request.options.join(" "))).detail(log));
        }
        _ => nvrtc_check(status, "nvrtcCompileProgram")?,
    }
    let mut lowered = Vec::with_capacity(expressions.len());
    for expression in &expressions {
        let mut name = std::ptr::null();
        // SAFETY: gives a string that lives as long as the program.
        let name = unsafe {
            let status = (nvrtc.lowered)(program.handle, expression.as_ptr(), &mut name);
            nvrtc_check(status, "nvrtcGetLoweredName")?;
            CStr::from_ptr(name)
        };
        lowered.push(name.to_string_lossy().into_owned());
    }
    let bytes = match request.target {
        Target::Cubin(_) => program.text(nvrtc.cubin_size, nvrtc.cubin, "nvrtcGetCUBIN")?,
        Target::Ptx(_) => program.text(nvrtc.ptx_size, nvrtc.ptx, "nvrtcGetPTX")?,
    };
    Ok(Compiled { bytes, lowered })
}

struct Program {
    nvrtc: &'static Nvrtc,
    handle: nvrtcProgram,
}

impl Program {
    fn log(&self) -> Result<String> {
        let log = self.text(self.nvrtc.log_size, self.nvrtc.log, "nvrtcGetProgramLog")?;
        Ok(String::from_utf8_lossy(&log).trim_end_matches('\0').to_string())
    }

    /// Reads an output of the program: the buffer's size, then its content.
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

/// NVRTC's version.
///
/// # Errors
/// `Library` without NVRTC.
pub fn version() -> Result<(u32, u32)> {
    let nvrtc = api::nvrtc()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: writes two numbers.
    nvrtc_check(unsafe { (nvrtc.version)(&mut major, &mut minor) }, "nvrtcVersion")?;
    Ok((major.max(0) as u32, minor.max(0) as u32))
}
