//! Sums and products with the range of R's long double: if a result leaves the range of doubles, it is computed again
//! from scaled numbers.

use super::value::{self, Number, Value, Vector};
use super::{Compiled, Compiler, Operand, Span, Statement};
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::id;

/// The term of a sum for an element.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Term {
    Itself,
    Square,
}

impl Term {
    /// The factor of an element that scales the sum by 2^-64: the sum of fewer than 2^63 elements is then finite.
    fn scale(self) -> f64 {
        match self {
            Term::Itself => 1.0 / SCALED,
            Term::Square => 1.0 / SCALED.sqrt(),
        }
    }
}
const SCALED: f64 = 18_446_744_073_709_551_616.0; // 2^64

/// Factors and products beyond 2^256 or below 2^-256 are scaled by 2^-512 or 2^512 towards 1.
const FACTOR: f64 = f64::from_bits((1023 + 512) << 52);
const BEYOND: f64 = f64::from_bits((1023 + 256) << 52);
/// The most scalings that can change a result: after them it is 0 or infinite.
const TIMES: i32 = 4;

/// Stores a running value at an index.
pub(super) type Store<'n, 'a> = &'n mut dyn FnMut(&mut Compiler<'a>, Operand, Number) -> Compiled<()>;

/// A computation on a sum that precedes scaling back, such as the division of a mean.
pub(super) type Finish<'n, 'a> = &'n mut dyn FnMut(&mut Compiler<'a>, Number) -> Compiled<Number>;

impl<'a> Compiler<'a> {
    /// The sum of a vector's elements. Doubles are added with compensation for rounding errors (Knuth, TAOCP 2, 4.2.2),
    /// which matches the precision of R's long double.
    pub(super) fn sum(&mut self, v: &Vector, span: Span) -> Compiled<Number> {
        let dtype = value::dtype(v.typed());
        match dtype.kind() {
            Kind::Logical | Kind::Integer | Kind::Integer64 => {
                let sum = self.fold(v, &[Number::long(0)], span, &mut |c, state, x, _| {
                    let x = c.in_class(x, Class::I64);
                    Ok(vec![c.apply(id::ADD, &[state[0], x], span)?])
                })?[0];
                match dtype {
                    DType::Int64 => Ok(sum),
                    _ => self.as_integer_sum(sum, span),
                }
            }
            Kind::Complex | Kind::Double => self.sum_of(v, Term::Itself, span, &mut |_, sum| Ok(sum)),
        }
    }

    /// `finish` applied to the sum of terms of doubles or complex numbers. `finish` must commute with multiplication by
    /// a power of two.
    pub(super) fn sum_of(&mut self, v: &Vector, term: Term, span: Span, finish: Finish<'_, 'a>) -> Compiled<Number> {
        if value::dtype(v.typed()).kind() == Kind::Complex {
            let mut parts = Vec::with_capacity(2);
            for part in [id::RE, id::IM] {
                let Value::Vector(part) = self.map(part, vec![Value::vector(v.clone())], span)? else {
                    unreachable!("of vectors it is one")
                };
                parts.push(self.sum_of(&part, term, span, finish)?);
            }
            let sum = self.apply(id::COMPLEX, &parts, span)?;
            return Ok(self.as_typed(sum, v.typed()));
        }
        let zero = Number::double(0.0);
        let sums = self.fold(v, &[zero, zero], span, &mut |c, state, x, _| {
            let x = c.term(x, term, None, span)?;
            c.two_sum(state, x, span)
        })?;
        let sum = self.exact_sum(&sums, span)?;
        let usual = finish(self, sum)?;
        let wide = match value::dtype(v.typed()) {
            DType::Float64 => {
                let finite = self.apply(id::IS_FINITE, &[sum], span)?;
                let value = self.branch(finite, None, span, &mut |_| Ok(Value::Number(usual)), &mut |c| {
                    let sums = c.fold(v, &[zero, zero], span, &mut |c, state, x, _| {
                        let x = c.term(x, term, Some(term.scale()), span)?;
                        c.two_sum(state, x, span)
                    })?;
                    let sum = c.exact_sum(&sums, span)?;
                    let finished = finish(c, sum)?;
                    Ok(Value::Number(c.apply(id::MUL, &[finished, Number::double(SCALED)], span)?))
                })?;
                self.as_number(value, span)?
            }
            // Sums of narrower floats stay within the range of double.
            _ => usual,
        };
        Ok(self.in_dtype_of(wide, v.typed()))
    }

    fn term(&mut self, x: Number, term: Term, scale: Option<f64>, span: Span) -> Compiled<Number> {
        let mut x = self.double(x, span)?;
        if let Some(scale) = scale {
            x = self.apply(id::MUL, &[x, Number::double(scale)], span)?;
        }
        match term {
            Term::Itself => Ok(x),
            Term::Square => self.apply(id::MUL, &[x, x], span),
        }
    }

