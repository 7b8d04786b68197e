//! CUDA graphs: the work that a block of code queues is captured once, and launched again with other inputs.

use std::sync::Arc;

use crate::array::Array;
use crate::backend::streams::{Replay, Streams};
use crate::backend::{self, Backend};
use crate::memory::buffer::{Device, View};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};

/// A capture in progress. Dropping it ends the capture.
pub struct Recording {
    device: Device,
    streams: Box<dyn Streams>,
    before: u32,
    inputs: Vec<View>,
    ended: bool,
}

/// A captured graph, ready to launch.
pub struct Graph {
    replay: Box<dyn Replay>,
    inputs: Vec<View>,
    outputs: Vec<View>,
}

fn streams(device: Device) -> Result<(&'static dyn Backend, Box<dyn Streams>)> {
    let backend = backend::of(device)?;
    let streams = backend
        .streams()
        .ok_or_else(|| Error::new(Kind::Device, format!("graphs are recorded on CUDA devices, not on {device}")))?;
    Ok((backend, streams))
}

impl Recording {
    /// Begins the capture. Each input is copied to memory that belongs to the graph.
    pub fn begin(device: Device, inputs: &[Array]) -> Result<Recording> {
        let (backend, streams) = streams(device)?;
        if let Some(other) = inputs.iter().map(Array::device).find(|&d| d != device) {
            return Err(Error::new(Kind::Device, format!("a graph on {device} cannot have inputs on {other}"))
                .advise(format!("Move them with `as_gpu(x, device = \"{device}\")`.")));
        }
        let given = inputs.iter().map(Array::contiguous).collect::<Result<Vec<_>>>()?;
        let before = streams.begin_capture()?;
        let mut recording = Recording { device, streams, before, inputs: Vec::new(), ended: false };
        for view in given {
            let bytes = view.len() * view.dtype.size();
            let buffer = backend.allocate(bytes)?;
            if bytes > 0 {
                let from = view.layout.offset() * view.dtype.size();
                recording.streams.copy_outside_capture(&view.buffer, from, &buffer, bytes)?;
            }
            recording.inputs.push(View::contiguous(buffer, view.dtype, view.len()));
        }
        Ok(recording)
    }

    /// The inputs, in the graph's memory.
    pub fn inputs(&self) -> Vec<Array> {
        self.inputs.iter().cloned().map(Array::from_view).collect()
    }

    /// Ends the capture with the values that the block returned, and launches the graph once.
    pub fn end(mut self, outputs: &[Array]) -> Result<Graph> {
        let outputs = outputs.iter().map(Array::contiguous).collect::<Result<Vec<_>>>()?;
        for view in &outputs {
            if view.buffer.device != self.device {
                return Err(Error::new(
                    Kind::Device,
                    format!("a graph on {} cannot give a value on {}", self.device, view.buffer.device),
                ));
            }
        }
        self.ended = true;
        let replay = self.streams.end_capture(self.before)?;
        Ok(Graph { replay, inputs: std::mem::take(&mut self.inputs), outputs })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !self.ended {
            // Arrays computed during the capture get their values. A failure shows at the next use of the device.
            let _ = self.streams.end_capture(self.before);
        }
    }
}

impl Graph {
    /// Launches the graph. Inputs that are None keep their last values. Returns copies of the results or, without
    /// `copy`, the graph's own memory, which the next launch overwrites.
    ///
    /// # Errors
    /// `DType`, `Shape` and `Device` for an input that differs from the one at capture; nothing has run then.
    pub fn run(&self, given: &[Option<Array>], copy: bool) -> Result<Vec<Array>> {
        let mut ready: Vec<(View, &View)> = Vec::with_capacity(given.len());
        for (array, input) in given.iter().zip(&self.inputs) {
            let Some(array) = array else { continue };
            check(array, input)?;
            ready.push((array.contiguous()?, input));
        }
        for (view, input) in ready {
            let bytes = view.len() * view.dtype.size();
            if bytes > 0 && !Arc::ptr_eq(&view.buffer, &input.buffer) {
                let from = view.layout.offset() * view.dtype.size();
                backend::of(input.buffer.device)?.copy(&view.buffer, from, &input.buffer, 0, bytes)?;
            }
        }
        self.replay.launch()?;
        let outputs = self.outputs.iter();
        if copy {
            outputs.map(Array::duplicate).collect()
        } else {
            // Shared, because the next launch changes the values.
            Ok(outputs.cloned().inspect(|view| view.buffer.share()).map(Array::from_view).collect())
        }
    }

    /// Dtype and length of each input.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = (DType, usize)> + '_ {
        self.inputs.iter().map(|view| (view.dtype, view.len()))
    }

    /// The number of kernels, copies and fills.
    pub fn nodes(&self) -> usize {
        self.replay.nodes()
    }

    /// Bytes of device memory that belong to the graph.
    pub fn bytes(&self) -> u64 {
        self.replay.bytes()
    }
}

fn check(array: &Array, input: &View) -> Result<()> {
    if array.dtype() != input.dtype {
        return Err(Error::new(Kind::DType, format!("the graph takes {} here, not {}", input.dtype, array.dtype()))
            .advise(format!("Cast it with `gpu_cast(x, \"{}\")`.", input.dtype)));
    }
    if array.len() != input.len() {
        return Err(Error::new(
            Kind::Shape,
            format!("the graph takes {} elements here, not {}", input.len(), array.len()),
        )
        .advise("Record another graph for another length."));
    }
    if array.device() != input.buffer.device {
        return Err(Error::new(
            Kind::Device,
            format!("the graph is on {}, the input on {}", input.buffer.device, array.device()),
        )
        .advise(format!("Move it with `as_gpu(x, device = \"{}\")`.", input.buffer.device)));
    }
    Ok(())
}
