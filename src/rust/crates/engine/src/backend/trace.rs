//! Collects the CUDA kernels that a program would run, on a machine without a GPU.
//!
//! Where `VERDIGRIS_KERNEL_TRACE` names a folder, the cpu device writes the CUDA source of each plan that it runs
//! there, once each. CI compiles the sources that the differential tests leave (`tests/cuda_compile.rs`).

use std::collections::hash_map::DefaultHasher;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use super::cuda::codegen::{self, reduce::Form, Variant};
use crate::plan::Plan;
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::scan::Scan;

fn folder() -> Option<&'static PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(|| std::env::var_os("VERDIGRIS_KERNEL_TRACE").map(PathBuf::from)).as_ref()
}

/// Writes a source to the folder, once for each kind and key.
fn keep(kind: &str, source: impl FnOnce() -> String, key: &str) {
    static SEEN: Mutex<Option<HashSet<u64>>> = Mutex::new(None);
    let Some(folder) = folder() else { return };
    let mut hasher = DefaultHasher::new();
    (kind, key).hash(&mut hasher);
    let hash = hasher.finish();
    let mut seen = SEEN.lock().unwrap_or_else(|p| p.into_inner());
    if seen.get_or_insert_with(HashSet::new).insert(hash) {
        let path = folder.join(format!("{kind}_{hash:016x}.cu"));
        if let Err(error) = std::fs::write(&path, source()) {
            eprintln!("cannot write {}: {error}", path.display());
        }
    }
}

/// Writes the source of an elementwise kernel.
pub fn elementwise(plan: &Plan) {
    if folder().is_some() {
        keep("elementwise", || codegen::source(plan, Variant::default()), &plan.key());
    }
}

/// Writes the source of the kernels that select by a mask.
pub fn mask(plan: &Plan, keep_na: bool) {
    if folder().is_some() {
        let source = || codegen::mask::source(plan, Variant::default(), keep_na);
        keep("mask", source, &format!("{keep_na} {}", plan.key()));
    }
}

/// Writes the source of a reduction.
pub fn reduction(plan: &Plan, reduction: Reduction, na_rm: bool, groups: Groups) {
    if folder().is_some() {
        let form = match groups {
            Groups { inner: 1, outer: 1, .. } => Form::Block,
            Groups { inner: 1, .. } => Form::SubWarp(8),
            _ => Form::Strided,
        };
        let key = format!("{reduction:?} {na_rm} {form:?} {}", plan.key());
        keep("reduction", || codegen::source_reduce(plan, Variant::default(), reduction, na_rm, form), &key);
    }
}

/// Writes the source of a scan.
pub fn scan(plan: &Plan, scan: Scan) {
    if folder().is_some() {
        let key = format!("{scan:?} {}", plan.key());
        keep("scan", || codegen::source_scan(plan, Variant::default(), scan), &key);
    }
}
