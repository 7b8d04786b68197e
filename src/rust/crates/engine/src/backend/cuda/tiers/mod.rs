//! Which kernel carries out a plan: [`planned`] has the plans' own, [`choose`] decides between those and an
//! interpreter, and compiles in the background, [`run`] computes a plan's outputs.

pub mod choose;
pub mod planned;
pub mod run;