    /// A 64-bit sum as an integer: NA, with the warning of an integer addition, if it does not fit.
    fn as_integer_sum(&mut self, sum: Number, span: Span) -> Compiled<Number> {
        let most = i64::from(i32::MAX);
        let above = self.apply(id::GT, &[sum, Number::long(most)], span)?;
        let below = self.apply(id::LT, &[sum, Number::long(-most)], span)?;
        let beyond = self.apply(id::OR, &[above, below], span)?;
        // A sum that does not fit becomes the largest integer plus 1, whose addition overflows and warns.
        let kept = self.apply(id::SELECT, &[beyond, Number::long(most), sum], span)?;
        let kept = self.cast(kept, DType::Int32);
        let more = self.cast(beyond, DType::Int32);
        self.apply(id::ADD, &[kept, more], span)
    }

    /// Adds a number to a sum and its accumulated rounding errors (Knuth's TwoSum).
    fn two_sum(&mut self, state: &[Number], x: Number, span: Span) -> Compiled<Vec<Number>> {
        let (s, lost) = (state[0], state[1]);
        let t = self.apply(id::ADD, &[s, x], span)?;
        let b = self.apply(id::SUB, &[t, s], span)?;
        let a = self.apply(id::SUB, &[t, b], span)?;
        let (da, db) = (self.apply(id::SUB, &[s, a], span)?, self.apply(id::SUB, &[x, b], span)?);
        let d = self.apply(id::ADD, &[da, db], span)?;
        Ok(vec![t, self.apply(id::ADD, &[lost, d], span)?])
    }

    /// The sum plus its rounding errors. The errors of an infinite sum are NaN, so they are ignored.
    fn exact_sum(&mut self, sums: &[Number], span: Span) -> Compiled<Number> {
        let exact = self.apply(id::ADD, &[sums[0], sums[1]], span)?;
        let finite = self.apply(id::IS_FINITE, &[sums[0]], span)?;
        self.apply(id::SELECT, &[finite, exact, sums[0]], span)
    }

    /// `prod()` of real numbers.
    pub(super) fn product_of(&mut self, v: &Vector, span: Span) -> Compiled<Number> {
        let start = [Number::double(1.0), Number::logical(Some(true))];
        let states = self.fold(v, &start, span, &mut |c, state, x, _| {
            let x = c.double(x, span)?;
            let product = c.apply(id::MUL, &[state[0], x], span)?;
            let normal = c.is_normal(product, span)?;
            Ok(vec![product, c.apply(id::AND, &[state[1], normal], span)?])
        })?;
        let value = self.branch(states[1], None, span, &mut |_| Ok(Value::Number(states[0])), &mut |c| {
            let states = c.fold(v, &scaled_one(), span, &mut |c, state, x, _| c.scaled_times(state, x, span))?;
            Ok(Value::Number(c.scaled_value(&states, span)?))
        })?;
        self.as_number(value, span)
    }

    /// Whether a number is normal, and so has full precision. FALSE for 0 and NaN.
    fn is_normal(&mut self, x: Number, span: Span) -> Compiled<Number> {
        let size = self.apply(id::ABS, &[x], span)?;
        let large = self.apply(id::GE, &[size, Number::double(f64::MIN_POSITIVE)], span)?;
        let finite = self.apply(id::IS_FINITE, &[x], span)?;
        self.apply(id::AND, &[finite, large], span)
    }

    /// Multiplies a product `m * 2^(512 e) * odd` by a factor; `odd` is the product of the factors that are not finite.
    /// `m` is between 2^-306 and 2^512 and factors are between 2^-562 and 2^512, so all intermediate results are
    /// normal.
    fn scaled_times(&mut self, state: &[Number], x: Number, span: Span) -> Compiled<Vec<Number>> {
        let one = Number::double(1.0);
        let x = self.double(x, span)?;
        let finite = self.apply(id::IS_FINITE, &[x], span)?;
        let odd = self.apply(id::SELECT, &[finite, one, x], span)?;
        let odd = self.apply(id::MUL, &[state[2], odd], span)?;
        let x = self.apply(id::SELECT, &[finite, x, one], span)?;
        let (x, e) = self.nearer_to_one(x, state[1], span)?;
        let m = self.apply(id::MUL, &[state[0], x], span)?;
        let (m, e) = self.nearer_to_one(m, e, span)?;
        Ok(vec![m, e, odd])
    }

