//! Helpers for tests of recorded arrays: doubles on the cpu device.

#[path = "../tests/turn/mod.rs"]
pub mod turn;

use crate::array::transfer::Host;
use crate::array::{host_bytes, Array, Operand};
use crate::memory::buffer::Device;
use verdigris_ops::dtype::Kind;
use verdigris_ops::scalar::Scalar;
use verdigris_ops::OpId;

pub fn array(values: &[f64]) -> Array {
    Array::upload(Host::Double(values), None, Device::Cpu, None).expect("an upload")
}

/// Computes an array, and returns its elements.
pub fn values(array: &Array) -> Vec<f64> {
    let bytes = host_bytes(&array.contiguous().expect("values")).expect("bytes");
    bytes.chunks(8).map(|b| f64::from_ne_bytes(b.try_into().expect("eight"))).collect()
}

/// Records an operation of the table.
pub fn apply(name: &str, operands: &[Operand]) -> Array {
    Array::apply(OpId::find(name).expect("a row"), operands, None).expect("recorded")
}

pub fn twice(x: &Array) -> Array {
    apply("mul", &[Operand::Array(x.clone()), Operand::Value(Scalar::F64(2.0), Kind::Double)])
}
