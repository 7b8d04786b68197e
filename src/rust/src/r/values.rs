//! Conversion of R values to Rust: vectors, scalars, lengths, strings, names of dtypes.

use verdigris_engine::array::transfer::Host;
use verdigris_engine::memory::fallible;
use verdigris_ops::dtype::{DType, Kind};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::raw_slice::slice;
use verdigris_ops::scalar::{Scalar, NA_I64};

use crate::r::{self, SEXP, SEXPTYPE};

/// The elements of an R vector; `None` for types that arrays do not have. Materialises ALTREP vectors.
pub fn host<'a>(x: SEXP) -> Option<Host<'a>> {
    let n = r::len(x);
    // SAFETY: the pointers are valid for the vector's length; Rcomplex is two doubles.
    unsafe {
        Some(match r::kind_of(x) {
            SEXPTYPE::LGLSXP => Host::Logical(slice(r::LOGICAL_RO(x), n)),
            SEXPTYPE::INTSXP => Host::Integer(slice(r::INTEGER_RO(x), n)),
            SEXPTYPE::REALSXP if r::inherits(x, "integer64") => Host::Integer64(slice(r::REAL_RO(x).cast(), n)),
            SEXPTYPE::REALSXP => Host::Double(slice(r::REAL_RO(x), n)),
            SEXPTYPE::CPLXSXP => Host::Complex(slice(r::COMPLEX_RO(x).cast(), n)),
            _ => return None,
        })
    }
}

/// The address and dtype of a plain vector whose representation is that of a dtype: doubles, integers, complex numbers,
/// integer64 and raw bytes, but not logicals. `None` for objects of other classes. Materialises ALTREP vectors.
pub fn address_and_dtype(x: SEXP) -> Option<(u64, DType)> {
    let plain = !is_classed(x);
    let is_integer64 = !plain && r::inherits(x, "integer64");
    if !(plain || is_integer64 || r::inherits(x, "ts") || r::inherits(x, "AsIs")) {
        return None;
    }
    // SAFETY: the type is checked before each access.
    unsafe {
        Some(match r::kind_of(x) {
            SEXPTYPE::INTSXP => (r::INTEGER_RO(x) as u64, DType::Int32),
            SEXPTYPE::REALSXP if is_integer64 => (r::REAL_RO(x) as u64, DType::Int64),
            SEXPTYPE::REALSXP => (r::REAL_RO(x) as u64, DType::Float64),
            SEXPTYPE::CPLXSXP => (r::COMPLEX_RO(x) as u64, DType::Complex128),
            SEXPTYPE::RAWSXP => (r::RAW(x) as u64, DType::UInt8),
            _ => return None,
        })
    }
}

/// The kind of a host vector; `None` for types that arrays do not have.
pub fn kind(x: SEXP) -> Option<Kind> {
    Some(match r::kind_of(x) {
        SEXPTYPE::LGLSXP => Kind::Logical,
        SEXPTYPE::INTSXP => Kind::Integer,
        SEXPTYPE::REALSXP if r::inherits(x, "integer64") => Kind::Integer64,
        SEXPTYPE::REALSXP => Kind::Double,
        SEXPTYPE::CPLXSXP => Kind::Complex,
        _ => return None,
    })
}

/// The value and kind of a vector of length one; `None` for other objects.
pub fn scalar(x: SEXP) -> Option<(Scalar, Kind)> {
    if r::len(x) != 1 {
        return None;
    }
    // SAFETY: the length is 1, and the type is checked.
    unsafe {
        Some(match kind(x)? {
            Kind::Logical => (Scalar::I32(r::LOGICAL_ELT(x, 0)), Kind::Logical),
            Kind::Integer => (Scalar::I32(r::INTEGER_ELT(x, 0)), Kind::Integer),
            Kind::Integer64 => (Scalar::I64(r::REAL_ELT(x, 0).to_bits() as i64), Kind::Integer64),
            Kind::Double => (Scalar::F64(r::REAL_ELT(x, 0)), Kind::Double),
            Kind::Complex => {
                let z = r::COMPLEX_ELT(x, 0);
                (Scalar::C128([z.r, z.i]), Kind::Complex)
            }
        })
    }
}

