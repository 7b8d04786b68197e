//! Converts numbers from R to the C types of a kernel's parameters.

use super::signature::Element;
use verdigris_ops::dtype::Kind;
use verdigris_ops::scalar::{Scalar, NA_I32, NA_I64};

/// The bytes of a number, stored inline so that a launch allocates nothing.
#[derive(Clone, Copy)]
pub struct Bytes {
    storage: [u8; 16],
    len: usize,
}

impl Bytes {
    fn new(bytes: &[u8]) -> Bytes {
        let mut storage = [0; 16];
        storage[..bytes.len()].copy_from_slice(bytes);
        Bytes { storage, len: bytes.len() }
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.storage[..self.len]
    }
}

/// Converts a number to the bytes of a parameter of this type; the error says why it does not fit.
pub fn bytes(element: &Element, value: Scalar, kind: Kind) -> Result<Bytes, String> {
    let is_na = matches!(value, Scalar::I32(NA_I32) | Scalar::I64(NA_I64));
    if let (Kind::Complex, false) =
        (kind, matches!(element, Element::FloatComplex | Element::DoubleComplex | Element::Other(_)))
    {
        return Err("it takes a real number, not a complex one".into());
    }
    let double = || match value.to(verdigris_ops::dtype::Class::F64) {
        Scalar::F64(x) => x,
        _ => f64::NAN,
    };
    Ok(match element {
        Element::Bool => match value {
            _ if is_na => return Err("NA is neither true nor false".into()),
            Scalar::F64(x) if x.is_nan() => return Err("NA is neither true nor false".into()),
            other => Bytes::new(&[u8::from(other.to_logical() == Scalar::I32(1))]),
        },
        Element::Integer(size, signed) => {
            let whole = whole(value, is_na)?;
            let bits = 8 * u32::from(*size);
            let (least, most) =
                if *signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
            if !(least..=most).contains(&whole) {
                return Err(format!("{whole} is outside {least} to {most}"));
            }
            // little-endian two's complement, as on all CUDA devices and their hosts
            Bytes::new(&whole.to_le_bytes()[..usize::from(*size)])
        }
        Element::Half => {
            let y = half::f16::from_f64(double());
            in_range(double(), y.is_infinite())?;
            Bytes::new(&y.to_ne_bytes())
        }
        Element::BFloat16 => {
            let y = half::bf16::from_f64(double());
            in_range(double(), y.is_infinite())?;
            Bytes::new(&y.to_ne_bytes())
        }
        Element::Float => {
            let y = double() as f32;
            in_range(double(), y.is_infinite())?;
            Bytes::new(&y.to_ne_bytes())
        }
        Element::Double => Bytes::new(&double().to_ne_bytes()),
        Element::FloatComplex => {
            let Scalar::C128(wide) = value.to(verdigris_ops::dtype::Class::C128) else {
                return Err("it takes a number".into());
            };
            for x in wide {
                in_range(x, (x as f32).is_infinite())?;
            }
            Bytes::new(&value.to(verdigris_ops::dtype::Class::C64).bytes()[..8])
        }
        Element::DoubleComplex => Bytes::new(&value.to(verdigris_ops::dtype::Class::C128).bytes()),
        Element::Void | Element::Stream => return Err("nothing can be passed as it".into()),
        Element::Other(name) => {
            return Err(format!("a number from R cannot be passed as `{name}`: give its bytes, a raw vector"));
        }
        Element::Bytes(size, known) => {
            if *size > 8 {
                return Err(format!("it takes a raw vector of {size} bytes"));
            }
            // R's integers and logicals can only be meant as integers; the type of a double is ambiguous.
            let whole = match value {
                Scalar::F64(_) if !known => {
                    return Err(
                        "the binary does not declare its type: declare it by `signatures`, or give a raw vector".into(),
                    )
                }
                value => whole(value, is_na)?,
            };
            let bits = 8 * *size as u32;
            if !(-(1i128 << (bits - 1))..1i128 << bits).contains(&whole) {
                return Err(format!("{whole} does not fit {size} bytes"));
            }
            Bytes::new(&whole.to_le_bytes()[..*size])
        }
    })
}

fn in_range(x: f64, became_infinite: bool) -> Result<(), String> {
    if x.is_finite() && became_infinite {
        return Err(format!("{x:e} is too large for it"));
    }
    Ok(())
}

/// The value as an integer.
fn whole(value: Scalar, is_na: bool) -> Result<i128, String> {
    match value {
        _ if is_na => Err("it takes a whole number, not NA".into()),
        Scalar::I32(x) => Ok(x.into()),
        Scalar::I64(x) => Ok(x.into()),
        Scalar::F64(x) if x.is_finite() && x.fract() == 0.0 && x.abs() <= 1.9e19 => Ok(x as i128),
        Scalar::F64(x) => Err(format!("it takes a whole number, not {x}")),
        _ => Err("it takes a whole number".into()),
    }
}
