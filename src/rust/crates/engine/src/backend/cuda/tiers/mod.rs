//! The tiers, that is, which kernel runs a plan: [`planned`] has the plans' own kernels, [`choose`] decides between
//! these and an interpreter, and compiles in the background, [`prebuilt_reductions`] has the kernels that reduce
//! without them, [`run`] computes a plan's outputs.

pub mod choose;
pub mod planned;
pub mod prebuilt_reductions;
pub mod run;
