//! Derivatives with respect to x of Bessel functions (DLMF 10.6.1, 10.29.1) and of psigamma. There is no closed form
//! with respect to the order.

use super::{Operand, Writer};
use verdigris_ops::{id, OpId};

impl Writer<'_, '_> {
    /// The derivative of `y = op(x, nu)` with respect to x.
    pub(super) fn bessel(&mut self, op: OpId, x: Operand, nu: Operand, y: Operand) -> Operand {
        let one = self.c(1.0);
        if op == id::PSIGAMMA {
            // R rounds the order to a whole number.
            let order = self.of(id::ROUND, nu);
            let next = self.add(order, one);
            return self.apply(op, &[x, next]);
        }
        let (below, above) = (self.sub(nu, one), self.add(nu, one));
        let (p, q) = (self.apply(op, &[x, below]), self.apply(op, &[x, above]));
        let is_wave = matches!(op, id::BESSELJ | id::BESSELY);
        let both = self.apply(if is_wave { id::SUB } else { id::ADD }, &[p, q]);
        let half = self.c(0.5);
        let half = self.mul(half, both);
        match op {
            id::BESSELI_SCALED => self.sub(half, y),
            id::BESSELK => self.of(id::NEG, half),
            id::BESSELK_SCALED => self.sub(y, half),
            _ => half,
        }
    }
}
