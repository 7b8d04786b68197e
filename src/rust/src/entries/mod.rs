//! The functions that R calls, one file for each subject, named after the R file that calls it (`R/ops-reduce.R`:
//! `reduce.rs`).

use std::os::raw::c_int;

use crate::r::R_CallMethodDef;

pub mod array;
pub mod basis;
pub mod chunked;
pub mod collect;
pub mod compile;
pub mod compute;
pub mod cuda_graph;
pub mod devices;
pub mod dlpack;
pub mod dtype;
pub mod entry;
pub mod files;
pub mod fourier;
pub mod index;
pub mod kernel;
pub mod linear;
pub mod make;
pub mod matching;
pub mod module;
pub mod operators;
pub mod order;
pub mod pinned;
pub mod pointer;
pub mod random;
pub mod reduce;
pub mod scan;
pub mod segments;
pub mod session;
pub mod shape;
pub mod streams;
pub mod strided;
pub mod team;
pub mod timing;
pub mod torch;

/// All entries, except those that are written in C (`init.c`).
const ENTRIES: &[&[R_CallMethodDef]] = &[
    array::ENTRIES,
    basis::ENTRIES,
    chunked::ENTRIES,
    collect::ENTRIES,
    compile::ENTRIES,
    compute::ENTRIES,
    cuda_graph::ENTRIES,
    devices::ENTRIES,
    dlpack::ENTRIES,
    dtype::ENTRIES,
    files::ENTRIES,
    fourier::ENTRIES,
    kernel::ENTRIES,
    linear::ENTRIES,
    make::ENTRIES,
    matching::ENTRIES,
    module::ENTRIES,
    operators::ENTRIES,
    order::ENTRIES,
    pinned::ENTRIES,
    pointer::ENTRIES,
    random::ENTRIES,
    reduce::ENTRIES,
    scan::ENTRIES,
    segments::ENTRIES,
    session::ENTRIES,
    shape::ENTRIES,
    streams::ENTRIES,
    strided::ENTRIES,
    team::ENTRIES,
    timing::ENTRIES,
    torch::ENTRIES,
];

/// Returns the number of entries; copies them to `out` unless it is null.
#[no_mangle]
extern "C" fn vg_entries(out: *mut R_CallMethodDef) -> c_int {
    let all = ENTRIES.iter().copied().flatten();
    if !out.is_null() {
        for (k, entry) in all.clone().enumerate() {
            // SAFETY: C has asked for the number before, and has allocated room for all.
            unsafe { out.add(k).write(*entry) };
        }
    }
    all.count() as c_int
}
