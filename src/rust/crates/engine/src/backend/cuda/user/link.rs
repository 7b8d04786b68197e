//! Links a compiled source with other compiled code: by nvJitLink where it is installed, else by the driver.

use std::borrow::Cow;
use std::ffi::{c_char, c_void, CString};

use crate::backend::cuda::compile::Link;
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::api::{CUjitInputType, CUjit_option, SUCCESS};
use crate::backend::cuda::driver::library::{self, Library, Loaded};
use verdigris_ops::error::{Error, Kind, Result};

/// `nvJitLinkInputType`.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(u32)]
enum Input {
    Cubin = 1,
    Ptx = 2,
    LtoIr = 3,
    Fatbin = 4,
    Object = 5,
    Library = 6,
}

/// The kind of an input, by its first bytes; by its name for LTO-IR.
fn kind(name: &str, bytes: &[u8]) -> Result<Input> {
    let machine = bytes.get(18..20).map(|b| u16::from_le_bytes([b[0], b[1]]));
    Ok(match bytes {
        _ if bytes.starts_with(b"\x7fELF") && machine == Some(190) => Input::Cubin,
        _ if bytes.starts_with(b"\x7fELF") => Input::Object,
        _ if bytes.starts_with(&[0x50, 0xed, 0x55, 0xba]) => Input::Fatbin,
        _ if bytes.starts_with(b"!<arch>") => Input::Library,
        _ if name.ends_with(".ltoir") => Input::LtoIr,
        _ if bytes.windows(8).take(4096).any(|w| w == b".version") => Input::Ptx,
        _ => {
            return Err(Error::new(
                Kind::Compile,
                format!("`link`: {name} is neither PTX, nor a cubin, a fatbin, an object file or a static library"),
            ))
        }
    })
}

/// A cubin, linked from a source's image and the code that it needs.
///
/// # Errors
/// `Compile`, with the linker's log as detail.
pub fn link(cuda: &Cuda, image: Vec<u8>, with: &[(String, Vec<u8>)]) -> Result<Vec<u8>> {
    let mut inputs = vec![(kind("the source", &image)?, "kernel.cu", image.as_slice())];
    for (name, bytes) in with {
        inputs.push((kind(name, bytes)?, name, bytes));
    }
    let intermediate = inputs.iter().any(|(kind, ..)| *kind == Input::LtoIr);
    match library::load(Library::NvJitLink) {
        Ok(found) => by_library(found, cuda.properties.capability, &inputs).or_else(|error| {
            // the driver may read code that is too new for nvJitLink
            let newer = error.message.contains(UNREADABLE) && !intermediate;
            newer.then(|| by_driver(cuda, &inputs).ok()).flatten().ok_or(error)
        }),
        Err(missing) if intermediate => Err(missing),
        Err(_) => by_driver(cuda, &inputs),
    }
}

/// nvJitLink's messages about code of a newer compiler, and about PTX of a newer version.
const UNREADABLE: &str = "bad input";
const NEWER_PTX: &str = "Unsupported .version";

type Inputs<'a> = [(Input, &'a str, &'a [u8])];

/// A handle of nvJitLink, destroyed on drop.
struct Linker {
    handle: *mut c_void,
    destroy: unsafe extern "C" fn(*mut *mut c_void) -> u32,
}

impl Drop for Linker {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: created and destroyed once; a status cannot be used here.
            unsafe { (self.destroy)(&mut self.handle) };
        }
    }
}

