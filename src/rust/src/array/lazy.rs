//! Lazy cells: recorded operations without a handle. Most results of operators are only an operand of the next one, and
//! an object with a finalizer costs R's collector more than recording does. So such a result is in R's heap only: a
//! *lazy cell* (a pairlist cell) with the operation, as raw bytes, in CAR and the cells of its array operands in CDR.
//! When the values are needed, the engine gets a node, and the vector a handle with a finalizer.
//!
//! A single number on the cpu device is a cell too, with the constant as its operation. So `x[i]` in a loop over
//! elements makes no handle, and arithmetic on such numbers is computed at once.
//!
//! The values of a cell never change. Once they have a handle, the cell's CAR is that handle's external pointer. A
//! handle that gets other values is detached from its cell first (`Handle::detach_cell`).
//!
//! Main thread only, like everything that uses R's API.

use std::cell::{Cell, RefCell};
use std::os::raw::{c_int, c_void};

use verdigris_engine::array::exact;
use verdigris_engine::array::{Array, Operand};
use verdigris_engine::graph::cost::Cost;
use verdigris_engine::memory;
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::error::Result;
use verdigris_ops::loops::LOOPS;
use verdigris_ops::rule::{self, Typed};
use verdigris_ops::scalar::{Scalar, NA_F64, NA_I32};
use verdigris_ops::{id, OpId, Rule};

use crate::array::handle::{self, Handle};
use crate::array::{convert, host_copy};
use crate::r::external_ptr::Owned;
use crate::r::{self, call_site, conditions, SEXP, SEXPTYPE};

/// The raw bytes of a lazy cell: a unary or binary operation on arrays of one length on one device, and numbers.
#[derive(Clone, Copy)]
struct Lazy {
    len: usize,
    /// The bits of operands that are numbers.
    values: [u64; 2],
    /// The last `build()` walk that has visited the cell, and the array's index in its list.
    walk: u64,
    index: u32,
    /// An upper bound of the node's cost.
    cost: Cost,
    op: OpId,
    operands: [Source; 2],
    count: u8,
    dtype: DType,
    device: Device,
    /// Whether an array was built of it before.
    built: bool,
    /// Tells its warnings from those of other operations.
    serial: call_site::Serial,
}

/// Where an operand comes from: an array's cell, or a number of this R type.
#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
enum Source {
    Cell,
    Logical,
    Integer,
    Double,
}

impl Lazy {
    /// The value, if the cell is a number.
    fn number(&self) -> Option<Scalar> {
        (self.op == id::CONSTANT).then(|| self.operands[0].value(self.values[0]))
    }
}

impl Source {
    /// R's type for a number of this dtype; `None` for int64 and complex.
    fn of(dtype: DType) -> Option<Source> {
        match host_copy::r_type(dtype) {
            _ if dtype == DType::Int64 => None,
            SEXPTYPE::LGLSXP => Some(Source::Logical),
            SEXPTYPE::INTSXP => Some(Source::Integer),
            SEXPTYPE::REALSXP => Some(Source::Double),
            _ => None,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Source::Logical => Kind::Logical,
            Source::Integer => Kind::Integer,
            Source::Cell | Source::Double => Kind::Double,
        }
    }

    fn value(self, bits: u64) -> Scalar {
        match self {
            Source::Logical | Source::Integer => Scalar::I32(bits as i32),
            Source::Cell | Source::Double => Scalar::F64(f64::from_bits(bits)),
        }
    }
}

/// The operation in a cell; `None` once a handle has replaced it.
fn lazy<'a>(cell: SEXP) -> Option<&'a Cell<Lazy>> {
    // SAFETY: a cell's CAR is raw bytes that `record` has written, which R keeps while the cell is reachable, or an
    // external pointer.
    unsafe {
        let bytes = r::CAR(cell);
        (r::kind_of(bytes) == SEXPTYPE::RAWSXP).then(|| &*r::RAW(bytes).cast::<Cell<Lazy>>())
    }
}

/// The handle of a cell's values, if `lazy()` is `None`.
fn cell_handle<'a>(cell: SEXP) -> &'a Handle {
    // SAFETY: called where the CAR is no operation; the handle lives as long as its external pointer.
    handle::behind(unsafe { r::CAR(cell) })
}

// ---- recording -----------------------------------------------------------------------------------