    fn nearer_to_one(&mut self, x: Number, e: Number, span: Span) -> Compiled<(Number, Number)> {
        let (one, none) = (Number::double(1.0), Number::integer(0));
        let size = self.apply(id::ABS, &[x], span)?;
        let large = self.apply(id::GT, &[size, Number::double(BEYOND)], span)?;
        let small = self.apply(id::LT, &[size, Number::double(1.0 / BEYOND)], span)?;
        // A zero is not scaled: its derivatives would be.
        let some = self.apply(id::GT, &[size, Number::double(0.0)], span)?;
        let small = self.apply(id::AND, &[small, some], span)?;
        let up = self.apply(id::SELECT, &[small, Number::double(FACTOR), one], span)?;
        let by = self.apply(id::SELECT, &[large, Number::double(1.0 / FACTOR), up], span)?;
        let down = self.apply(id::SELECT, &[small, Number::integer(-1), none], span)?;
        let more = self.apply(id::SELECT, &[large, Number::integer(1), down], span)?;
        // The exponent is at most the number of factors, which is below 2^31.
        Ok((self.apply(id::MUL, &[x, by], span)?, self.apply(id::ADD, &[e, more], span)?))
    }

    fn scaled_value(&mut self, state: &[Number], span: Span) -> Compiled<Number> {
        let (mut x, e) = (state[0], state[1]);
        for k in 0..TIMES {
            let up = self.apply(id::GT, &[e, Number::integer(k)], span)?;
            let down = self.apply(id::LT, &[e, Number::integer(-k)], span)?;
            let by = self.apply(id::SELECT, &[down, Number::double(1.0 / FACTOR), Number::double(1.0)], span)?;
            let by = self.apply(id::SELECT, &[up, Number::double(FACTOR), by], span)?;
            x = self.apply(id::MUL, &[x, by], span)?;
        }
        // An infinite factor is multiplied by `m`, which is 0 exactly if a factor was 0 (0 * Inf is NaN).
        let odd = self.apply(id::MUL, &[state[0], state[2]], span)?;
        let finite = self.apply(id::IS_FINITE, &[state[2]], span)?;
        self.apply(id::SELECT, &[finite, x, odd], span)
    }

    /// `cumsum()` of doubles, whose elements go to `store`. If a sum is not finite, a second pass computes scaled sums
    /// too.
    pub(super) fn cumulate_sums(&mut self, v: &Vector, span: Span, store: Store<'_, 'a>) -> Compiled<()> {
        let (zero, yes) = (Number::double(0.0), Number::logical(Some(true)));
        let states = self.fold(v, &[zero, zero, yes], span, &mut |c, state, x, index| {
            let x = c.double(x, span)?;
            let mut sums = c.two_sum(state, x, span)?;
            let exact = c.exact_sum(&sums, span)?;
            store(c, index, exact)?;
            let finite = c.apply(id::IS_FINITE, &[sums[0]], span)?;
            sums.push(c.apply(id::AND, &[state[2], finite], span)?);
            Ok(sums)
        })?;
        self.again_unless(states[2], &mut |c| {
            // The second pass keeps both kinds of sums, since scaling would cost small sums digits.
            c.fold(v, &[zero; 4], span, &mut |c, state, x, index| {
                let mut next = c.two_sum(&state[..2], x, span)?;
                let scaled = c.apply(id::MUL, &[x, Number::double(1.0 / SCALED)], span)?;
                next.extend(c.two_sum(&state[2..], scaled, span)?);
                let (exact, scaled) = (c.exact_sum(&next[..2], span)?, c.exact_sum(&next[2..], span)?);
                let scaled = c.apply(id::MUL, &[scaled, Number::double(SCALED)], span)?;
                let finite = c.apply(id::IS_FINITE, &[next[0]], span)?;
                let value = c.apply(id::SELECT, &[finite, exact, scaled], span)?;
                store(c, index, value)?;
                Ok(next)
            })
        })
    }

    /// `cumprod()` of doubles, whose elements go to `store`. If a product lost digits, a second pass computes scaled
    /// products.
    pub(super) fn cumulate_products(&mut self, v: &Vector, span: Span, store: Store<'_, 'a>) -> Compiled<()> {
        let start = [Number::double(1.0), Number::logical(Some(true))];
        let states = self.fold(v, &start, span, &mut |c, state, x, index| {
            let x = c.double(x, span)?;
            let product = c.apply(id::MUL, &[state[0], x], span)?;
            store(c, index, product)?;
            let normal = c.is_normal(product, span)?;
            Ok(vec![product, c.apply(id::AND, &[state[1], normal], span)?])
        })?;
        self.again_unless(states[1], &mut |c| {
            c.fold(v, &scaled_one(), span, &mut |c, state, x, index| {
                let next = c.scaled_times(state, x, span)?;
                let value = c.scaled_value(&next, span)?;
                store(c, index, value)?;
                Ok(next)
            })
        })
    }

    /// Emits a second pass that runs if the first one's results do not suffice.
    fn again_unless(
        &mut self,
        usual: Number,
        pass: &mut dyn FnMut(&mut Self) -> Compiled<Vec<Number>>,
    ) -> Compiled<()> {
        let (again, _) = self.within(|c| pass(c))?;
        self.emit(Statement::If { value: usual.at, missing: None, then: vec![], otherwise: again });
        Ok(())
    }
}

fn scaled_one() -> [Number; 3] {
    [Number::double(1.0), Number::integer(0), Number::double(1.0)]
}
