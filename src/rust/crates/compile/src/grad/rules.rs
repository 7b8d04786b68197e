//! The derivative of each operation of the table.

use super::{Operand, Writer};
use verdigris_ops::{id, OpId, Rule};

impl Writer<'_, '_> {
    /// The derivative of `y = op(args)`, given the derivatives `d` of the operands (None for 0).
    pub(super) fn rule(
        &mut self,
        op: OpId,
        args: &[Operand],
        y: Operand,
        d: &[Option<Operand>],
    ) -> Result<Operand, String> {
        let a = args[0];
        let b = args.get(1).copied().unwrap_or(a);
        // Functions of one operand: the factor of its derivative.
        let factor = match op {
            id::NEG => Some(self.c(-1.0)),
            id::POS => Some(self.c(1.0)),
            id::EXP => Some(y),
            id::EXPM1 => Some(self.add(y, self.c(1.0))),
            id::LOG => Some(self.div(self.c(1.0), a)),
            id::LOG2 => {
                let scaled = self.mul(a, self.c(std::f64::consts::LN_2));
                Some(self.div(self.c(1.0), scaled))
            }
            id::LOG10 => {
                let scaled = self.mul(a, self.c(std::f64::consts::LN_10));
                Some(self.div(self.c(1.0), scaled))
            }
            id::LOG1P => {
                let one = self.add(a, self.c(1.0));
                Some(self.div(self.c(1.0), one))
            }
            id::SQRT => Some(self.div(self.c(0.5), y)),
            id::SIN => Some(self.of(id::COS, a)),
            id::COS => {
                let s = self.of(id::SIN, a);
                Some(self.of(id::NEG, s))
            }
            id::TAN => {
                let s = self.mul(y, y);
                Some(self.add(s, self.c(1.0)))
            }
            id::ASIN | id::ACOS => {
                let s = self.mul(a, a);
                let s = self.sub(self.c(1.0), s);
                let root = self.of(id::SQRT, s);
                Some(self.div(self.c(if op == id::ASIN { 1.0 } else { -1.0 }), root))
            }
            id::ATAN => {
                let s = self.mul(a, a);
                let s = self.add(self.c(1.0), s);
                Some(self.div(self.c(1.0), s))
            }
            id::SINPI => {
                let s = self.of(id::COSPI, a);
                Some(self.mul(s, self.c(std::f64::consts::PI)))
            }
            id::COSPI => {
                let s = self.of(id::SINPI, a);
                Some(self.mul(s, self.c(-std::f64::consts::PI)))
            }
            id::TANPI => {
                let s = self.mul(y, y);
                let s = self.add(s, self.c(1.0));
                Some(self.mul(s, self.c(std::f64::consts::PI)))
            }
            id::SINH => Some(self.of(id::COSH, a)),
            id::COSH => Some(self.of(id::SINH, a)),
            id::TANH => {
                let s = self.mul(y, y);
                Some(self.sub(self.c(1.0), s))
            }
            id::ASINH | id::ACOSH => {
                let s = self.mul(a, a);
                let s = self.apply(if op == id::ASINH { id::ADD } else { id::SUB }, &[s, self.c(1.0)]);
                let root = self.of(id::SQRT, s);
                Some(self.div(self.c(1.0), root))
            }
            id::ATANH => {
                let s = self.mul(a, a);
                let s = self.sub(self.c(1.0), s);
                Some(self.div(self.c(1.0), s))
            }
            id::ABS => Some(self.of(id::SIGN, a)),
            id::GAMMA => {
                let p = self.of(id::DIGAMMA, a);
                Some(self.mul(y, p))
            }
            id::LGAMMA => Some(self.of(id::DIGAMMA, a)),
            id::DIGAMMA => Some(self.of(id::TRIGAMMA, a)),
            id::TRIGAMMA => {
                let second = self.c(2.0);
                Some(self.apply(id::PSIGAMMA, &[a, second]))
            }
            id::SIGN | id::FLOOR | id::CEILING | id::TRUNC | id::ROUND | id::ROUND_DIGITS | id::SIGNIF | id::INTDIV => {
                return Ok(self.c(0.0))
            }
            _ => None,
        };
        if let Some(factor) = factor {
            return Ok(self.sum(&[(d[0], factor)]));
        }
        if let Rule::To(dtype) = op.row().rule {
            // A cast between float types; `d` is cast in its own class.
            return match d[0] {
                Some(d) if dtype.is_float() => {
                    let class = std::mem::replace(
                        &mut self.class,
                        self.forward.out.registers[d.register().map_or(0, usize::from)],
                    );
                    let cast = self.apply(op, &[d]);
                    self.class = class;
                    Ok(cast)
                }
                _ => Ok(self.c(0.0)),
            };
        }
        let one = self.c(1.0);
        Ok(match op {
            id::ADD => match (d[0], d[1]) {
                (Some(x), Some(z)) => self.add(x, z),
                (Some(x), None) | (None, Some(x)) => x,
                _ => self.c(0.0),
            },
            id::SUB => match (d[0], d[1]) {
                (Some(x), Some(z)) => self.sub(x, z),
                (Some(x), None) => x,
                (None, Some(z)) => self.of(id::NEG, z),
                _ => self.c(0.0),
            },
            id::MUL => self.sum(&[(d[0], b), (d[1], a)]),
            id::DIV => {
                // (da - y db) / b
                let top = match (d[0], d[1]) {
                    (Some(x), None) => x,
                    (x, Some(z)) => {
                        let t = self.mul(y, z);
                        match x {
                            Some(x) => self.sub(x, t),
                            None => self.of(id::NEG, t),
                        }
                    }
                    _ => self.c(0.0),
                };
                self.div(top, b)
            }
            id::POW => {
                let by_base = match d[0] {
                    Some(_) => {
                        let less = self.sub(b, one);
                        let p = self.apply(id::POW, &[a, less]);
                        // x^0 is 1, at 0 too.
                        let (zero, p) = (self.c(0.0), self.mul(b, p));
                        let is_zero = self.apply(id::EQ, &[b, zero]);
                        self.apply(id::SELECT, &[is_zero, zero, p])
                    }
                    None => one,
                };
                let by_power = match d[1] {
                    Some(_) => {
                        // If the power is 0 (the base is 0), its derivative by the exponent is 0, although the
                        // logarithm is infinite.
                        let log = self.of(id::LOG, a);
                        let p = self.mul(y, log);
                        let zero = self.c(0.0);
                        let is_zero = self.apply(id::EQ, &[y, zero]);
                        self.apply(id::SELECT, &[is_zero, zero, p])
                    }
                    None => one,
                };
                self.sum(&[(d[0], by_base), (d[1], by_power)])
            }
            id::LOG_BASE => {
                let log = self.of(id::LOG, b);
                let x = self.mul(a, log);
                let by_a = self.div(one, x);
                let z = self.mul(b, log);
                let by_b = self.div(y, z);
                let by_b = self.of(id::NEG, by_b);
                self.sum(&[(d[0], by_a), (d[1], by_b)])
            }
            id::ATAN2 => {
                let (p, q) = (self.mul(a, a), self.mul(b, b));
                let r = self.add(p, q);
                let by_a = self.div(b, r);
                let by_b = self.div(a, r);
                let by_b = self.of(id::NEG, by_b);
                self.sum(&[(d[0], by_a), (d[1], by_b)])
            }
            id::MOD => {
                let q = self.apply(id::INTDIV, &[a, b]);
                let q = self.of(id::NEG, q);
                self.sum(&[(d[0], one), (d[1], q)])
            }
            id::SELECT => {
                let zero = self.c(0.0);
                self.apply(id::SELECT, &[a, d[1].unwrap_or(zero), d[2].unwrap_or(zero)])
            }
            id::PMIN | id::PMAX => {
                let zero = self.c(0.0);
                let first = self.apply(if op == id::PMIN { id::LE } else { id::GE }, &[a, b]);
                self.apply(id::SELECT, &[first, d[0].unwrap_or(zero), d[1].unwrap_or(zero)])
            }
            id::BETA | id::LBETA => {
                let s = self.add(a, b);
                let both = self.of(id::DIGAMMA, s);
                let (p, q) = (self.of(id::DIGAMMA, a), self.of(id::DIGAMMA, b));
                let (p, q) = (self.sub(p, both), self.sub(q, both));
                let sum = self.sum(&[(d[0], p), (d[1], q)]);
                if op == id::BETA {
                    self.mul(y, sum)
                } else {
                    sum
                }
            }
            id::DNORM | id::DNORM_LOG | id::PNORM | id::PNORM_UPPER | id::PNORM_LOG | id::PNORM_UPPER_LOG => {
                let (mean, sd) = (args[1], args[2]);
                let centred = self.sub(a, mean);
                let z = self.div(centred, sd);
                // dz = (dx - dm - z ds) / s
                let minus = self.c(-1.0);
                let minus_z = self.of(id::NEG, z);
                let top = self.sum(&[(d[0], one), (d[1], minus), (d[2], minus_z)]);
                let dz = self.div(top, sd);
                let (zero, unit) = (self.c(0.0), self.c(1.0));
                match op {
                    id::DNORM | id::DNORM_LOG => {
                        let t = self.mul(minus_z, dz);
                        let t = match d[2] {
                            Some(ds) => {
                                let scale = self.div(ds, sd);
                                self.sub(t, scale)
                            }
                            None => t,
                        };
                        if op == id::DNORM {
                            self.mul(y, t)
                        } else {
                            t
                        }
                    }
                    id::PNORM | id::PNORM_UPPER => {
                        let density = self.apply(id::DNORM, &[z, zero, unit]);
                        let t = self.mul(density, dz);
                        if op == id::PNORM {
                            t
                        } else {
                            self.of(id::NEG, t)
                        }
                    }
                    _ => {
                        let density = self.apply(id::DNORM_LOG, &[z, zero, unit]);
                        let ratio = self.sub(density, y);
                        let ratio = self.of(id::EXP, ratio);
                        let t = self.mul(ratio, dz);
                        if op == id::PNORM_LOG {
                            t
                        } else {
                            self.of(id::NEG, t)
                        }
                    }
                }
            }
            id::QNORM => {
                let (mean, sd) = (args[1], args[2]);
                let centred = self.sub(y, mean);
                let z = self.div(centred, sd);
                let (zero, unit) = (self.c(0.0), self.c(1.0));
                let density = self.apply(id::DNORM, &[z, zero, unit]);
                let by_p = self.div(sd, density);
                self.sum(&[(d[0], by_p), (d[1], one), (d[2], z)])
            }
            // Standard draws do not depend on parameters; the transformations of draws do.
            id::NORMAL_DRAW => self.sum(&[(d[0], args[2]), (d[1], one), (d[2], a)]),
            id::LOGNORMAL_DRAW => {
                let t = self.sum(&[(d[0], args[2]), (d[1], one), (d[2], a)]);
                self.mul(y, t)
            }
            id::UNIFORM_DRAW => {
                let rest = self.sub(one, a);
                self.sum(&[(d[1], rest), (d[2], a)])
            }
            id::EXPONENTIAL_DRAW => {
                let t = self.div(y, b);
                let t = self.of(id::NEG, t);
                self.sum(&[(d[1], t)])
            }
            other if other.row().is_bessel() && d[1].is_none() => {
                let factor = self.bessel(other, a, b, y);
                self.sum(&[(d[0], factor)])
            }
            other if other.row().is_distribution() => self.distribution(other, args, y, d)?,
            other => return Err(super::shown(other)),
        })
    }
}
