//! Records operations for R's operators and elementwise functions. Attributes are C's matter (`operators.c`).

use crate::r::{self, *};
use verdigris_engine::array::Array;
use verdigris_engine::buffer::Device;
use verdigris_engine::error::{Error, Kind, Result};
use verdigris_engine::memory;
use verdigris_engine::ops::{Flag, Group, OpId};

use crate::convert;
use crate::entry;
use crate::handle;
use crate::site;

/// The row that R code names.
pub fn row(name: SEXP) -> Result<OpId> {
    let name = convert::string(name, "name")?;
    OpId::find(name).ok_or_else(|| Error::new(Kind::Argument, format!("there is no operation `{name}`")))
}

entry! {
    /// Records an operation on the elements of a list: arrays, host vectors, scalars.
    fn record(op, operands, call) {
        let id = row(op)?;
        // SAFETY: operands is a list that the C side made.
        let list: Vec<SEXP> = unsafe { (0..Rf_xlength(operands)).map(|k| VECTOR_ELT(operands, k)).collect() };
        let array = recorded(id, &list, call)?;
        Ok(handle::wrap(array))
    }
}

/// Brings host operands to the arrays' device and records.
pub fn recorded(id: OpId, list: &[SEXP], call: SEXP) -> Result<Array> {
    let mut device: Option<Device> = None;
    for &x in list {
        if let Some(handle) = handle::of(x) {
            device = Some(handle.peek().device());
            break;
        }
    }
    let device = match device {
        Some(device) => device,
        // gpu_array class on a plain vector: adopted by uploading
        None => match list.iter().find(|x| r::inherits(**x, "gpu_array")) {
            Some(&x) => handle::array(x)?.device(),
            None => return Err(Error::new(Kind::Argument, "an operation needs at least one gpu_array")),
        },
    };
    let operands = list.iter().map(|&x| convert::operand(x, device)).collect::<Result<Vec<_>>>()?;
    // a large result keeps the call for messages of full devices
    let large = || operands.iter().any(|x| x.extent() >= memory::LARGE / 8) && site::is_light(call);
    let site = if id.row().flag != Flag::None || large() { site::of(call) } else { None };
    Array::apply(id, &operands, site)
}

entry! {
    /// The operation table as a data frame's columns: name, r, group, arity, rule, ulp, doc.
    fn operation_table() {
        let rows: Vec<_> = OpId::all().map(OpId::row).collect();
        let group = |g: Group| match g {
            Group::Ops => "Ops",
            Group::Math => "Math",
            Group::Complex => "Complex",
            Group::Generic => "Generic",
            Group::Function => "Function",
            Group::Internal => "Internal",
        };
        Ok(List::new(7)
            .add("name", r::strings(rows.iter().map(|row| row.name)))
            .add("r", r::strings(rows.iter().map(|row| row.r)))
            .add("group", r::strings(rows.iter().map(|row| group(row.group))))
            .add("arity", r::strings(rows.iter().map(|row| row.arity.to_string())))
            .add("rule", r::strings(rows.iter().map(|row| format!("{:?}", row.rule))))
            .add("ulp", r::strings(rows.iter().map(|row| row.ulp.to_string())))
            .add("doc", r::strings(rows.iter().map(|row| row.doc)))
            .finish())
    }
}
