//! Entries: evaluation of recorded operations, and `gpu_explain()`, which shows the kernels that it would run.

use verdigris_engine::array::explain::{self, Kernel, Traffic};
use verdigris_engine::array::{evaluate_all, write, Array};
use verdigris_engine::backend;
use verdigris_ops::error::{Error, Kind, Result};

use crate::array::device::is_capturing;
use crate::array::{convert, handle};
use crate::entries::entry::{entries, for_c};
use crate::r::{self, call_site, values, List, SEXP};

/// References to the target's node during a call: the handle's and the local one.
const HOLDERS: usize = 2;

/// Computes one array and waits for it, so that its warnings are known. Does not wait while a CUDA graph is captured.
fn compute_now(x: Array) -> Result<()> {
    x.compute()?;
    if !is_capturing(x.device())? {
        backend::of(x.device())?.synchronize()?;
    }
    Ok(())
}

entries! {
    /// Queues the computation of one array on its device; does not wait for it.
    fn compute_one(x: Array) -> Result<()> {
        x.compute()
    }

    /// Queues the computation of a list of arrays, those of one length and device together; does not wait.
    fn compute(arrays: Vec<SEXP>) -> Result<()> {
        evaluate_all(&arrays.into_iter().map(convert::array).collect::<Result<Vec<_>>>()?)
    }

    /// Replaces the values of `out`, under all its names, by those of x. Returns `out`.
    fn compute_into(x: SEXP, out: SEXP, call: SEXP) -> Result<SEXP> {
        let handle = handle::of(out).ok_or_else(|| {
            Error::new(Kind::Argument, format!("`out` must be a GPU array, not {}", values::describe(out)))
                .advise("Its values are replaced, so it must be one already: `out <- as_gpu(out)`.")
        })?;
        let value = convert::array(x)?;
        let target = handle.array_synced()?;
        // 0 forbids writing in place: a lazy cell or an outside borrower may still read the old values
        let holders = if handle.is_recorded_on() || !handle.is_lender() { 0 } else { HOLDERS };
        let new = write::compute_into(&value, &target, holders, call_site::of(call))?;
        drop(target);
        handle.rewrite(new)?;
        Ok(out)
    }

    /// The kernels that computing x would run: a list of list(n, code, reads, writes, source).
    fn explain(x: Array) -> List {
        let kernels = explain::explain(&x);
        kernels.iter().fold(List::new(kernels.len()), |out, kernel| out.add("", described(kernel)))
    }
}

fn described(kernel: &Kernel) -> List {
    List::new(5)
        .add("n", kernel.n as f64)
        .add("code", r::strings(kernel.code.iter()))
        .add("reads", traffic(&kernel.reads))
        .add("writes", traffic(&kernel.writes))
        .add("source", kernel.source.as_str())
}

/// Columns of a data frame.
fn traffic(rows: &[Traffic]) -> List {
    List::new(5)
        .add("name", r::strings(rows.iter().map(|t| &t.name)))
        .add("dtype", r::strings(rows.iter().map(|t| t.dtype.name())))
        .add("access", r::strings(rows.iter().map(|t| &t.access)))
        .add("elements", r::reals(rows.iter().map(|t| t.elements as f64)))
        .add("bytes", r::reals(rows.iter().map(|t| t.bytes as f64)))
}

for_c! {
    compute_one(x);
    compute_now(x);
}