fn by_library(found: &'static Loaded, capability: (u32, u32), inputs: &Inputs<'_>) -> Result<Vec<u8>> {
    type Create = unsafe extern "C" fn(*mut *mut c_void, u32, *const *const c_char) -> u32;
    type Add = unsafe extern "C" fn(*mut c_void, u32, *const c_void, usize, *const c_char) -> u32;
    type One = unsafe extern "C" fn(*mut c_void) -> u32;
    type Size = unsafe extern "C" fn(*mut c_void, *mut usize) -> u32;
    type Get = unsafe extern "C" fn(*mut c_void, *mut u8) -> u32;
    type Destroy = unsafe extern "C" fn(*mut *mut c_void) -> u32;
    let major = found.version.first().copied().unwrap_or(12);
    // symbols carry the version that introduced them; those of a major version's first release remain
    macro_rules! symbol {
        ($name:literal, $t:ty) => {
            // SAFETY: the signatures of nvJitLink.h.
            unsafe {
                found
                    .symbol::<$t>(&format!("__nvJitLink{}_{major}_0", $name))
                    .or_else(|_| found.symbol::<$t>(&format!("nvJitLink{}", $name)))
            }?
        };
    }
    let (create, add) = (symbol!("Create", Create), symbol!("AddData", Add));
    let (complete, destroy) = (symbol!("Complete", One), symbol!("Destroy", Destroy));
    let (size, get) = (symbol!("GetLinkedCubinSize", Size), symbol!("GetLinkedCubin", Get));
    let (log_size, log) = (symbol!("GetErrorLogSize", Size), symbol!("GetErrorLog", Get));
    let text = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
    let mut options = vec![text(&format!("-arch=sm_{}{}", capability.0, capability.1))];
    if inputs.iter().any(|(kind, ..)| *kind == Input::LtoIr) {
        options.push(text("-lto"));
    }
    let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
    // the linker keeps the names for its messages
    let labels: Vec<CString> = inputs.iter().map(|(_, name, _)| text(name)).collect();
    let mut linker = Linker { handle: std::ptr::null_mut(), destroy };
    let failed = |linker: &Linker, what: &str, status: u32| {
        let bytes = |size: Size, get: Get| {
            let mut n = 0;
            // SAFETY: writes a number, then as many bytes as it said.
            unsafe {
                if size(linker.handle, &mut n) != 0 {
                    return Vec::new();
                }
                let mut bytes = vec![0u8; n];
                get(linker.handle, bytes.as_mut_ptr());
                bytes
            }
        };
        let log = if linker.handle.is_null() { Vec::new() } else { bytes(log_size, log) };
        let log = String::from_utf8_lossy(&log).trim_end_matches('\0').trim().to_string();
        let first = log.lines().next().map_or(format!("code {status}"), String::from);
        let error = Error::new(Kind::Compile, format!("the kernel does not link ({what}): {first}"));
        if log.contains(UNREADABLE) || log.contains(NEWER_PTX) {
            let version: Vec<String> = found.version.iter().map(u32::to_string).collect();
            return error.detail(log).advise(format!(
                "nvJitLink {} reads what compilers up to its own version have made: install that of the newest compiler (`pip install -U nvidia-nvjitlink`), or \
                 make the file with an older one.",
                version.join(".")
            ));
        }
        error.detail(log)
    };
    // SAFETY: options, names and data outlive the linker; each length is that of its data.
    unsafe {
        let status = create(&mut linker.handle, pointers.len() as u32, pointers.as_ptr());
        if status != 0 {
            return Err(failed(&linker, "nvJitLinkCreate", status));
        }
        for ((kind, name, bytes), label) in inputs.iter().zip(&labels) {
            let status = add(linker.handle, *kind as u32, bytes.as_ptr().cast(), bytes.len(), label.as_ptr());
            if status != 0 {
                return Err(failed(&linker, name, status));
            }
        }
        let status = complete(linker.handle);
        if status != 0 {
            return Err(failed(&linker, "nvJitLinkComplete", status));
        }
        let mut n = 0;
        let status = size(linker.handle, &mut n);
        if status != 0 {
            return Err(failed(&linker, "nvJitLinkGetLinkedCubinSize", status));
        }
        let mut cubin = vec![0u8; n];
        let status = get(linker.handle, cubin.as_mut_ptr());
        if status != 0 {
            return Err(failed(&linker, "nvJitLinkGetLinkedCubin", status));
        }
        Ok(cubin)
    }
}

