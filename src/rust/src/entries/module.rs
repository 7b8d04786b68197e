//! Entries: modules of kernels. In R, modules and kernels are external pointers.

use std::sync::Arc;

use verdigris_engine::backend;
use verdigris_engine::kernel::{Code, Format, Module, Spec};
use verdigris_engine::memory::fallible;
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::raw_slice;

use crate::array::device;
use crate::entries::entry::entries;
use crate::r::typed::FromR;
use crate::r::{self, external_ptr, values, SEXP, SEXPTYPE};

/// The value of a module's external pointer.
struct Held(Arc<Module>);

/// A type whose external pointers in R have a tag of their own.
pub trait Pointed: Sized {
    fn tag() -> SEXP;
}

impl Pointed for Held {
    fn tag() -> SEXP {
        r::known_symbol!(c"verdigris_module")
    }
}

/// An external pointer that owns the value. Not protected.
pub fn pointer<T: Pointed>(value: T) -> SEXP {
    external_ptr::pointer(value, T::tag(), r::null())
}

/// The value of an external pointer.
///
/// # Errors
/// `Argument` if it has another tag, or came from another session.
pub fn pointed<'a, T: Pointed>(pointer: SEXP) -> Result<&'a T> {
    if external_ptr::has_tag(pointer, T::tag()) {
        // SAFETY: the tag identifies the type; R protects the pointer, which is an argument.
        if let Some(value) = unsafe { external_ptr::value(pointer) } {
            return Ok(value);
        }
    }
    Err(Error::new(ErrorKind::Argument, format!("expected a kernel or a module, got {}", values::describe(pointer))))
}

impl FromR for Arc<Module> {
    fn from_r(x: SEXP, _: &'static str) -> Result<Arc<Module>> {
        pointed::<Held>(x).map(|held| held.0.clone())
    }
}

/// The bytes of a raw vector; `None` for other objects.
fn bytes(x: SEXP) -> Result<Option<Vec<u8>>> {
    if r::kind_of(x) != SEXPTYPE::RAWSXP {
        return Ok(None);
    }
    // SAFETY: a raw vector of this length.
    fallible::copied(unsafe { raw_slice::slice(r::RAW_RO(x), r::len(x)) }).map(Some)
}

entries! {
    /// A module of source code (a string) or compiled code (a raw vector). `link` is a named list of raw vectors.
    fn module_new(
        code: SEXP,
        label as "path": &str,
        path: Vec<String>,
        options: Vec<String>,
        include: Vec<String>,
        names: Vec<String>,
        signatures: Vec<String>,
        link: SEXP,
    ) -> Result<SEXP> {
        device::refresh_paths()?;
        let code = match bytes(code)? {
            Some(bytes) => Code::Binary(bytes, path.into_iter().next().map(Into::into)),
            None => Code::Source(values::string(code, "code")?.to_string()),
        };
        // SAFETY: reads an attribute.
        let labels = values::strings(unsafe { r::Rf_getAttrib(link, r::R_NamesSymbol) }, "link")?;
        let mut inputs = Vec::new();
        for (label, input) in labels.into_iter().zip(Vec::<SEXP>::from_r(link, "link")?) {
            inputs.push((label, bytes(input)?.unwrap_or_default()));
        }
        let include = include.into_iter().map(Into::into).collect();
        let spec = Spec { code, label: label.to_string(), options, include, names, signatures, link: inputs };
        Ok(pointer(Held(Arc::new(Module::new(spec)?))))
    }

    /// Compiles a source to find its errors; FALSE if there is no compiler.
    fn module_check(module: Arc<Module>) -> Result<bool> {
        backend::check(&module)
    }

    /// The names of the kernels that can be called, as far as the code tells.
    fn module_names(module: Arc<Module>) -> SEXP {
        r::strings(module.names().iter())
    }

    /// "source", "ptx", "cubin", "fatbin" or "library".
    fn module_format(module: Arc<Module>) -> &'static str {
        match module.format() {
            None => "source",
            Some(Format::Ptx) => "ptx",
            Some(Format::Cubin) => "cubin",
            Some(Format::Fatbin) => "fatbin",
            Some(Format::Host) => "library",
        }
    }

    /// A source compiled for an architecture (such as `90`): PTX or a cubin, as a raw vector that can be saved as a
    /// file and loaded as a module.
    fn module_image(module: Arc<Module>, arch: usize, ptx: bool) -> Result<Vec<u8>> {
        #[cfg(not(target_os = "macos"))]
        return verdigris_engine::backend::cuda::user::image(&module, arch as u32, ptx);
        #[cfg(target_os = "macos")]
        {
            let _ = (module, arch, ptx);
            Err(Error::new(ErrorKind::Library, "there is no CUDA on macOS"))
        }
    }
}