/// The error for a value that no array can hold.
pub fn unsuitable(x: SEXP) -> Error {
    Error::new(ErrorKind::DType, format!("an array cannot hold {}", describe(x)))
        .advise("Arrays hold doubles, integers, logicals, complex numbers and integer64.")
}

/// A description of a value for messages. A single element is written as in R, truncated.
pub fn describe(x: SEXP) -> String {
    const MOST: usize = 60;
    // SAFETY: x is a valid R object. ALTREP vectors are not read: an array's element may have to be waited for.
    let ordinary = unsafe { r::ALTREP(x) == 0 };
    if r::len(x) == 1 && !is_classed(x) && ordinary {
        // SAFETY: the types are checked, and the length is 1.
        unsafe {
            match r::kind_of(x) {
                SEXPTYPE::LGLSXP => {
                    return match r::LOGICAL_ELT(x, 0) {
                        0 => "FALSE",
                        i32::MIN => "NA",
                        _ => "TRUE",
                    }
                    .into();
                }
                SEXPTYPE::INTSXP if r::INTEGER_ELT(x, 0) != i32::MIN => return format!("{}L", r::INTEGER_ELT(x, 0)),
                SEXPTYPE::REALSXP if r::REAL_ELT(x, 0).is_infinite() => {
                    return if r::REAL_ELT(x, 0) > 0.0 { "Inf" } else { "-Inf" }.into();
                }
                SEXPTYPE::REALSXP if r::REAL_ELT(x, 0).abs() < 1e15 => return r::REAL_ELT(x, 0).to_string(),
                SEXPTYPE::REALSXP if !r::REAL_ELT(x, 0).is_nan() => return format!("{:e}", r::REAL_ELT(x, 0)),
                SEXPTYPE::INTSXP | SEXPTYPE::REALSXP => return "NA".into(),
                SEXPTYPE::STRSXP if r::STRING_ELT(x, 0) == r::R_NaString => return "NA".into(),
                SEXPTYPE::STRSXP => {
                    let Ok(text) = r::translated(r::STRING_ELT(x, 0)) else {
                        return "a string that is not valid text".into();
                    };
                    let more = if text.chars().nth(MOST).is_some() { "..." } else { "" };
                    return format!("\"{}{more}\"", text.chars().take(MOST).collect::<String>());
                }
                _ => {}
            }
        }
    }
    described(x)
}

fn described(x: SEXP) -> String {
    let name = match r::kind_of(x) {
        SEXPTYPE::NILSXP => return "NULL".into(),
        SEXPTYPE::LGLSXP => "a logical vector",
        SEXPTYPE::INTSXP => "an integer vector",
        SEXPTYPE::REALSXP => "a double vector",
        SEXPTYPE::CPLXSXP => "a complex vector",
        SEXPTYPE::STRSXP => "a character vector",
        SEXPTYPE::RAWSXP => "a raw vector",
        SEXPTYPE::VECSXP => "a list",
        SEXPTYPE::CLOSXP | SEXPTYPE::BUILTINSXP | SEXPTYPE::SPECIALSXP => return "a function".into(),
        SEXPTYPE::ENVSXP => return "an environment".into(),
        SEXPTYPE::EXTPTRSXP => return "an external pointer".into(),
        _ => return "something else".into(),
    };
    format!("{name} of length {}", r::len(x))
}

/// The error for a string that is not valid text.
pub fn unreadable(argument: &str, why: &str) -> Error {
    Error::new(ErrorKind::Argument, format!("`{argument}` {why}"))
        .advise("`Encoding()` says how a string is marked; `iconv(x, \"latin1\", \"UTF-8\")` translates one.")
}

/// One string that is not NA.
pub fn string<'a>(x: SEXP, argument: &str) -> Result<&'a str> {
    // SAFETY: the type and length are checked; the translation lives as long as this .Call.
    unsafe {
        if r::kind_of(x) == SEXPTYPE::STRSXP && r::len(x) == 1 && r::STRING_ELT(x, 0) != r::R_NaString {
            return r::translated(r::STRING_ELT(x, 0)).map_err(|why| unreadable(argument, why));
        }
    }
    Err(Error::new(ErrorKind::Argument, format!("`{argument}` must be one string, not {}", describe(x))))
}

