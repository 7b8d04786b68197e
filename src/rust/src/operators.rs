//! Records operations for R's operators and elementwise functions. Attributes are C's matter (`operators.c`).

use crate::r::{self, *};
use verdigris_engine::array::Array;
use verdigris_engine::buffer::Device;
use verdigris_engine::error::{Error, Kind, Result};
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
    let site = if id.row().flag == Flag::None { None } else { site::of(call) };
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
        let columns: [(&str, Vec<String>); 7] = [
            ("name", rows.iter().map(|r| r.name.to_string()).collect()),
            ("r", rows.iter().map(|r| r.r.to_string()).collect()),
            ("group", rows.iter().map(|r| group(r.group).to_string()).collect()),
            ("arity", rows.iter().map(|r| r.arity.to_string()).collect()),
            ("rule", rows.iter().map(|r| format!("{:?}", r.rule)).collect()),
            ("ulp", rows.iter().map(|r| r.ulp.to_string()).collect()),
            ("doc", rows.iter().map(|r| r.doc.to_string()).collect()),
        ];
        // SAFETY: plain allocations, protected while the next is made.
        unsafe {
            let out = Rf_protect(Rf_allocVector(SEXPTYPE::VECSXP, columns.len() as R_xlen_t));
            let names = Rf_protect(Rf_allocVector(SEXPTYPE::STRSXP, columns.len() as R_xlen_t));
            for (k, (name, values)) in columns.iter().enumerate() {
                SET_STRING_ELT(names, k as R_xlen_t, r::chars_of(name));
                let column = Rf_allocVector(SEXPTYPE::STRSXP, values.len() as R_xlen_t);
                SET_VECTOR_ELT(out, k as R_xlen_t, column);
                for (i, value) in values.iter().enumerate() {
                    SET_STRING_ELT(column, i as R_xlen_t, r::chars_of(value));
                }
            }
            Rf_setAttrib(out, R_NamesSymbol, names);
            Rf_unprotect(2);
            Ok(out)
        }
    }
}
