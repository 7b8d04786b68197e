//! Records operations for R's operators and elementwise functions. Attributes are C's matter (`operators.c`).

use extendr_ffi::*;
use verdigris_engine::array::{Array, Operand};
use verdigris_engine::buffer::Device;
use verdigris_engine::error::{Error, Kind, Result};
use verdigris_engine::ops::{Flag, Group, OpId};

use crate::convert;
use crate::guard::entry;
use crate::handle;
use crate::site;

/// The row that R code names.
pub fn row(name: SEXP) -> Result<OpId> {
    let name = convert::string(name)?;
    OpId::find(name).ok_or_else(|| Error::new(Kind::Argument, format!("there is no operation `{name}`")))
}

entry! {
    /// Records an operation on the elements of a list: arrays, host vectors, scalars.
    fn vg_record(op: SEXP, operands: SEXP) {
        let id = row(op)?;
        // SAFETY: operands is a list that the C side made.
        let list: Vec<SEXP> = unsafe { (0..Rf_xlength(operands)).map(|k| VECTOR_ELT(operands, k)).collect() };
        let array = record(id, &list)?;
        Ok(handle::wrap(array))
    }
}

/// Brings host operands to the arrays' device and records.
pub fn record(id: OpId, list: &[SEXP]) -> Result<Array> {
    let mut device: Option<Device> = None;
    for &x in list {
        if let Some(handle) = handle::of(x) {
            device = Some(handle.device());
            break;
        }
    }
    let device = match device {
        Some(device) => device,
        // gpu_array class on a plain vector: adopted by uploading
        None => match list.iter().find(|x| handle::is_array(**x)) {
            Some(&x) => handle::array(x)?.device(),
            None => return Err(Error::new(Kind::Argument, "an operation needs at least one gpu_array")),
        },
    };
    let operands = list.iter().map(|&x| operand(x, device)).collect::<Result<Vec<_>>>()?;
    let site = if id.row().flag == Flag::None { None } else { site::current() };
    Array::apply(id, &operands, site)
}

/// An operand as the engine takes it; a host vector is copied to the device.
pub fn operand(x: SEXP, device: Device) -> Result<Operand> {
    if handle::is_array(x) {
        return Ok(Operand::Array(handle::array(x)?));
    }
    if let Some((scalar, kind)) = convert::scalar(x)? {
        return Ok(Operand::Value(scalar, kind));
    }
    let host = convert::host(x)?;
    let kind = host.kind();
    Ok(Operand::Vector(Array::upload(host, None, device, None)?, kind))
}

entry! {
    /// The operation table as a data frame's columns: name, r, group, arity, rule, ulp, doc.
    fn vg_operation_table() {
        let rows: Vec<_> = OpId::all().map(OpId::row).collect();
        let group = |g: Group| match g {
            Group::Ops => "Ops",
            Group::Math => "Math",
            Group::Complex => "Complex",
            Group::Generic => "Generic",
            Group::Function => "Function",
            Group::Internal => "Internal",
        };
        let columns: [(&str, Vec<String>); 7] = [
            ("name", rows.iter().map(|r| r.name.to_string()).collect()),
            ("r", rows.iter().map(|r| r.r.to_string()).collect()),
            ("group", rows.iter().map(|r| group(r.group).to_string()).collect()),
            ("arity", rows.iter().map(|r| r.arity.to_string()).collect()),
            ("rule", rows.iter().map(|r| format!("{:?}", r.rule)).collect()),
            ("ulp", rows.iter().map(|r| r.ulp.to_string()).collect()),
            ("doc", rows.iter().map(|r| r.doc.to_string()).collect()),
        ];
        Ok(convert::named_strings(&columns))
    }
}