fn by_driver(cuda: &Cuda, inputs: &Inputs<'_>) -> Result<Vec<u8>> {
    let _entered = cuda.enter()?;
    let mut log = vec![0u8; 8192];
    let mut options = [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(log.len())];
    let mut link = Link { driver: cuda.driver, handle: std::ptr::null_mut() };
    let (mut cubin, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: the log and the inputs outlive the link.
    let status = unsafe {
        let mut status = (cuda.driver.link_create)(2, options.as_mut_ptr(), values.as_mut_ptr(), &mut link.handle);
        for (kind, name, data) in inputs {
            if status != SUCCESS {
                break;
            }
            let label = CString::new(name.replace('\0', "")).unwrap_or_default();
            let mut data = Cow::Borrowed(*data);
            if matches!(kind, Input::Ptx) && data.last() != Some(&0) {
                // the driver reads PTX as a C string
                data.to_mut().push(0);
            }
            let kind = match kind {
                Input::Cubin => CUjitInputType::CU_JIT_INPUT_CUBIN,
                Input::Ptx => CUjitInputType::CU_JIT_INPUT_PTX,
                Input::Fatbin => CUjitInputType::CU_JIT_INPUT_FATBINARY,
                Input::Library => CUjitInputType::CU_JIT_INPUT_LIBRARY,
                Input::Object | Input::LtoIr => CUjitInputType::CU_JIT_INPUT_OBJECT,
            };
            status = (cuda.driver.link_add)(
                link.handle,
                kind,
                data.as_ptr().cast_mut().cast(),
                data.len(),
                label.as_ptr(),
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            );
        }
        if status == SUCCESS {
            status = (cuda.driver.link_complete)(link.handle, &mut cubin, &mut bytes);
        }
        status
    };
    cuda.check(status, "cuLinkComplete").map_err(|e| {
        let end = log.iter().position(|&c| c == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]).into_owned();
        let first = log.lines().next().unwrap_or(&e.message).to_string();
        Error::new(Kind::Compile, format!("the kernel does not link: {first}")).detail(log)
    })?;
    // SAFETY: the driver's memory, valid until the link is destroyed.
    Ok(unsafe { std::slice::from_raw_parts(cubin.cast::<u8>(), bytes) }.to_vec())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;
    use crate::backend::cuda::compile::nvrtc::Target;
    use crate::backend::cuda::compile::nvrtc::{compile, Request};

    fn compiled(source: &str, target: Target) -> Result<Vec<u8>> {
        let label: &CStr = c"kernel.cu";
        let options = vec!["--relocatable-device-code=true".to_string()];
        compile(&Request { source, label, target, options, headers: false, expressions: &[] }).map(|made| made.bytes)
    }

    /// Skipped where NVRTC or nvJitLink is not found; neither needs a device.
    #[test]
    fn a_source_is_linked_with_what_it_calls() {
        let user = "extern \"C\" __device__ double helper(double);\n\
                    extern \"C\" __global__ void k(double* x) { x[0] = helper(x[0]); }";
        let Ok(found) = library::load(Library::NvJitLink) else { return eprintln!("skipped: no nvJitLink") };
        let Ok(cubin) = compiled(user, Target::Cubin(90)) else { return eprintln!("skipped: no NVRTC") };
        let helper = "extern \"C\" __device__ double helper(double x) { return 3 * x + 1; }";
        let ptx = compiled(helper, Target::Ptx(75)).unwrap();
        let inputs = [(kind("a", &cubin).unwrap(), "a", &cubin[..]), (kind("b", &ptx).unwrap(), "b", &ptx[..])];
        assert_eq!((inputs[0].0, inputs[1].0), (Input::Cubin, Input::Ptx));
        let linked = by_library(found, (9, 0), &inputs).unwrap();
        assert!(linked.starts_with(b"\x7fELF") && kind("c", &linked).unwrap() == Input::Cubin);
        let error = by_library(found, (9, 0), &inputs[..1]).unwrap_err();
        assert!(error.kind == Kind::Compile && error.message.contains("helper"), "{error}");
    }
}
