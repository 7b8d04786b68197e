//! Entries: CUDA graphs.

use verdigris_engine::array::Array;
use verdigris_engine::device::cuda_graph::{Graph, Recording};
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::error::{Error, Kind, Result};

use crate::array::{convert, handle};
use crate::entries::entry::entries;
use crate::r::typed::{External, FromR, Taken};
use crate::r::{self, List, SEXP};

impl External for Graph {
    fn refused(_: SEXP, _: &str) -> Error {
        Error::new(Kind::Argument, "the graph is of another session").advise("Record it again with `gpu_graph()`.")
    }
}

impl External for Recording {
    fn refused(_: SEXP, _: &str) -> Error {
        Error::new(Kind::Consumed, "there is no recording under way")
    }
}

/// An output of a graph: an array, or a deferred number as an array of one element.
fn output(x: SEXP) -> Result<Array> {
    if let Some(number) = handle::ordinary(x) {
        return number
            .device_array_if_unread(number.device())?
            .ok_or_else(|| Error::new(Kind::Capture, "a number that R has read cannot be a result of the graph"));
    }
    convert::array(x)
}

/// A list of arrays with the attributes of those in `like`.
fn results(arrays: Vec<Array>, like: &[SEXP]) -> List {
    arrays.into_iter().zip(like).fold(List::new(like.len()), |out, (array, &x)| {
        out.add("", if r::is_null(x) { handle::new_vector(array) } else { handle::new_like(array, x) })
    })
}

entries! {
    /// Begins to capture a graph on a device. Returns list(recording, inputs: copies in the graph's own memory).
    fn graph_begin(inputs: Vec<SEXP>, device: Device) -> Result<List> {
        let arrays = inputs.iter().map(|&x| convert::array(x)).collect::<Result<Vec<_>>>()?;
        let recording = Recording::begin(device, &arrays)?;
        let own = recording.inputs();
        Ok(List::new(2).add("recording", recording).add("inputs", results(own, &inputs)))
    }

    /// Ends the capture; `outputs` is a list of arrays or deferred numbers. If one of them is invalid the capture goes
    /// on.
    fn graph_end(recording: SEXP, outputs: Vec<SEXP>) -> Result<Graph> {
        let outputs = outputs.into_iter().map(output).collect::<Result<Vec<_>>>()?;
        let Taken(recording) = Taken::<Recording>::from_r(recording, "recording")?;
        recording.end(&outputs)
    }

    /// Ends the capture without a graph, unless it has ended already.
    fn graph_abandon(recording: SEXP) {
        drop(Taken::<Recording>::from_r(recording, "recording"));
    }

    /// Launches a graph on a list of inputs, NULL for those that keep their values. Returns a list of arrays with the
    /// attributes of those in `like`: copies, or with `copy` FALSE the graph's own memory, which the next launch
    /// overwrites.
    fn graph_run(graph: &Graph, inputs: Vec<SEXP>, like: Vec<SEXP>, copy: bool) -> Result<List> {
        let given = inputs.into_iter().map(|x| Option::from_r(x, "inputs")).collect::<Result<Vec<Option<Array>>>>()?;
        Ok(results(graph.run(&given, copy)?, &like))
    }

    /// Whether x is a deferred number that has not been read.
    fn is_pending_number(x: SEXP) -> bool {
        handle::ordinary(x).is_some_and(|number| r::len(x) == 1 && !number.has_host())
    }

    /// list(nodes, bytes): the number of the graph's nodes, and the bytes of its memory.
    fn graph_info(graph: &Graph) -> List {
        List::new(2).add("nodes", graph.nodes() as f64).add("bytes", graph.bytes() as f64)
    }
}
