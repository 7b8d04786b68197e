//! What is recorded, and when it is computed.
//!
//! [`node`] holds recorded operations and computed values, [`spill`] keeps values on the host while a device is full, [`builder`]
//! makes the plan of a kernel from nodes, [`epilogue`] has the kernel of a reduction go on to what reads it, [`evaluate`]
//! decides which nodes one kernel computes.

pub mod builder;
pub(crate) mod epilogue;
pub mod evaluate;
pub mod node;
pub mod spill;
