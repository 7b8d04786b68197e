//! Products of local matrices and vectors, in R's shapes: `%*%`, `crossprod()`, `tcrossprod()`, and `t()`.

use super::control::nth;
use super::value::{self, join, Container, Number, Value, Vector};
use super::vector::too_long;
use super::{Compiled, Compiler, Operand, Refusal, Span, Statement};
use crate::syntax::{Argument, Expr};
use verdigris_ops::dtype::Kind;
use verdigris_ops::id;
use verdigris_ops::rule::Typed;

/// A factor: elements of a local array, as stored or transposed.
struct Factor {
    array: Vector,
    /// The extents as stored.
    rows: usize,
    columns: usize,
    /// Whether R sees a matrix. A vector is laid out as a row or a column by the product.
    is_matrix: bool,
    transposed: bool,
}

impl Factor {
    /// Rows and columns after transposition.
    fn shape(&self) -> (usize, usize) {
        match self.transposed {
            true => (self.columns, self.rows),
            false => (self.rows, self.columns),
        }
    }

    /// Lays a vector out as a row or a column.
    fn as_row_or_column(&mut self, as_row: bool) {
        let n = self.rows * self.columns;
        (self.rows, self.columns) = if as_row { (1, n) } else { (n, 1) };
        self.transposed = false;
    }
}

