//! Launches kernels: directly, through the launch thread (`submit`), or as a graph of one kernel (`relaunch`).

pub mod relaunch;
pub mod submit;

use std::ffi::c_void;
use std::sync::Arc;

use super::context::core::checks_launches;
use super::context::device::Cuda;
use super::driver::kernel::{Args, Configuration, Kernel, Shape};
use super::driver::submitted;
use crate::kernel::USUAL;
use verdigris_ops::error::{Error, Result};
use verdigris_ops::small_vec::SmallVec;

impl Cuda {
    /// Queues a kernel on the current stream.
    pub fn launch(
        &self,
        kernel: &Arc<Kernel>,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        args: &mut Args,
    ) -> Result<()> {
        // SAFETY: the arguments are those of the kernel's signature, which the caller knows.
        unsafe { self.launch_at(kernel, Shape { grid, block, shared }, &args.0.all(), false) }
    }

    /// As `launch`, with the arguments as bytes. `awaited` says that the host is about to wait for the result: such a
    /// launch goes to the launch thread only if others are still in its ring. Allocates nothing.
    ///
    /// # Safety
    /// The arguments are those that the kernel declares; the grid and the block are within the device's limits.
    pub(crate) unsafe fn launch_at(
        &self,
        kernel: &Arc<Kernel>,
        shape: Shape,
        arguments: &[&[u8]],
        awaited: bool,
    ) -> Result<()> {
        let explain = |error: Error| {
            let Shape { grid, block, shared } = shape;
            error.advise(format!(
                "Kernel `{}`: grid {grid:?}, block {block:?}, {shared} bytes of shared memory, {} registers a thread.",
                kernel.name, kernel.registers
            ))
        };
        // SAFETY: the caller's promise.
        unsafe { self.launch_explained(kernel, shape, arguments, awaited, explain) }
    }

    /// As `launch_at`, but `explain` adds the kernel's name and geometry to the error of a failed launch.
    ///
    /// # Safety
    /// As for `launch_at`.
    pub(crate) unsafe fn launch_explained(
        &self,
        kernel: &Arc<Kernel>,
        shape: Shape,
        arguments: &[&[u8]],
        awaited: bool,
        explain: impl FnOnce(Error) -> Error,
    ) -> Result<()> {
        let stream_state = self.stream_state();
        let proven = self.mode() == 0 && kernel.is_proven(shape) && !stream_state.is_given_out() && !checks_launches();
        if proven && !(awaited && submitted::is_idle()) {
            let cuda = self.usable()?;
            // SAFETY: the caller's promise; the function is loaded in this device's context.
            if unsafe {
                submit::try_submit(cuda, kernel.function, shape, || stream_state.stream_for_ring_launch(), arguments)
            } {
                self.note_recent(kernel);
                return Ok(());
            }
        }
        let mut pointers = SmallVec::<*mut c_void, USUAL>::default();
        arguments.iter().for_each(|bytes| pointers.push(bytes.as_ptr().cast_mut().cast()));
        let make = if proven { submit::launch } else { Cuda::call_launch };
        let configured = || Configuration { function: kernel.function, stream: self.stream(), shape };
        // SAFETY: as above.
        let call = || unsafe { make(self, &configured(), pointers.as_mut_ptr()) };
        self.queue(kernel, "cuLaunchKernel", call, explain)?;
        kernel.note_taken(shape);
        Ok(())
    }

    /// Calls `cuLaunchKernel`. Returns the driver's status.
    ///
    /// # Safety
    /// The context is current, the function loaded in it, the arguments those that it declares.
    pub(crate) unsafe fn call_launch(&self, what: &Configuration, arguments: *mut *mut c_void) -> u32 {
        let &Configuration { function, stream, shape } = what;
        let Shape { grid: [gx, gy, gz], block: [bx, by, bz], shared } = shape;
        // SAFETY: the caller's promise.
        unsafe {
            (self.driver.launch)(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, std::ptr::null_mut())
        }
    }

    /// Queues a kernel by `call`, which calls the driver's `function`. Remembers the kernel for messages, and waits for
    /// it if launches are to be checked.
    pub(crate) fn queue(
        &self,
        kernel: &Arc<Kernel>,
        function: &str,
        call: impl FnOnce() -> u32,
        explain: impl FnOnce(Error) -> Error,
    ) -> Result<()> {
        // fails if an earlier error broke the context, which `explain` must not blame on this launch
        let _entered = self.enter()?;
        self.note_recent(kernel);
        let done = {
            let _timed = self.timed("kernel", self.stream(), 0, || kernel.name.clone());
            self.check(call(), function)
        };
        // without `wait()`, which locks the flags of warnings: the caller may hold them
        let waited =
            || if checks_launches() && !self.is_capturing() { self.drain(self.stream_state()) } else { Ok(()) };
        // the error may be that of an earlier kernel, if it broke the context and launches are not checked one by one
        let ours = || checks_launches() || !self.is_broken();
        done.and_then(|()| waited()).map_err(|error| if ours() { explain(error) } else { error })
    }
}