/// The strings of a character vector without NA; empty for NULL.
pub fn strings(x: SEXP, argument: &str) -> Result<Vec<String>> {
    if r::is_null(x) {
        return Ok(Vec::new());
    }
    // SAFETY: reads within the length; each translation is copied at once.
    unsafe {
        let is_text = r::kind_of(x) == SEXPTYPE::STRSXP;
        if is_text && (0..r::len(x) as isize).all(|k| r::STRING_ELT(x, k) != r::R_NaString) {
            let text = |k| r::translated(r::STRING_ELT(x, k)).map(str::to_string);
            return (0..r::len(x) as isize).map(|k| text(k).map_err(|why| unreadable(argument, why))).collect();
        }
    }
    Err(Error::new(ErrorKind::Argument, format!("`{argument}` must be strings, not {}", describe(x))))
}

/// One double that is not NA.
pub fn number(x: SEXP, argument: &str) -> Result<f64> {
    // SAFETY: the type and length are checked.
    let value = unsafe {
        if r::kind_of(x) == SEXPTYPE::REALSXP && r::len(x) == 1 {
            r::REAL_ELT(x, 0)
        } else {
            f64::NAN
        }
    };
    if value.is_nan() {
        return Err(Error::new(ErrorKind::Argument, format!("`{argument}` must be one number, not {}", describe(x))));
    }
    Ok(value)
}

/// A flag that is TRUE or FALSE.
pub fn flag(x: SEXP, argument: &str) -> Result<bool> {
    // SAFETY: the type and length are checked.
    let value = unsafe {
        if r::kind_of(x) == SEXPTYPE::LGLSXP && r::len(x) == 1 {
            r::LOGICAL_ELT(x, 0)
        } else {
            i32::MIN
        }
    };
    match value {
        0 => Ok(false),
        i32::MIN => {
            Err(Error::new(ErrorKind::Argument, format!("`{argument}` must be TRUE or FALSE, not {}", describe(x))))
        }
        _ => Ok(true),
    }
}

/// Whether a value has a class attribute.
pub fn is_classed(x: SEXP) -> bool {
    // SAFETY: x is a valid R object.
    unsafe { r::Rf_isObject(x) != r::Rboolean::FALSE }
}

/// Whether a vector's class gives its numbers another meaning than amounts: codes of a factor, dates or times.
pub fn is_factor_or_time(x: SEXP) -> bool {
    is_classed(x) && ["factor", "Date", "POSIXct", "difftime"].iter().any(|class| r::inherits(x, class))
}

/// As `scalar`; `None` for factors, dates and times.
pub fn amount(x: SEXP) -> Option<(Scalar, Kind)> {
    scalar(x).filter(|_| !is_factor_or_time(x))
}

/// As `host`; `None` for factors, dates and times.
fn amounts<'a>(x: SEXP) -> Option<Host<'a>> {
    host(x).filter(|_| !is_factor_or_time(x))
}

/// One whole number, 0 or more, such as a length. Integer, double or integer64.
pub fn size(x: SEXP, argument: &str) -> Result<usize> {
    let value = match amount(x) {
        Some((Scalar::F64(v), _)) if (0.0..=4_503_599_627_370_496.0).contains(&v) && v.fract() == 0.0 => {
            Some(v as usize)
        }
        Some((Scalar::I32(v), Kind::Integer)) => usize::try_from(v).ok(),
        Some((Scalar::I64(v), _)) if v != NA_I64 => usize::try_from(v).ok(),
        _ => None,
    };
    value.ok_or_else(|| {
        Error::new(
            ErrorKind::Argument,
            format!("`{argument}` must be one whole number, 0 or more, not {}", describe(x)),
        )
    })
}