impl Compiler<'_> {
    /// None if `name` is none of these functions.
    pub(super) fn multiplied(&mut self, name: &str, args: &[Argument], span: Span) -> Compiled<Option<Value>> {
        match name {
            "t" => {
                let value = self.expr(nth(args, 0, span, name)?)?;
                let x = self.factor(value, span)?;
                // t() of a vector is a row.
                let (from, to) = if x.is_matrix { (x.rows, x.columns) } else { (1, x.rows) };
                let array = self.new_array(x.array.typed(), (from * to) as u16);
                let typed = x.array.typed();
                if !x.is_matrix {
                    self.fill(array, &x.array, span)?;
                    return Ok(Some(local(array, typed, 1, to)));
                }
                self.grid(from, to, &mut |c, i, j| {
                    let at = c.offset_in(i, j, from, span)?;
                    let element = c.at_position(&x.array, at, span)?;
                    let at = c.offset_in(j, i, to, span)?;
                    c.emit(Statement::Set { array, at, value: element.at });
                    Ok(())
                })?;
                Ok(Some(local(array, typed, to, from)))
            }
            "%*%" | "crossprod" | "tcrossprod" => {
                let last = if name == "%*%" { 1 } else { args.len().saturating_sub(1).min(1) };
                let exprs: [&Expr; 2] = [nth(args, 0, span, name)?, nth(args, last, span, name)?];
                let values = self.operands(&exprs)?;
                let narrow = |v: &Value| matches!(v, Value::Vector(v) if self.extents(v).is_empty());
                let long = |v: &Value| matches!(v, Value::Vector(v) if v.fixed().is_none());
                if name != "tcrossprod" && values.iter().all(narrow) && (name == "crossprod" || values.iter().any(long))
                {
                    return self.inner_product(values, span).map(Some);
                }
                let mut factors = Vec::new();
                for value in values {
                    factors.push(self.factor(value, span)?);
                }
                let (mut y, mut x) = (factors.pop().expect("two"), factors.pop().expect("two"));
                x.transposed = name == "crossprod";
                y.transposed = name == "tcrossprod";
                self.product(name, x, y, span).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// `x %*% y` of vectors, whose length need not be known at compile time.
    fn inner_product(&mut self, values: Vec<Value>, span: Span) -> Compiled<Value> {
        if let [Value::Vector(x), Value::Vector(y)] = &values[..] {
            let (n, m) = (x.length(), y.length());
            if let (Some(n), Some(m)) = (x.fixed(), y.fixed()) {
                if n != m {
                    return Err(Refusal::new(
                        span,
                        format!("non-conformable arguments: {n} and {m} elements"),
                        "Give vectors of one length.",
                    ));
                }
            } else if x.fixed() == Some(1) || y.fixed() == Some(1) {
                // The product of vectors of different lengths would repeat the one element.
                let differ = self.long_op(id::NE, n, m, span)?;
                self.fail_if(differ, "non-conformable arguments", span);
            }
        }
        let Value::Vector(products) = self.row_on(id::MUL, values, span)? else { unreachable!("of vectors it is one") };
        let products = match value::dtype(products.typed()).kind() {
            Kind::Logical | Kind::Integer => self.converted(&products, Typed::Value(Kind::Double)),
            _ => (*products).clone(),
        };
        let value = self.sum(&products, span)?;
        Ok(Value::vector(Vector::Same { value, length: Number::long(1).at, dim: Some((1, 1)) }))
    }

    fn factor(&mut self, value: Value, span: Span) -> Compiled<Factor> {
        let v = match value {
            Value::Vector(v) => v,
            Value::Number(n) => self.single(n),
            Value::Parts(Container::Named, parts) => match self.combined(parts, span)? {
                Value::Vector(v) => v,
                _ => unreachable!("c() gives a vector"),
            },
            other => return Err(Refusal::new(span, format!("{} in a product", other.what()), "Give numbers.")),
        };
        let Some(n) = v.fixed().filter(|&n| n <= super::join::MOST_LOCAL) else {
            return Err(Refusal::new(
                span,
                "a product of matrices whose sizes are not written in the code",
                "Write the loops out; products of large arrays are %*% outside of the function.",
            ));
        };
        let array = match &*v {
            own @ Vector::Local { .. } => own.clone(),
            other => {
                let array = self.new_array(v.typed(), n as u16);
                self.fill(array, other, span)?;
                Vector::Local { array, typed: v.typed(), length: n as u16, dim: v.dim() }
            }
        };
        let (rows, columns) = v.dim().map_or((n, 1), |(r, c)| (r.into(), c.into()));
        Ok(Factor { array, rows, columns, is_matrix: v.dim().is_some(), transposed: false })
    }

    fn product(&mut self, name: &str, mut x: Factor, mut y: Factor, span: Span) -> Compiled<Value> {
        let (n, m) = (x.rows * x.columns, y.rows * y.columns);
        match (x.is_matrix, y.is_matrix) {
            (true, true) => {}
            (false, true) => x.as_row_or_column(name == "crossprod" || y.shape().0 == n),
            // The second factor of tcrossprod() is a column, which is transposed.
            (true, false) => y.as_row_or_column(name == "tcrossprod" || x.shape().1 != m),
            (false, false) => {
                let outer = name == "tcrossprod";
                x.as_row_or_column(!outer);
                y.as_row_or_column(outer || n == 1);
            }
        }
        let ((rows, inner), (same, columns)) = (x.shape(), y.shape());
        if inner != same {
            return Err(Refusal::new(
                span,
                format!("non-conformable arguments: {rows} x {inner} and {same} x {columns}"),
                "Give as many columns to the first as the second has rows.",
            ));
        }
        if rows * columns > super::join::MOST_LOCAL {
            return Err(too_long(span));
        }
        let typed = match join(x.array.typed(), y.array.typed()) {
            typed if value::dtype(typed).kind() < Kind::Double => Typed::Value(Kind::Double),
            typed => typed,
        };
        let zero = self.as_typed(Number::double(0.0), typed);
        let array = self.new_array(typed, (rows * columns) as u16);
        self.grid(rows, columns, &mut |c, i, j| {
            let sum = c.fresh(zero.class());
            c.variable_registers.insert(sum);
            c.emit(Statement::Move { to: sum, from: zero.at });
            let sum = Number::register(sum, typed);
            c.each(Number::long(inner as i64).at, &mut |c, k| {
                let a = c.entry(&x, i, k, span)?;
                let b = c.entry(&y, k, j, span)?;
                let factors = [a, b].map(|n| c.as_typed(n, typed));
                let product = c.apply(id::MUL, &factors, span)?;
                let next = c.apply(id::ADD, &[sum, product], span)?;
                let next = c.as_typed(next, typed);
                c.write(sum.at.register().expect("it is one"), next.at);
                Ok(())
            })?;
            let at = c.offset_in(i, j, rows, span)?;
            c.emit(Statement::Set { array, at, value: sum.at });
            Ok(())
        })?;
        Ok(local(array, typed, rows, columns))
    }

    /// Element `i, j` (I32, from 0) of a factor.
    fn entry(&mut self, x: &Factor, i: Operand, j: Operand, span: Span) -> Compiled<Number> {
        let (i, j) = if x.transposed { (j, i) } else { (i, j) };
        let at = self.offset_in(i, j, x.rows, span)?;
        self.at_position(&x.array, at, span)
    }

    /// The offset (I64) of element `i, j` (I32, from 0) of a matrix with `rows` rows.
    pub(super) fn offset_in(&mut self, i: Operand, j: Operand, rows: usize, span: Span) -> Compiled<Operand> {
        let [i, j] = [i, j].map(|at| self.long(Number { at, typed: Typed::Value(Kind::Integer) }));
        if let (Operand::Constant(_), Operand::Constant(_)) = (i, j) {
            let column = self.long_op(id::MUL, j, Number::long(rows as i64).at, span)?;
            return self.long_op(id::ADD, i, column, span);
        }
        let to = self.fresh(verdigris_ops::dtype::Class::I64);
        let at = vec![(i, Number::long(1).at), (j, Number::long(rows as i64).at)];
        self.emit(Statement::Offset { to, at });
        Ok(Operand::Register(to))
    }

    /// Calls `write` for each row and column (I32, from 0) of a matrix, column by column.
    pub(super) fn grid(
        &mut self,
        rows: usize,
        columns: usize,
        write: &mut dyn FnMut(&mut Self, Operand, Operand) -> Compiled<()>,
    ) -> Compiled<()> {
        self.each(Number::long(columns as i64).at, &mut |c, j| {
            c.each(Number::long(rows as i64).at, &mut |c, i| write(c, i, j))
        })
    }
}

/// A matrix in a local array.
fn local(array: u16, typed: Typed, rows: usize, columns: usize) -> Value {
    let dim = Some((rows as u16, columns as u16));
    Value::vector(Vector::Local { array, typed, length: (rows * columns) as u16, dim })
}
