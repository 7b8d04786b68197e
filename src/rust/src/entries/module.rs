//! Entries: modules of kernels. R holds modules and their kernels by external pointers.

use std::sync::Arc;

use verdigris_engine::backend;
use verdigris_engine::kernel::{Code, Format, Module, Spec};
use verdigris_engine::memory::fallible;
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::raw_slice;

use crate::array::device;
use crate::entry;
use crate::r::{self, external_ptr, values, SEXP, SEXPTYPE};

/// What an external pointer can hold.
pub trait Pointed: Sized {
    /// The symbol by which it is known.
    fn tag() -> SEXP;
}

struct Held(Arc<Module>);

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
/// `Argument`, where it is another pointer, or came from another session.
pub fn pointed<'a, T: Pointed>(pointer: SEXP) -> Result<&'a T> {
    if external_ptr::has_tag(pointer, T::tag()) {
        // SAFETY: the tag says what it holds; R protects the pointer as our argument.
        if let Some(value) = unsafe { external_ptr::value(pointer) } {
            return Ok(value);
        }
    }
    Err(Error::new(ErrorKind::Argument, format!("expected a kernel or a module, got {}", values::describe(pointer))))
}

/// The module behind a pointer.
pub fn module(pointer: SEXP) -> Result<Arc<Module>> {
    pointed::<Held>(pointer).map(|held| held.0.clone())
}

/// A character vector without NA; none for NULL.
pub fn strings(x: SEXP, argument: &str) -> Result<Vec<String>> {
    if r::is_null(x) {
        return Ok(Vec::new());
    }
    // SAFETY: reads within the length; each translation is copied at once.
    unsafe {
        let is_text = r::kind_of(x) == SEXPTYPE::STRSXP;
        if is_text && (0..r::len(x) as isize).all(|k| r::STRING_ELT(x, k) != r::R_NaString) {
            let text = |k| r::translated(r::STRING_ELT(x, k)).map(str::to_string);
            return (0..r::len(x) as isize).map(|k| text(k).map_err(|why| values::unreadable(argument, why))).collect();
        }
    }
    Err(Error::new(ErrorKind::Argument, format!("`{argument}` must be strings, not {}", values::describe(x))))
}

fn bytes(x: SEXP) -> Result<Option<Vec<u8>>> {
    if r::kind_of(x) != SEXPTYPE::RAWSXP {
        return Ok(None);
    }
    // SAFETY: a raw vector of this length.
    fallible::copied(unsafe { raw_slice::slice(r::RAW_RO(x), r::len(x)) }).map(Some)
}

entry! {
    /// A module of a source (a string) or of compiled code (a raw vector); `link` is a list of raw vectors with names.
    fn module_new(code, label, path, options, include, names, signatures, link) {
        device::refresh_paths()?;
        let code = match bytes(code)? {
            Some(bytes) => {
                let path = strings(path, "path")?.into_iter().next().map(Into::into);
                Code::Binary(bytes, path)
            }
            None => Code::Source(values::string(code, "code")?.to_string()),
        };
        let mut inputs = Vec::new();
        // SAFETY: a list with names, both within their length.
        unsafe {
            let labels = strings(r::Rf_getAttrib(link, r::R_NamesSymbol), "link")?;
            for (k, label) in labels.into_iter().enumerate() {
                inputs.push((label, bytes(r::VECTOR_ELT(link, k as isize))?.unwrap_or_default()));
            }
        }
        let spec = Spec {
            code,
            label: values::string(label, "path")?.to_string(),
            options: strings(options, "options")?,
            include: strings(include, "include")?.into_iter().map(Into::into).collect(),
            names: strings(names, "names")?,
            signatures: strings(signatures, "signatures")?,
            link: inputs,
        };
        Ok(pointer(Held(Arc::new(Module::new(spec)?))))
    }

    /// Compiles a source, for its errors; FALSE where there is nothing to compile it with.
    fn module_check(module) {
        Ok(r::logical(backend::check(&*self::module(module)?)?))
    }

    /// What can be called, as far as the code says so.
    fn module_names(module) {
        let names = self::module(module)?.names();
        Ok(r::strings(names.iter()))
    }

    /// "source", "ptx", "cubin", "fatbin" or "library".
    fn module_format(module) {
        Ok(r::string(match self::module(module)?.format() {
            None => "source",
            Some(Format::Ptx) => "ptx",
            Some(Format::Cubin) => "cubin",
            Some(Format::Fatbin) => "fatbin",
            Some(Format::Host) => "library",
        }))
    }

    /// A source compiled for an architecture (`90`): PTX or a cubin, as a raw vector. What is made so can be read as a
    /// file.
    fn module_image(module, arch, ptx) {
        #[cfg(not(target_os = "macos"))]
        {
            let (arch, ptx) = (values::size(arch, "arch")? as u32, values::flag(ptx, "ptx")?);
            let image = verdigris_engine::backend::cuda::user::image(&*self::module(module)?, arch, ptx)?;
            // SAFETY: a new raw vector of so many bytes.
            unsafe {
                let out = r::Rf_allocVector(SEXPTYPE::RAWSXP, image.len() as r::R_xlen_t);
                std::ptr::copy_nonoverlapping(image.as_ptr(), r::RAW(out), image.len());
                Ok(out)
            }
        }
        #[cfg(target_os = "macos")]
        {
            let _ = (module, arch, ptx);
            Err(Error::new(ErrorKind::Library, "there is no CUDA on macOS"))
        }
    }
}