/// The dtype that an unknown name probably means: a short name of other libraries (`f32`, `bf16`, `i8`), or a name at
/// edit distance of at most 2.
fn meant<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let name = name.trim().to_ascii_lowercase();
    let digits = name.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let long = match name.strip_suffix(digits).unwrap_or(&name) {
        "f" | "fp" | "float" => "float",
        "bf" => "bfloat",
        "i" | "int" => "int",
        "u" | "uint" => "uint",
        "c" => "complex",
        "b" | "boolean" => return known.iter().copied().find(|k| k.starts_with("bool")),
        _ => "",
    };
    let whole = format!("{long}{digits}");
    let short = known.iter().copied().find(|k| !long.is_empty() && *k == whole);
    short.or_else(|| {
        known.iter().copied().map(|k| (distance(&name, k), k)).min().filter(|(d, _)| *d <= 2).map(|(_, k)| k)
    })
}

/// The Levenshtein distance between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(32).enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (above + 1).min(row[j] + 1).min(corner + usize::from(x != *y));
            corner = above;
        }
    }
    row[b.len()]
}

/// The dtype of this name, which may be one of R's names; `None` for NULL.
pub fn dtype(x: SEXP) -> Result<Option<DType>> {
    if r::is_null(x) {
        return Ok(None);
    }
    let name = string(x, "dtype")?;
    let found = match name {
        "double" | "numeric" => Some(DType::Float64),
        "single" | "float" => Some(DType::Float32),
        "half" => Some(DType::Float16),
        "integer" => Some(DType::Int32),
        "integer64" => Some(DType::Int64),
        "logical" | "bool" => Some(DType::Bool8),
        "complex" => Some(DType::Complex128),
        name => DType::from_name(name),
    };
    found.map(Some).ok_or_else(|| {
        let known: Vec<&str> = DType::ALL.iter().map(|d| d.name()).collect();
        let error = Error::new(ErrorKind::DType, format!("there is no dtype \"{name}\""));
        let error = match meant(name, &known) {
            Some(near) => error.advise(format!("Did you mean \"{near}\"?")),
            None => error,
        };
        error.advise(format!("The dtypes are {}.", known.join(", ")))
    })
}

/// Whole numbers, which may be negative. Integers, doubles or integer64.
pub fn wholes(x: SEXP, argument: &str) -> Result<Vec<i64>> {
    let refused = || {
        Error::new(ErrorKind::Argument, format!("`{argument}` must be whole numbers within 2^53, not {}", describe(x)))
    };
    let of_double = |v: f64| (v.abs() <= 9_007_199_254_740_992.0 && v.fract() == 0.0).then_some(v as i64);
    let mut whole = true;
    let mut checked = |number: Option<i64>| {
        whole &= number.is_some();
        number.unwrap_or(0)
    };
    let numbers = match amounts(x) {
        Some(Host::Integer(v)) => {
            fallible::collected(v.iter().map(|&k| checked((k != i32::MIN).then_some(i64::from(k)))))?
        }
        Some(Host::Double(v)) => fallible::collected(v.iter().map(|&k| checked(of_double(k))))?,
        Some(Host::Integer64(v)) => fallible::collected(v.iter().map(|&k| checked((k != NA_I64).then_some(k))))?,
        _ => return Err(refused()),
    };
    if whole {
        Ok(numbers)
    } else {
        Err(refused())
    }
}

/// Whole numbers, 0 or more. Integers, doubles or integer64.
pub fn sizes(x: SEXP) -> Result<Vec<usize>> {
    let refused = || Error::new(ErrorKind::Argument, format!("expected whole numbers, 0 or more, not {}", describe(x)));
    match amounts(x) {
        Some(Host::Integer(v)) => fallible::all_of(v.iter().map(|&k| usize::try_from(k).map_err(|_| refused()))),
        Some(Host::Double(v)) => fallible::all_of(v.iter().map(|&k| {
            if (0.0..=4_503_599_627_370_496.0).contains(&k) && k.fract() == 0.0 {
                Ok(k as usize)
            } else {
                Err(refused())
            }
        })),
        Some(Host::Integer64(v)) => fallible::all_of(v.iter().map(|&k| usize::try_from(k).map_err(|_| refused()))),
        _ => Err(refused()),
    }
}
