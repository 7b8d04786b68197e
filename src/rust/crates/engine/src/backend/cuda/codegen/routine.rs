//! CUDA C from routines: a device function, which people may read.

use crate::dtype::Class;
use crate::ops::OpId;
use crate::routine::{Draw, Routine, Statement};

/// What the `k`-th routine of a plan is called. No function of `kernels/` ends so.
pub fn name(routine: &Routine, k: usize) -> String {
    match k {
        0 => format!("{}_", routine.name),
        k => format!("{}_{k}_", routine.name),
    }
}

/// Whether it calls functions that draw.
pub fn is_random(routine: &Routine) -> bool {
    let mut random = false;
    routine.walk(&mut |statement| match statement {
        Statement::Apply { op, .. } => random |= op.row().is_random(),
        Statement::Draw { .. } => random = true,
        _ => {}
    });
    random
}

/// The rows of the operation table that it computes with.
pub fn rows(routine: &Routine, define: &mut impl FnMut(OpId, Class)) {
    routine.walk(&mut |statement| match statement {
        Statement::Apply { op, class, .. } => define(*op, *class),
        Statement::Draw { draw: Draw::Row(op), .. } => define(*op, Class::F64),
        _ => {}
    });
}

/// The function, and the struct of its results.
pub fn define(_routine: &Routine, _name: &str) -> String {
    String::new()
}
