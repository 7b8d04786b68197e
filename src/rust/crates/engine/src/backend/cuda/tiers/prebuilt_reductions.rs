//! Prebuilt reductions of stored arrays, for plans whose own kernels are not compiled yet. One module has all
//! reductions of a class along memory, another those across it.

use std::sync::{Arc, Mutex};

use super::planned::PlanKernel;
use crate::backend::cuda::codegen::prebuilt::{reduction_name, reduction_pack, reductions_name, reductions_source};
use crate::backend::cuda::context::core::lock;
use crate::backend::cuda::context::device::{Cuda, PerDevice};
use verdigris_ops::dtype::Class;
use verdigris_ops::error::Result;
use verdigris_ops::reduction::Reduction;

/// The kernels loaded so far, by reduction, class and whether across memory.
type Known = Mutex<Vec<((Reduction, Class, bool), Arc<PlanKernel>)>>;

static KNOWN: PerDevice<Known> = PerDevice::new();

/// The names of all modules, with their sources.
pub(crate) fn modules() -> Vec<(String, String)> {
    let classes = Class::ALL.into_iter().filter(|&class| Reduction::Sum.serves(class));
    let both = classes.flat_map(|class| [(class, false), (class, true)]);
    both.map(|(class, across)| (reductions_name(class, across), reductions_source(class, across))).collect()
}

/// The kernel for a reduction of elements of a class.
pub(crate) fn prebuilt_reduction(
    cuda: &Cuda,
    reduction: Reduction,
    class: Class,
    across: bool,
) -> Result<Arc<PlanKernel>> {
    let key = (reduction, class, across);
    if let Some((_, found)) = lock(KNOWN.of(cuda)).iter().find(|(k, _)| *k == key) {
        return Ok(found.clone());
    }
    let module = cuda.prebuilt_module(&reductions_name(class, across), || reductions_source(class, across))?;
    let kernel = cuda.function(&module, &reduction_name(reduction, across))?;
    let made = Arc::new(PlanKernel::of_plain(kernel, reduction_pack(across)));
    lock(KNOWN.of(cuda)).push((key, made.clone()));
    Ok(made)
}

/// Loads modules of the usual classes, if the package has their machine code for the device.
pub(crate) fn prepare(cuda: &Cuda) {
    for (class, across) in [(Class::F64, false), (Class::F64, true), (Class::F32, false), (Class::I32, false)] {
        cuda.load_ahead(&reductions_name(class, across));
    }
}
