//! The list of prebuilt kernels. `compile::prebuilt` finds them; `tools/gpu/ptx.sh` writes them from this list.

use super::codegen;
use super::codegen::prebuilt::{positions_name, reductions_name, scan_name, stored_plan, PLAIN};
use super::interpret::source as interpret;
use super::interpret::Family;
use super::ops::{dense, gather, grouped, product, rank, search, sort, unique};
use super::tiers::prebuilt_reductions;
use verdigris_ops::dense::Factoring;
use verdigris_ops::dtype::natural_dtype;
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::reduction::Reduction;
use verdigris_ops::scan::Scan;

/// Whether a kernel's machine code is in the package, so that its first use needs no compiler: the interpreters of
/// plain arithmetic, the kernels that new reductions, scans and masks of the usual classes need next, and products of
/// small matrices. All machine code together would be twice the package's 5 MB.
pub fn is_compiled(name: &str) -> bool {
    const USUAL: [Class; 3] = [Class::I32, Class::F32, Class::F64];
    let reductions = USUAL.into_iter().flat_map(|class| [false, true].map(|across| reductions_name(class, across)));
    let scans = [(Scan::Sum, Class::I64), (Scan::Product, Class::F64)]
        .into_iter()
        .chain([Scan::Sum, Scan::Max, Scan::Min].into_iter().flat_map(|scan| USUAL.map(|class| (scan, class))))
        .map(|(scan, class)| scan_name(scan, class));
    let masks = [false, true].map(positions_name);
    let interpreters = [Family::Narrow, Family::Wide].map(|family| family.name().to_string());
    let products = product::CLASSES.map(product::name);
    let groups = [Class::F32, Class::F64].map(|class| format!("sum {class:?} by code false"));
    let others =
        ["gather 4", "gather 8", "mean F64 by code false", "count int32", "sort float64 false"].map(String::from);
    reductions
        .chain(scans)
        .chain(masks)
        .chain(interpreters)
        .chain(products)
        .chain(groups)
        .chain(others)
        .any(|compiled| compiled == name)
}

/// The prebuilt factorisations of batches of small matrices, for real classes. The others are compiled at their first
/// use.
const SYSTEMS: [Factoring; 2] = [Factoring::Cholesky, Factoring::Solve];

/// A kernel to ship.
pub struct Prebuilt {
    /// The file in `ptx/` that holds it, with others.
    pub pack: &'static str,
    pub name: String,
    pub source: String,
}

/// All kernels to ship.
pub fn sources() -> Vec<Prebuilt> {
    let mut out = Vec::new();
    let mut add = |pack: &'static str, name: String, source: String| out.push(Prebuilt { pack, name, source });
    for family in Family::ALL {
        let pack = ["narrow", "wide", "complex", "special", "special"][family as usize];
        add(pack, family.name().into(), interpret::source(family));
    }
    for (name, source) in prebuilt_reductions::modules() {
        add("reduce", name, source);
    }
    for scan in Scan::ALL {
        for class in Class::ALL.into_iter().filter(|&c| scan.serves(c)) {
            let source = codegen::scan::source(&stored_plan(natural_dtype(class)), PLAIN, scan);
            add("scan", scan_name(scan, class), source);
        }
    }
    for keep_na in [false, true] {
        // the kernel finds positions; a gather then takes the selected values
        let source = codegen::mask::source(&stored_plan(DType::Bool8), PLAIN, keep_na);
        add("select", positions_name(keep_na), source);
    }
    for size in [1, 2, 4, 8, 16] {
        add("select", format!("gather {size}"), gather::gather_source(size));
        for wide in [false, true] {
            add("select", format!("scatter {size} {wide}"), gather::scatter_source(size, wide));
        }
    }
    for dtype in DType::ALL.into_iter().filter(|d| !matches!(d, DType::Complex64 | DType::Complex128)) {
        // arrays of 2^30 elements and more need other kernels, which NVRTC compiles
        for positions in [false, true] {
            let form = sort::Form { dtype, positions, wide_positions: false, wide_counts: false };
            add("sort", format!("sort {dtype} {positions}"), form.source());
        }
    }
    for dtype in DType::ALL.into_iter().filter(|d| grouped::counts(*d)) {
        add("select", format!("count {dtype}"), grouped::count_source(dtype));
    }
    for reduction in Reduction::GROUPED {
        for class in Class::ALL.into_iter().filter(|&c| grouped::serves(reduction, c)) {
            for na_rm in [false, true] {
                let source = grouped::reduce_source(reduction, class, na_rm);
                add("reduce", format!("{} {class:?} by code {na_rm}", reduction.name()), source);
            }
        }
    }
    for class in [Class::I32, Class::I64, Class::F32, Class::F64] {
        for strictly in [false, true] {
            add("select", format!("search {class:?} {strictly}"), search::source(class, strictly));
        }
    }
    for dtype in [DType::Int32, DType::Int64, DType::Float32, DType::Float64] {
        add("sort", format!("rank {dtype}"), rank::source(dtype));
        add("sort", format!("unique {dtype}"), unique::source(dtype));
    }
    for factoring in SYSTEMS {
        for class in [Class::F32, Class::F64] {
            for (lanes, _) in dense::TEAMS {
                add("dense", dense::name(factoring, class, lanes), dense::source(factoring, class, lanes));
            }
        }
    }
    for class in product::CLASSES {
        add("dense", product::name(class), product::source(class));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::compile::prebuilt::{find, index, machine_code, ARCHS};

    #[test]
    fn prebuilt_kernels_are_up_to_date() {
        let sources = sources();
        let stale: Vec<&str> = sources.iter().filter(|s| find(&s.source).is_none()).map(|s| &*s.name).collect();
        assert!(stale.is_empty(), "run `make ptx`: {} of {} kernels changed: {stale:?}", stale.len(), sources.len());
        assert_eq!(index().ptx.len(), sources.len(), "run `make ptx`: some kernels are not needed any more");
        for entry in index().ptx.values() {
            let text = entry.bytes();
            assert!(text.starts_with(b".version") && text.ends_with(b"\0"), "the index is wrong about {}", entry.name);
        }
        for entry in &index().code {
            assert!(index().ptx.contains_key(&entry.fingerprint), "run `make ptx`: {} changed", entry.name);
        }
    }

    #[test]
    fn machine_code_serves_its_generation() {
        for source in sources().iter().filter(|source| is_compiled(&source.name)) {
            let code = |capability| machine_code(&source.name, capability);
            for arch in ARCHS {
                let code = code((arch / 10, arch % 10)).expect("code");
                assert!(code.starts_with(b"\x7fELF"), "{arch}");
            }
            assert_eq!(code((8, 9)), code((8, 0)));
            assert_ne!(code((9, 0)), code((8, 0)));
            assert!(code((7, 0)).is_none() && code((11, 0)).is_none() && code((13, 0)).is_none());
        }
        assert!(machine_code(Family::Special.name(), (9, 0)).is_none());
    }
}
