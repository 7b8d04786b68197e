//! The kernels whose PTX is prebuilt: general forms, on values in memory, that can do the work of all others.

use super::reduce::Form;
use super::{Tiled, Variant};
use crate::plan::{Access, Input, Instruction, Plan};
use verdigris_ops::dtype::DType;

/// The plan of a reduction whose values are stored as they are computed.
pub fn plain(dtype: DType) -> Plan {
    Plan {
        inputs: vec![Input { dtype, access: Access::Linear }],
        code: vec![Instruction::Load(0)],
        outputs: vec![(0, dtype)],
        ..Plan::default()
    }
}

/// The forms in which reductions are prebuilt.
pub const FORMS: [Form; 3] = [Form::Block, Form::Team(8), Form::SingleLanes];

/// The prebuilt form that does the work of any.
pub fn form_for(form: Form) -> Form {
    match form {
        Form::Block | Form::Kept(_) => Form::Block,
        Form::Team(_) | Form::Packs(_) => Form::Team(8),
        Form::Lanes | Form::SingleLanes => Form::SingleLanes,
    }
}

/// The variant of the reductions that are prebuilt: any length, and memory of our own, which is aligned.
pub const PLAIN: Variant = Variant { wide: true, unaligned: false, tiled: Tiled { inputs: 0, axis: 0 } };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_reduction_has_a_prebuilt_one() {
        for form in [1, 2, 8, 32].map(Form::Team).into_iter().chain([
            Form::Block,
            Form::Packs(4),
            Form::Lanes,
            Form::SingleLanes,
        ]) {
            assert!(FORMS.contains(&form_for(form)), "{form:?}");
        }
    }
}
