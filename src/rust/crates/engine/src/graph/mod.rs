//! The lazy graph: recorded operations, and their evaluation.
//!
//! [`cost`] limits how large a graph may become, [`node`] holds recorded operations and computed values, [`spill`]
//! moves values to the host while a device is full, [`builder`] makes a kernel's plan from nodes, [`epilogue`] fuses
//! operations on a reduction's results into its kernel, [`evaluate`] decides which nodes one kernel computes.

pub mod builder;
pub mod cost;
pub(crate) mod epilogue;
pub mod evaluate;
pub mod held;
pub(crate) mod kept;
pub mod node;
pub mod postpone;
pub mod spill;