/// What recording needs to know of an operand.
struct OperandInfo {
    from: Source,
    bits: u64,
    cell: SEXP,
    typed: Typed,
    len: usize,
    device: Option<Device>,
    cost: Cost,
}

/// Inspects an operand. `None` if it cannot be an operand of a lazy cell.
fn inspect(x: SEXP) -> Result<Option<OperandInfo>> {
    // SAFETY: x is an argument of the entry; types and lengths are checked before elements are taken.
    unsafe {
        let data = r::vg_data_of(x);
        if data.is_null() {
            if r::Rf_isObject(x) != r::Rboolean::FALSE || r::len(x) != 1 {
                return Ok(None);
            }
            let (from, bits) = match r::kind_of(x) {
                SEXPTYPE::LGLSXP => (Source::Logical, r::LOGICAL_ELT(x, 0) as u64),
                SEXPTYPE::INTSXP => (Source::Integer, r::INTEGER_ELT(x, 0) as u64),
                SEXPTYPE::REALSXP => (Source::Double, r::REAL_ELT(x, 0).to_bits()),
                _ => return Ok(None),
            };
            let typed = Typed::Value(from.kind());
            return Ok(Some(OperandInfo {
                from,
                bits,
                cell: r::null(),
                typed,
                len: 1,
                device: None,
                cost: Cost::NUMBER,
            }));
        }
        let array = |cell, dtype, len, device, cost| {
            let typed = Typed::Array(dtype);
            Ok(Some(OperandInfo { from: Source::Cell, bits: 0, cell, typed, len, device: Some(device), cost }))
        };
        let of_array = |cell: SEXP, value: &Array| {
            if value.is_volatile() {
                return Ok(None); // computed at once, as a node
            }
            array(cell, value.dtype(), value.len(), value.device(), value.node().cost_to_read())
        };
        if r::kind_of(data) == SEXPTYPE::LISTSXP {
            return match lazy(data) {
                Some(lazy) => {
                    let Lazy { dtype, len, device, cost, .. } = lazy.get();
                    array(data, dtype, len, device, cost)
                }
                None => of_array(data, &cell_handle(data).array_unsynced()),
            };
        }
        let Some(handle) = handle::of(x) else { return Ok(None) };
        // with_array() uploads what R has written to the host copy
        let rewritten = handle.with_array(|_| handle.is_rewritten())?;
        if rewritten {
            return Ok(None);
        }
        let cell = cell_of(x, handle);
        handle.with_array(|value| of_array(cell, value))?
    }
}

/// The cell of a vector that has a handle; made here if there is none.
fn cell_of(x: SEXP, handle: &Handle) -> SEXP {
    // SAFETY: x is an argument of the entry, and keeps the cell as its data2.
    unsafe {
        let known = r::R_altrep_data2(x);
        if !r::is_null(known) && handle.cell() == known {
            return known;
        }
        let cell = r::Rf_cons(r::R_altrep_data1(x), r::null());
        r::R_set_altrep_data2(x, cell);
        handle.set_cell(cell);
        cell
    }
}

