//! Entries: arrays in safetensors files. R's attributes are stored in the file's metadata, as JSON.

use std::path::Path;

use verdigris_engine::array::Array;
use verdigris_engine::interop::files::{self, Item, Stored};
use verdigris_engine::interop::json::Json;
use verdigris_engine::memory::buffer::Device;
use verdigris_engine::memory::fallible;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};

use crate::array::{attributes, convert, handle};
use crate::entries::entry::entries;
use crate::r::typed::FromR;
use crate::r::{self, values, List, SEXP, SEXPTYPE};

/// The key of this package's metadata: an object with the attributes of each tensor, by the tensor's name.
const ATTRIBUTES: &str = "verdigris";
/// The nesting depth of objects and arrays; the reader allows the same.
const DEEPEST: usize = 16;

/// The strings of a character vector: `None` for NA, an error for invalid text.
fn strings<'a>(x: SEXP, what: &str) -> impl Iterator<Item = Result<Option<&'a str>>> + use<'a, '_> {
    // SAFETY: a character vector, read within its length; translations live as long as this .Call.
    (0..if r::kind_of(x) == SEXPTYPE::STRSXP { r::len(x) } else { 0 }).map(move |k| unsafe {
        let text = r::STRING_ELT(x, k as isize);
        if text == r::R_NaString {
            return Ok(None);
        }
        r::translated(text).map(Some).map_err(|why| values::unreadable(what, why))
    })
}

/// R's vectors and lists as JSON arrays; a list with names as an object.
fn to_json(x: SEXP, depth: usize) -> Result<Json> {
    let n = r::len(x);
    // SAFETY: read within the vector's length, of its type.
    Ok(unsafe {
        match r::kind_of(x) {
            SEXPTYPE::STRSXP => {
                let mut all = fallible::with_capacity(n)?;
                for text in strings(x, "metadata") {
                    fallible::push(
                        &mut all,
                        text?.map_or(Ok(Json::Null), |text| fallible::text(text).map(Json::String))?,
                    )?;
                }
                Json::Array(all)
            }
            SEXPTYPE::REALSXP => {
                Json::Array(fallible::collected((0..n).map(|k| Json::Number(r::REAL_ELT(x, k as isize))))?)
            }
            SEXPTYPE::VECSXP if depth < DEEPEST => {
                let elements = fallible::all_of((0..n).map(|k| to_json(r::VECTOR_ELT(x, k as isize), depth + 1)))?;
                let names = r::Rf_getAttrib(x, r::R_NamesSymbol);
                if r::is_null(names) {
                    return Ok(Json::Array(elements));
                }
                let mut members = fallible::with_capacity(elements.len())?;
                for (name, element) in strings(names, "metadata").zip(elements) {
                    fallible::push(&mut members, (fallible::text(name?.unwrap_or(""))?, element))?;
                }
                Json::Object(members)
            }
            _ => Json::Null,
        }
    })
}

/// The inverse: an array of strings and nulls becomes a character vector, one of numbers a double vector, any other a
/// list. Not protected.
fn of_json(value: &Json) -> SEXP {
    let number = |value: &Json| match value {
        Json::Integer(n) => Some(*n as f64),
        Json::Number(x) => Some(*x),
        _ => None,
    };
    match value {
        Json::Null => r::null(),
        Json::Bool(b) => r::logical(*b),
        Json::String(text) => r::string(text),
        Json::Integer(n) => r::real(*n as f64),
        Json::Number(x) => r::real(*x),
        Json::Array(elements) => {
            if !elements.is_empty() && elements.iter().all(|e| number(e).is_some()) {
                return r::reals(elements.iter().map(|e| number(e).unwrap_or(f64::NAN)));
            }
            if elements.iter().all(|e| matches!(e, Json::String(_) | Json::Null)) {
                // SAFETY: protected while the strings are made; within its length.
                return unsafe {
                    let out = r::Rf_protect(r::Rf_allocVector(SEXPTYPE::STRSXP, elements.len() as isize));
                    for (k, element) in elements.iter().enumerate() {
                        let text = element.text().map_or(r::R_NaString, r::chars_of);
                        r::SET_STRING_ELT(out, k as isize, text);
                    }
                    r::Rf_unprotect(1);
                    out
                };
            }
            // SAFETY: protected while its elements are made; within its length.
            unsafe {
                let out = r::Rf_protect(r::Rf_allocVector(SEXPTYPE::VECSXP, elements.len() as isize));
                for (k, element) in elements.iter().enumerate() {
                    r::SET_VECTOR_ELT(out, k as isize, of_json(element));
                }
                r::Rf_unprotect(1);
                out
            }
        }
        Json::Object(members) => {
            members.iter().fold(List::new(members.len()), |list, (name, value)| list.add(name, of_json(value))).finish()
        }
    }
}

/// Adds an attribute that R does not have, such as the dtype that the file format cannot express.
fn say(attributes: &mut Json, name: &str, value: &str) {
    if let Json::Object(members) = attributes {
        members.push((name.into(), Json::String(value.into())));
    } else {
        *attributes = Json::Object(vec![(name.into(), Json::String(value.into()))]);
    }
}

