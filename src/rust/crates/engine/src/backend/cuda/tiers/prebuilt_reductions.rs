//! The reductions that come with the package: they reduce what lies in memory, for plans whose own kernels are not made
//! yet. A module serves all reductions of a class.

use std::sync::{Arc, Mutex};

use super::planned::Planned;
use crate::backend::cuda::codegen::prebuilt::{
    plain, reduction_name, reduction_pack, reductions_name, reductions_source,
};
use crate::backend::cuda::codegen::reduce::Form;
use crate::backend::cuda::context::core::lock;
use crate::backend::cuda::context::device::{Cuda, PerDevice};
use verdigris_ops::dtype::{natural_dtype, Class};
use verdigris_ops::error::Result;
use verdigris_ops::reduction::Reduction;

/// The kernels that were asked for.
type Known = Mutex<Vec<((Reduction, Class, Form), Arc<Planned>)>>;

static KNOWN: PerDevice<Known> = PerDevice::new();

/// All modules, with their sources.
pub(crate) fn modules() -> Vec<(String, String)> {
    let classes = Class::ALL.into_iter().filter(|&class| Reduction::Sum.serves(class));
    let both = classes.flat_map(|class| [(class, false), (class, true)]);
    both.map(|(class, across)| (reductions_name(class, across), reductions_source(class, across))).collect()
}

/// The kernel for a reduction of elements of a class; `form` is one of `form_for`'s.
pub(crate) fn prebuilt_reduction(cuda: &Cuda, reduction: Reduction, class: Class, form: Form) -> Result<Arc<Planned>> {
    let key = (reduction, class, form);
    let known = lock(KNOWN.of(cuda));
    if let Some((_, found)) = known.iter().find(|(k, _)| *k == key) {
        return Ok(found.clone());
    }
    drop(known);
    let across = form == Form::SingleLanes;
    let module = cuda.prebuilt_module(&reductions_name(class, across), || reductions_source(class, across))?;
    let kernel = cuda.function(&module, &reduction_name(reduction, form))?;
    let v = if across { 1 } else { reduction_pack(&plain(natural_dtype(class))) };
    let made = Arc::new(Planned::of_plain(kernel, v));
    lock(KNOWN.of(cuda)).push((key, made.clone()));
    Ok(made)
}