/// Records an operation as a lazy cell. Returns a vector without attributes, unprotected; `None` if the operation must
/// be recorded as a node.
pub fn record(op: OpId, list: &[SEXP]) -> Result<Option<SEXP>> {
    let mut info: [Option<OperandInfo>; 2] = [None, None];
    if list.len() > info.len() {
        return Ok(None);
    }
    for (k, &x) in list.iter().enumerate() {
        info[k] = inspect(x)?;
        if info[k].is_none() {
            return Ok(None);
        }
    }
    let mut types = [Typed::Value(Kind::Logical); 2];
    types.iter_mut().zip(info.iter().flatten()).for_each(|(typed, info)| *typed = info.typed);
    let Ok((class, dtype)) = rule::resolve(op, &types[..list.len()]) else { return Ok(None) };
    // a composed operation becomes several nodes
    if exact::is_composed(op, &types[..list.len()]) {
        return Ok(None);
    }
    let Some((len, device)) = info.iter().flatten().find_map(|info| Some((info.len, info.device?))) else {
        return Ok(None);
    };
    if len == 0 || info.iter().flatten().any(|info| info.device.is_some_and(|d| d != device || info.len != len)) {
        return Ok(None);
    }
    if len == 1 && device == Device::Cpu {
        if let Some((from, bits)) = folded(op, class, dtype, &info) {
            return Ok(Some(number(from, bits, dtype)));
        }
    }
    let by_logical = matches!(op.row().rule, Rule::Logic | Rule::Select);
    let is_cast =
        |info: &&OperandInfo| matches!(info.typed, Typed::Array(dtype) if by_logical || dtype.class() != class);
    let casts = info.iter().flatten().filter(is_cast).count() as u32;
    let cost_of = |info: &[Option<OperandInfo>; 2]| {
        info.iter().flatten().fold(Cost::of_row(op, casts), |cost, info| cost.and(info.cost))
    };
    let mut cost = cost_of(&info);
    if !cost.reads_few() {
        // the engine counts the kernel's inputs exactly
        return Ok(None);
    }
    if !cost.is_short() {
        // as `evaluate::bound`: compute the operands, so that this operation starts a new kernel
        for (info, &x) in info.iter_mut().zip(list) {
            if info.as_ref().is_some_and(|info| info.cost.weight > 0) {
                convert::array(x)?.compute()?;
                *info = inspect(x)?;
            }
        }
        if info[..list.len()].iter().any(Option::is_none) {
            return Ok(None);
        }
        cost = cost_of(&info);
    }
    let mut made = Lazy {
        len,
        values: [0; 2],
        walk: 0,
        index: 0,
        cost,
        op,
        operands: [Source::Double; 2],
        count: list.len() as u8,
        dtype,
        device,
        built: false,
        serial: call_site::next_serial(),
    };
    for (k, info) in info.iter().flatten().enumerate() {
        (made.operands[k], made.values[k]) = (info.from, info.bits);
    }
    let cells = info.map(|info| info.filter(|info| info.from == Source::Cell).map(|info| info.cell));
    // SAFETY: plain allocations, each protected while the next is made; the operands' cells are kept by the operands,
    // which are arguments of the entry. Raw bytes are aligned to 8.
    let (out, cell) = r::protect(|| unsafe {
        let bytes = r::Rf_protect(r::Rf_allocVector(SEXPTYPE::RAWSXP, std::mem::size_of::<Lazy>() as isize));
        r::RAW(bytes).cast::<Lazy>().write(made);
        let below = match cells {
            [Some(one), Some(two)] => r::Rf_cons(one, two),
            [one, two] => one.or(two).unwrap_or(r::null()),
        };
        r::Rf_protect(below);
        let cell = r::Rf_protect(r::Rf_cons(bytes, below));
        let out = r::vg_new_recorded(host_copy::r_type(dtype) as c_int, cell);
        r::Rf_unprotect(3);
        (out, cell)
    });
    let warns = op.may_warn(class) || casts > 0 && rule::rounds(op, class, types[..list.len()].iter().copied());
    if warns || len * dtype.size() >= memory::LARGE {
        call_site::want(cell, warns);
    }
    Ok(Some(out))
}

// ---- numbers -------------------------------------------------------------------------------------

/// A vector that is a number on the cpu device, without attributes, unprotected.
fn number(from: Source, bits: u64, dtype: DType) -> SEXP {
    let made = Lazy {
        len: 1,
        values: [bits, 0],
        walk: 0,
        index: 0,
        cost: Cost::NUMBER,
        op: id::CONSTANT,
        operands: [from, Source::Double],
        count: 1,
        dtype,
        device: Device::Cpu,
        built: false,
        serial: 0,
    };
    // SAFETY: as in `record`.
    r::protect(|| unsafe {
        let bytes = r::Rf_protect(r::Rf_allocVector(SEXPTYPE::RAWSXP, std::mem::size_of::<Lazy>() as isize));
        r::RAW(bytes).cast::<Lazy>().write(made);
        let cell = r::Rf_protect(r::Rf_cons(bytes, r::null()));
        let out = r::vg_new_recorded(host_copy::r_type(dtype) as c_int, cell);
        r::Rf_unprotect(2);
        out
    })
}

