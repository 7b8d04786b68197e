//! Handles of a CUDA library, one for each device and stream, since a handle's workspace serves one stream at a time.
//! Handles are never destroyed: at the end of the process the driver may already be unloaded.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use crate::backend::cuda::context::core::lock;
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::context::stream_state::StreamState;
use crate::backend::cuda::driver::api::Stream;
use verdigris_ops::error::Result;

/// Makes a handle that is bound to a stream.
type Make<T> = fn(&Cuda, Stream) -> Result<T>;
type Known<T> = Option<HashMap<(u32, u32), T>>;

pub(super) struct Handles<T>(Mutex<Known<T>>);

impl<T: Copy> Handles<T> {
    pub const fn new() -> Handles<T> {
        Handles(Mutex::new(None))
    }

    /// The handle of the device's current stream, made if it is new, and the lock, which must be held while the handle
    /// is used. The device's context must be current.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn of(&self, cuda: &Cuda, make: Make<T>) -> Result<(T, MutexGuard<'_, Known<T>>)> {
        self.of_stream(cuda, cuda.stream_state(), make)
    }

    /// As `of`, for a stream. A thread beside R's passes the stream on: R may select another one meanwhile.
    pub fn of_stream(
        &self,
        cuda: &Cuda,
        stream_state: &StreamState,
        make: Make<T>,
    ) -> Result<(T, MutexGuard<'_, Known<T>>)> {
        let mut held = lock(&self.0);
        let handles = held.get_or_insert_with(HashMap::new);
        let key = (cuda.properties.ordinal, stream_state.index);
        let handle = match handles.get(&key) {
            Some(&known) => known,
            None => *handles.entry(key).or_insert(make(cuda, stream_state.handle())?),
        };
        Ok((handle, held))
    }
}
