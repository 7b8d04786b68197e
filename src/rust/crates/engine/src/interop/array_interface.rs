//! Type strings of the CUDA Array Interface (version 3), which are those of NumPy's array interface:
//! <https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html>.

use verdigris_ops::dtype::{DType, Number};
use verdigris_ops::error::{Error, Kind, Result};

/// The type string of a dtype, in this machine's byte order.
///
/// # Errors
/// `DType` for bfloat16, which has no type string.
pub fn typestr(dtype: DType) -> Result<String> {
    let code = match dtype.number() {
        Number::Bool => 'b',
        Number::Int => 'i',
        Number::UInt => 'u',
        Number::Float => 'f',
        Number::Complex => 'c',
        Number::BFloat => {
            return Err(Error::new(Kind::DType, "array interfaces have no type for bfloat16")
                .advise("Cast it with `gpu_cast(x, \"float32\")`, or exchange it by `as_dlpack()`."));
        }
    };
    let order = if dtype.size() == 1 { '|' } else { native() };
    Ok(format!("{order}{code}{}", dtype.size()))
}

fn native() -> char {
    if cfg!(target_endian = "little") {
        '<'
    } else {
        '>'
    }
}

/// The dtype of a type string.
///
/// # Errors
/// `DType` for element types that arrays do not have, and for the other byte order.
pub fn dtype(text: &str) -> Result<DType> {
    let refused = || {
        Error::new(Kind::DType, format!("arrays cannot hold elements of type \"{text}\""))
            .advise("Cast them before they are exported, such as to \"<f4\", \"<f8\" or \"<i4\".")
    };
    let mut rest = text.chars();
    let order = rest.next().ok_or_else(refused)?;
    if !(order == '|' || order == '=' || order == native()) {
        return Err(refused());
    }
    let wanted = rest.as_str();
    DType::ALL.into_iter().find(|&d| typestr(d).is_ok_and(|known| &known[1..] == wanted)).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_string_comes_back() {
        for d in DType::ALL.into_iter().filter(|&d| d != DType::BFloat16) {
            assert_eq!(dtype(&typestr(d).unwrap()).unwrap(), d);
        }
        assert_eq!(typestr(DType::Bool8).unwrap(), "|b1");
        for text in ["", "f8", ">f8", "<f3", "<u4", "<V2", "<O8", "é", "<f8x", "|"] {
            assert_eq!(dtype(text).unwrap_err().kind, Kind::DType, "{text}");
        }
    }
}