/// The value of an operation whose operands are all numbers. `None` if it must be recorded: an operand is no number, it
/// computes in a class other than int32 and float64, or it would warn, which happens when the value is read.
fn folded(op: OpId, class: Class, dtype: DType, info: &[Option<OperandInfo>; 2]) -> Option<(Source, u64)> {
    let row = op.row();
    let operands = info.iter().flatten().count();
    let is_kept = dtype.is_natural() || dtype == DType::Bool8;
    if row.arity as usize != operands || row.result_class(class) != dtype.class() || !is_kept {
        return None;
    }
    // an int32 is read from the first four of its eight bytes
    if cfg!(target_endian = "big") {
        return None;
    }
    let mut numbers = [0u64; 2];
    for (slot, info) in numbers.iter_mut().zip(info.iter().flatten()) {
        let value =
            if info.from == Source::Cell { lazy(info.cell)?.get().number()? } else { info.from.value(info.bits) };
        // the row takes 0, 1 and NA
        let value = if row.rule == Rule::Logic { value.to_logical() } else { value };
        *slot = match (class, value) {
            (Class::F64, Scalar::F64(x)) => x.to_bits(),
            (Class::F64, Scalar::I32(x)) => if x == NA_I32 { NA_F64 } else { f64::from(x) }.to_bits(),
            (Class::I32, Scalar::I32(x)) => u64::from(x as u32),
            _ => return None,
        };
    }
    let body = LOOPS[op.0 as usize][class as usize]?;
    let (mut out, mut flags) = (0u64, 0u32);
    let at = |k: usize| (&raw const numbers[k]).cast();
    // SAFETY: operands and result have room for a number of their classes, at the address where that begins.
    unsafe { body((&raw mut out).cast(), at(0), at(1), std::ptr::null(), std::ptr::null(), 0, 1, &mut flags) };
    (flags == 0).then_some(())?;
    Some((Source::of(dtype)?, out))
}

/// The element at a 0-based position of a computed array on the cpu device, as an array without attributes,
/// unprotected. A null pointer if it must be taken by ordinary subsetting.
#[no_mangle]
extern "C" fn vg_element_of(handle: *mut c_void, place: isize) -> SEXP {
    // SAFETY: C passes a living vector's handle.
    let handle = unsafe { &(*handle.cast::<Owned<Handle>>()).value };
    let out = conditions::attempt(|| {
        let array = handle.array_unsynced();
        let on_cpu = array.device() == Device::Cpu && !handle.is_ordinary();
        let Some(from) = Source::of(array.dtype()).filter(|_| on_cpu) else { return Ok(std::ptr::null_mut()) };
        let mut bits = 0u64;
        let out = (&raw mut bits).cast();
        // R may have written to the host copy, so look there first. SAFETY: room for one of R's numbers
        if !unsafe { handle.cached(place as usize, 1, out) } {
            if array.pending() > 0 {
                return Ok(std::ptr::null_mut());
            }
            // SAFETY: as above.
            unsafe { handle.element(place as usize, out)? };
        }
        Ok(number(from, bits, array.dtype()))
    });
    out.unwrap_or(std::ptr::null_mut())
}

/// The address of the value of a cell that is a number; else NULL.
#[no_mangle]
extern "C" fn vg_recorded_number(cell: SEXP) -> *const c_void {
    match lazy(cell) {
        Some(lazy) if lazy.get().op == id::CONSTANT => {
            // SAFETY: within the cell's bytes.
            unsafe { (&raw const (*lazy.as_ptr()).values).cast() }
        }
        _ => std::ptr::null(),
    }
}

/// The address of the value of a cell that is a number of x's dtype, so that it can be assigned to x; else NULL.
#[no_mangle]
extern "C" fn vg_number_for(x: SEXP, cell: SEXP) -> *const c_void {
    let same = || {
        handle::of(x).is_some_and(|handle| lazy(cell).is_some_and(|l| l.get().dtype == handle.array_unsynced().dtype()))
    };
    let number = vg_recorded_number(cell);
    if !number.is_null() && same() {
        number
    } else {
        std::ptr::null()
    }
}

// ---- cells to arrays -----------------------------------------------------------------------------

thread_local! {
    static WALKS: Cell<u64> = const { Cell::new(0) };
    static MADE: RefCell<Vec<Array>> = const { RefCell::new(Vec::new()) };
}

/// Builds the engine's array of a cell, which stays lazy.
fn array(cell: SEXP) -> Result<Array> {
    WALKS.set(WALKS.get() + 1);
    let mut made = MADE.take();
    let array = build(cell, WALKS.get(), &mut made, true);
    made.clear();
    MADE.replace(made);
    array
}

