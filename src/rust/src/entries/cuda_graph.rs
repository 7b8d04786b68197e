//! Entries: CUDA graphs.

use verdigris_engine::array::Array;
use verdigris_engine::device::cuda_graph::{Graph, Recording};
use verdigris_ops::error::{Error, Kind, Result};

use crate::array::{convert, handle};
use crate::entry;
use crate::r::{self, external_ptr, values, List, SEXP, SEXPTYPE};

/// The elements of a list.
fn items(list: SEXP) -> Vec<SEXP> {
    // SAFETY: a list that R code made; each index is within its length.
    (0..r::len(list)).map(|k| unsafe { r::VECTOR_ELT(list, k as isize) }).collect()
}

/// An array, or a number that a reduction has yet to give, as an array of one element.
fn output(x: SEXP) -> Result<Array> {
    if let Some(number) = handle::ordinary(x) {
        return number
            .unread(number.device())?
            .ok_or_else(|| Error::new(Kind::Capture, "a number that R has read cannot be a result of the graph"));
    }
    convert::array(x)
}

fn results(arrays: Vec<Array>, like: SEXP) -> SEXP {
    let mut out = List::new(arrays.len());
    for (array, x) in arrays.into_iter().zip(items(like)) {
        let value = if r::kind_of(x) == SEXPTYPE::NILSXP { handle::wrap(array) } else { handle::wrap_like(array, x) };
        out = out.add("", value);
    }
    out.finish()
}

entry! {
    /// Begins to record on a device. list(recording, inputs: arrays in the graph's own memory).
    fn graph_begin(inputs, device) {
        let given = items(inputs);
        let arrays = given.iter().map(|&x| convert::array(x)).collect::<Result<Vec<_>>>()?;
        let recording = Recording::begin(convert::device(device)?, &arrays)?;
        let own = recording.inputs();
        let out = List::new(2).add("recording", external_ptr::new(recording));
        let values = results(own, inputs);
        Ok(out.add("inputs", values).finish())
    }

    /// Ends it; the outputs are a list of arrays or numbers.
    fn graph_end(recording, outputs) {
        let outputs = items(outputs).into_iter().map(output).collect::<Result<Vec<_>>>()?;
        let recording: Recording = external_ptr::take(recording, "recording under way")?;
        Ok(external_ptr::new(recording.end(&outputs)?))
    }

    /// Ends it without a graph.
    fn graph_abandon(recording) {
        drop(external_ptr::take::<Recording>(recording, "recording under way"));
        Ok(r::null())
    }

    /// Runs a graph on a list of inputs, NULL for those that stay. A list of arrays with the attributes of those in
    /// `like`.
    fn graph_run(graph, inputs, like, copy) {
        let graph: &Graph = external_ptr::get(graph).ok_or_else(|| {
            Error::new(Kind::Argument, "the graph is of another session").advise("Record it again with `gpu_graph()`.")
        })?;
        let copy = values::flag(copy, "copy")?;
        let given = items(inputs)
            .into_iter()
            .map(|x| if r::is_null(x) { Ok(None) } else { convert::array(x).map(Some) })
            .collect::<Result<Vec<_>>>()?;
        Ok(results(graph.run(&given, copy)?, like))
    }

    /// Whether x is a number that a reduction has yet to give.
    fn is_pending_number(x) {
        Ok(r::logical(handle::ordinary(x).is_some_and(|number| r::len(x) == 1 && !number.has_host())))
    }

    /// list(nodes, bytes).
    fn graph_info(graph) {
        let graph: &Graph =
            external_ptr::get(graph).ok_or_else(|| Error::new(Kind::Argument, "the graph is of another session"))?;
        Ok(List::new(2)
            .add("nodes", r::real(graph.nodes() as f64))
            .add("bytes", r::real(graph.bytes() as f64))
            .finish())
    }
}