entries! {
    /// The bytes of a file; `argument` is the argument's name for messages.
    fn file_bytes(path: &str, argument: &str) -> Result<Vec<u8>> {
        files::bytes(Path::new(path), argument)
    }

    /// Writes arrays with their names, attributes (a list each) and the file's metadata (a named character vector).
    fn file_save(
        path: &str,
        arrays: Vec<SEXP>,
        tensor_names as "names(x)": Vec<String>,
        attributes: Vec<SEXP>,
        metadata: SEXP,
    ) -> Result<()> {
        let mut items = Vec::new();
        let mut ours = Vec::new();
        for ((name, x), own) in tensor_names.into_iter().zip(arrays).zip(attributes) {
            let item = Item { name, array: convert::array(x)?, dim: attributes::extents(x)? };
            let mut own = to_json(own, 0)?;
            match item.stored()? {
                Stored::AsItIs => {}
                Stored::Int8 => say(&mut own, "dtype", DType::Bool8.name()),
                Stored::Pairs => say(&mut own, "dtype", DType::Complex128.name()),
            }
            if own.object().is_some_and(|members| !members.is_empty()) {
                ours.push((item.name.clone(), own));
            }
            items.push(item);
        }
        // SAFETY: reading an attribute.
        let keys = values::strings(unsafe { r::Rf_getAttrib(metadata, r::R_NamesSymbol) }, "names(metadata)")?;
        let mut all: Vec<(String, String)> = keys.into_iter().zip(values::strings(metadata, "metadata")?).collect();
        if !ours.is_empty() {
            let mut text = String::new();
            Json::Object(ours).write(&mut text);
            all.push((ATTRIBUTES.into(), text));
        }
        files::save(Path::new(path), &items, &all)
    }

    /// list(names, arrays, attributes, metadata) of a file. `names` selects tensors; NULL means all.
    fn file_load(path: &str, wanted as "names": Option<Vec<String>>, device: SEXP) -> Result<List> {
        let source = files::open(Path::new(path))?;
        let header = &source.header;
        let entries: Vec<_> = match wanted {
            None => header.entries.iter().collect(),
            Some(names) => names
                .iter()
                .map(|name| {
                    header.entries.iter().find(|e| e.name == *name).ok_or_else(|| {
                        let known: Vec<String> =
                            header.entries.iter().take(20).map(|e| format!("\"{}\"", e.name)).collect();
                        let more = if header.entries.len() > 20 { ", ..." } else { "" };
                        Error::new(ErrorKind::Argument, format!("the file has no tensor \"{name}\""))
                            .advise(format!("It has {}{more}.", known.join(", ")))
                    })
                })
                .collect::<Result<_>>()?,
        };
        let device = Device::from_r(device, "device")?;
        // another program may have written anything under this key: invalid JSON means no attributes
        let written = header.metadata.iter().find(|(key, _)| key == ATTRIBUTES);
        let ours = written.and_then(|(_, text)| Json::parse(text).ok()).unwrap_or(Json::Null);
        let mut loaded: Vec<(Array, Vec<usize>)> = Vec::new();
        for entry in &entries {
            let dtype = ours.get(&entry.name).and_then(|own| own.get("dtype")).and_then(Json::text);
            let (array, dim) = source.load(entry, dtype == Some(DType::Complex128.name()), device)?;
            let was_logical = dtype == Some(DType::Bool8.name()) && array.dtype() == DType::Int8;
            loaded.push((if was_logical { array.cast(DType::Bool8, None)? } else { array }, dim));
        }
        // SAFETY: each value is protected, or becomes an element of a protected list before R allocates again.
        unsafe {
            let mut out = List::new(4).add("names", r::strings(entries.iter().map(|e| &e.name)));
            let arrays = r::Rf_protect(r::Rf_allocVector(SEXPTYPE::VECSXP, loaded.len() as isize));
            for (k, (array, dim)) in loaded.into_iter().enumerate() {
                r::SET_VECTOR_ELT(arrays, k as isize, handle::shaped(array, &dim)?);
            }
            out = out.add("arrays", arrays);
            r::Rf_unprotect(1);
            let attributes = r::Rf_protect(r::Rf_allocVector(SEXPTYPE::VECSXP, entries.len() as isize));
            for (k, entry) in entries.iter().enumerate() {
                let own = ours.get(&entry.name).map_or(r::null(), of_json);
                r::SET_VECTOR_ELT(attributes, k as isize, own);
            }
            out = out.add("attributes", attributes);
            r::Rf_unprotect(1);
            let others: Vec<&(String, String)> = header.metadata.iter().filter(|(key, _)| key != ATTRIBUTES).collect();
            let values = r::Rf_protect(r::strings(others.iter().map(|(_, value)| value)));
            let keys = r::Rf_protect(r::strings(others.iter().map(|(key, _)| key)));
            r::Rf_setAttrib(values, r::R_NamesSymbol, keys);
            r::Rf_unprotect(1);
            out = out.add("metadata", values);
            r::Rf_unprotect(1);
            Ok(out)
        }
    }
}