fn build(cell: SEXP, walk: u64, made: &mut Vec<Array>, root: bool) -> Result<Array> {
    let Some(slot) = lazy(cell) else { return Ok(cell_handle(cell).array_unsynced()) };
    let lazy = slot.get();
    if let Some(value) = lazy.number() {
        // computed at once, like a subset of a computed array
        let array = Array::full(value, lazy.dtype, 1, lazy.device)?;
        array.compute()?;
        return Ok(array);
    }
    if lazy.walk == walk {
        return Ok(made[lazy.index as usize].clone());
    }
    // SAFETY: the operands' cells hang on this one, which is reachable; see `record`.
    let below = unsafe { r::CDR(cell) };
    let both = lazy.operands[..lazy.count as usize].iter().all(|from| *from == Source::Cell) && lazy.count == 2;
    let mut operands = [const { Operand::Value(Scalar::I32(0), Kind::Logical) }; 2];
    for (k, operand) in operands[..lazy.count as usize].iter_mut().enumerate() {
        let from = lazy.operands[k];
        *operand = match from {
            Source::Cell => {
                // SAFETY: as above.
                let cell = unsafe {
                    match (both, k) {
                        (false, _) => below,
                        (true, 0) => r::CAR(below),
                        (true, _) => r::CDR(below),
                    }
                };
                Operand::Array(build(cell, walk, made, false)?)
            }
            _ => Operand::Value(from.value(lazy.values[k]), from.kind()),
        };
    }
    // SAFETY: the tag is a call or NULL.
    let call = unsafe { r::TAG(cell) };
    // an intermediate value needs its call site for warnings only
    let site = |warns| if root || warns { call_site::of_recorded(call, lazy.serial) } else { None };
    let array = Array::apply_at(lazy.op, &operands[..lazy.count as usize], site)?;
    if lazy.built {
        array.node().mark_fused();
        if !root && lazy.cost.is_costly() {
            // used again: one node for all uses, so that the engine can keep its values
            set_cell_handle(cell, array.clone());
            return Ok(array);
        }
    }
    slot.set(Lazy { walk, index: made.len() as u32, built: true, ..lazy });
    made.push(array.clone());
    Ok(array)
}

/// Replaces a cell's operation by a handle of the array.
fn set_cell_handle(cell: SEXP, array: Array) {
    // SAFETY: the cell is reachable, and keeps the pointer.
    unsafe {
        let handle = Handle::new(array).owned();
        let pointer = r::vg_new_pointer(r::null(), std::ptr::null_mut());
        handle.value.set_cell(cell);
        handle.give(pointer);
        r::SETCAR(cell, pointer);
        // `Handle::detach_cell` tests the operands' reference counts, so the cell and its pair of operands must drop
        // theirs
        let below = r::CDR(cell);
        r::SETCDR(cell, r::null());
        r::SET_TAG(cell, r::null());
        if !r::is_null(below) && r::kind_of(r::CAR(below)) == SEXPTYPE::LISTSXP {
            r::SETCAR(below, r::null());
            r::SETCDR(below, r::null());
        }
    }
}

/// Gives a recorded vector a handle, for `vg_handle_of` and the vector's methods. On failure the vector is unchanged
/// and a condition is pending.
#[no_mangle]
extern "C" fn vg_give_handle(x: SEXP) {
    conditions::attempt(|| {
        // SAFETY: x is protected by R or the caller; its data1 is a cell.
        unsafe {
            let cell = r::R_altrep_data1(x);
            if lazy(cell).is_some() {
                set_cell_handle(cell, array(cell)?);
            }
            let pointer = r::CAR(cell);
            r::R_set_altrep_data2(x, cell);
            r::R_set_altrep_data1(x, pointer);
            Ok(())
        }
    });
}

/// The length of a vector that has this cell as data1.
#[no_mangle]
extern "C" fn vg_recorded_length(cell: SEXP) -> isize {
    match lazy(cell) {
        Some(lazy) => lazy.get().len as isize,
        // SAFETY: the pointer of a handle.
        None => unsafe { r::vg_length_of(r::CAR(cell)) },
    }
}

/// As `convert::array`, for callers that do not store the values: a lazy cell stays lazy, unless it is costly and was
/// built before.
pub fn intermediate(x: SEXP) -> Result<Array> {
    // SAFETY: x is an argument of the entry.
    let data = unsafe { r::vg_data_of(x) };
    if !data.is_null() && r::kind_of(data) == SEXPTYPE::LISTSXP {
        if let Some(lazy) = lazy(data).map(Cell::get) {
            if !lazy.built || !lazy.cost.is_costly() {
                return array(data);
            }
        }
    }
    convert::array(x)
}
