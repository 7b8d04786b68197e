//! Entries: evaluation of recorded operations, and `gpu_explain()`, which shows the kernels that it would run.

use verdigris_engine::array::evaluate_all;
use verdigris_engine::array::explain::{explain, Kernel, Traffic};
use verdigris_engine::array::write::compute_into;
use verdigris_engine::backend;
use verdigris_ops::error::{Error, Kind, Result};

use crate::array::device::is_capturing;
use crate::array::{convert, handle};
use crate::entry;
use crate::r::{self, call_site, values, List, SEXP};

/// References to the target's node during a call: the handle's and ours.
const HOLDERS: usize = 2;

entry! {
    /// Computes one array: queued on its device, not waited for.
    fn compute_one(x) {
        convert::array(x)?.compute()?;
        Ok(r::null())
    }

    /// Computes one array, and waits for what it warns of; while a graph is recorded nothing is waited for.
    fn compute_now(x) {
        let array = convert::array(x)?;
        array.compute()?;
        if !is_capturing(array.device())? {
            backend::of(array.device())?.synchronize()?;
        }
        Ok(r::null())
    }

    /// Computes the arrays of a list, those of one length and device together: queued on their device, not waited for.
    fn compute(arrays) {
        // SAFETY: a list that R code made; each index is within its length.
        let arrays = (0..r::len(arrays)).map(|k| convert::array(unsafe { r::VECTOR_ELT(arrays, k as isize) }));
        evaluate_all(&arrays.collect::<Result<Vec<_>>>()?)?;
        Ok(r::null())
    }

    /// Computes x as the new values of `out`, under all its names. Returns `out`.
    fn compute_into(x, out, call) {
        let handle = handle::of(out).ok_or_else(|| {
            Error::new(Kind::Argument, format!("`out` must be a GPU array, not {}", values::describe(out)))
                .advise("Its values are replaced, so it must be one already: `out <- as_gpu(out)`.")
        })?;
        let value = convert::array(x)?;
        let target = handle.current()?;
        // what is recorded elsewhere in R holds it too
        let holders = if handle.is_recorded_on() || !handle.is_lender() { 0 } else { HOLDERS };
        let new = compute_into(&value, &target, holders, call_site::of(call))?;
        drop(target);
        handle.rewrite(new)?;
        Ok(out)
    }

    /// The kernels that computing x would run: a list of list(n, code, reads, writes, source).
    fn explain(x) {
        let kernels = explain(&convert::array(x)?);
        let mut out = List::new(kernels.len());
        for kernel in &kernels {
            out = out.add("", described(kernel));
        }
        Ok(out.finish())
    }
}

fn described(kernel: &Kernel) -> SEXP {
    List::new(5)
        .add("n", r::real(kernel.n as f64))
        .add("code", r::strings(kernel.code.iter()))
        .add("reads", traffic(&kernel.reads))
        .add("writes", traffic(&kernel.writes))
        .add("source", r::string(&kernel.source))
        .finish()
}

/// Columns of a data frame.
fn traffic(rows: &[Traffic]) -> SEXP {
    List::new(5)
        .add("name", r::strings(rows.iter().map(|t| &t.name)))
        .add("dtype", r::strings(rows.iter().map(|t| t.dtype.name())))
        .add("access", r::strings(rows.iter().map(|t| &t.access)))
        .add("elements", r::reals(rows.iter().map(|t| t.elements as f64)))
        .add("bytes", r::reals(rows.iter().map(|t| t.bytes as f64)))
        .finish()
}
