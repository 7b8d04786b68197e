//! Entries: recording of operators and elementwise functions. `operators.c` sets the attributes.

use std::cell::RefCell;

use verdigris_engine::array::{Array, Operand};
use verdigris_ops::call_site::CallSite;
use verdigris_ops::dtype;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::scalar::Scalar;
use verdigris_ops::{Group, OpId, MOST_OPERANDS};

use crate::array::{convert, handle, lazy};
use crate::entries::entry::{entries, for_c};
use crate::r::typed::FromR;
use crate::r::{self, call_site, values, *};

impl FromR for OpId {
    fn from_r(x: SEXP, _: &'static str) -> Result<OpId> {
        row(x)
    }
}

/// The operation of this name. A method passes the same string every time, and R caches CHARSXPs, so the result is
/// cached by the string's address.
fn row(name: SEXP) -> Result<OpId> {
    const SLOTS: usize = 256;
    thread_local! {
        static KNOWN: RefCell<[(usize, OpId); SLOTS]> = const { RefCell::new([(0, OpId(0)); SLOTS]) };
    }
    // SAFETY: the type is checked before the element is taken; cached strings are preserved, so that no other string
    // can get their address.
    unsafe {
        let text =
            if r::kind_of(name) == SEXPTYPE::STRSXP && r::len(name) == 1 { STRING_ELT(name, 0) } else { R_NilValue };
        let slot = (text as usize >> 4) % SLOTS;
        let (at, id) = KNOWN.with_borrow(|known| known[slot]);
        if at == text as usize {
            return Ok(id);
        }
        let name = values::string(name, "name")?;
        let id =
            OpId::find(name).ok_or_else(|| Error::new(Kind::Argument, format!("there is no operation `{name}`")))?;
        if at == 0 {
            R_PreserveObject(text);
            KNOWN.with_borrow_mut(|known| known[slot] = (text as usize, id));
        }
        Ok(id)
    }
}

/// Records an operation on the elements of a list: arrays, host vectors, scalars. If `call` is a null pointer, C stores
/// the call afterwards.
fn record(op: OpId, operands: SEXP, call: SEXP) -> Result<SEXP> {
    // SAFETY: operands is a list that the C side made.
    let list: Vec<SEXP> = unsafe { (0..Rf_xlength(operands)).map(|k| VECTOR_ELT(operands, k)).collect() };
    let site = |warns| match warns {
        _ if call.is_null() => call_site::here(warns),
        true => call_site::recorded(call),
        false => call_site::of(call).filter(|_| call_site::is_light(call)),
    };
    recorded(op, &list, site).map(handle::new_without_attributes)
}

/// Records an operation on one value, or two unless `y` is a null pointer. C stores the call if one is wanted.
fn record_here(op: OpId, x: SEXP, y: SEXP) -> Result<SEXP> {
    let list = [x, y];
    let list = &list[..if y.is_null() { 1 } else { 2 }];
    match lazy::record(op, list)? {
        Some(out) => Ok(out),
        None => recorded(op, list, call_site::here).map(handle::new_without_attributes),
    }
}

/// Uploads host operands to the arrays' device and records the operation as a node.
pub fn recorded(id: OpId, list: &[SEXP], site: impl FnOnce(bool) -> Option<CallSite>) -> Result<Array> {
    let device = match list.iter().find_map(|&x| handle::of(x)) {
        Some(handle) => handle.device(),
        // a plain vector with class gpu_array is uploaded
        None => match list.iter().find(|x| r::inherits(**x, "gpu_array")) {
            Some(&x) => convert::array(x)?.device(),
            None => return Err(Error::new(Kind::Argument, "an operation needs at least one gpu_array")),
        },
    };
    const NONE: Operand = Operand::Value(Scalar::I32(0), dtype::Kind::Logical);
    let mut operands = [NONE; MOST_OPERANDS];
    if list.len() > operands.len() {
        return Err(Error::new(Kind::Argument, "an operation takes at most four operands"));
    }
    for (operand, &x) in operands.iter_mut().zip(list) {
        *operand = convert::operand(x, device)?;
    }
    Array::apply_at(id, &operands[..list.len()], site)
}

entries! {
    /// The operation table as a data frame's columns: name, r, group, arity, rule, ulp, doc.
    fn operation_table() -> List {
        let rows: Vec<_> = OpId::all().map(OpId::row).collect();
        let group = |g: Group| match g {
            Group::Ops => "Ops",
            Group::Math => "Math",
            Group::Complex => "Complex",
            Group::Generic => "Generic",
            Group::Function => "Function",
            Group::Distribution => "Distribution",
            Group::Bessel => "Bessel",
            Group::Internal => "Internal",
        };
        List::new(7)
            .add("name", r::strings(rows.iter().map(|row| row.name)))
            .add("r", r::strings(rows.iter().map(|row| row.r)))
            .add("group", r::strings(rows.iter().map(|row| group(row.group))))
            .add("arity", r::strings(rows.iter().map(|row| row.arity.to_string())))
            .add("rule", r::strings(rows.iter().map(|row| format!("{:?}", row.rule))))
            .add("ulp", r::strings(rows.iter().map(|row| row.ulp.to_string())))
            .add("doc", r::strings(rows.iter().map(|row| row.doc)))
    }
}

for_c! {
    record(op, operands, call);
    record_here(op, x, y);
}
