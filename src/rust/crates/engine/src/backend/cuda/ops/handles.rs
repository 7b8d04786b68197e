//! Handles of a CUDA library, one for each device and stream, since a handle's workspace serves one stream at a time.
//! Handles are never destroyed: at the end of the process the driver may already be unloaded.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use crate::backend::cuda::context::core::lock;
use crate::backend::cuda::context::device::Cuda;
use verdigris_ops::error::Result;

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
    pub fn of(&self, cuda: &Cuda, make: fn(&Cuda) -> Result<T>) -> Result<(T, MutexGuard<'_, Known<T>>)> {
        let mut held = lock(&self.0);
        let handles = held.get_or_insert_with(HashMap::new);
        let key = (cuda.properties.ordinal, cuda.stream_state().index);
        let handle = match handles.get(&key) {
            Some(&known) => known,
            None => *handles.entry(key).or_insert(make(cuda)?),
        };
        Ok((handle, held))
    }
}
