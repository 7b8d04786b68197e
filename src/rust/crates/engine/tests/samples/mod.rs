//! Hand-built routines, in the form that compiled R functions have, for tests of the two devices.
#![allow(dead_code)]

pub mod random;

use verdigris_compile::{
    Block, Draw, Failure, LocalArray, Operand, Parameter, Register, Routine, Source, Statement, Table,
};
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::scalar::Scalar;
use verdigris_ops::OpId;

/// A routine that is being written.
#[derive(Default)]
pub struct Writing {
    pub routine: Routine,
}

pub fn r(register: Register) -> Operand {
    Operand::Register(register)
}
pub fn d(x: f64) -> Operand {
    Operand::Constant(Scalar::F64(x))
}
pub fn i(x: i32) -> Operand {
    Operand::Constant(Scalar::I32(x))
}
pub fn l(x: i64) -> Operand {
    Operand::Constant(Scalar::I64(x))
}
pub fn set(to: Register, from: Operand) -> Statement {
    Statement::Move { to, from }
}

impl Writing {
    pub fn new(name: &str, source: &str) -> Writing {
        let lines = source.lines().map(String::from).collect();
        Writing { routine: Routine { name: name.into(), lines, ..Routine::default() } }
    }

    pub fn register(&mut self, class: Class, name: &str) -> Register {
        self.routine.registers.push(class);
        self.routine.names.push(name.into());
        self.routine.registers.len() as Register - 1
    }

    pub fn double(&mut self, name: &str) -> Register {
        self.register(Class::F64, name)
    }

    pub fn whole(&mut self, name: &str) -> Register {
        self.register(Class::I32, name)
    }

    pub fn position(&mut self) -> Register {
        self.register(Class::I64, "")
    }

    pub fn parameter(&mut self, source: Source, dtype: DType, name: &str) -> Register {
        let register = self.register(dtype.class(), name);
        self.routine.parameters.push(Parameter { register, source, dtype });
        register
    }

    pub fn given(&mut self, k: u16, dtype: DType, name: &str) -> Register {
        self.parameter(Source::Given(k), dtype, name)
    }

    pub fn key(&mut self) -> Register {
        self.parameter(Source::Key, DType::Int64, "")
    }

    pub fn table(&mut self, given: u16, dtype: DType, name: &str) -> u16 {
        self.routine.tables.push(Table { given, dtype, name: name.into() });
        self.routine.tables.len() as u16 - 1
    }

    pub fn failure(&mut self, message: &str, expression: &str, line: u32) -> u8 {
        let (message, expression) = (message.into(), expression.into());
        self.routine.failures.push(Failure { message, expression, line: Some(line), subscript: Some("k".into()) });
        self.routine.failures.len() as u8 - 1
    }

    /// `to = op(args)`, in a class.
    pub fn apply(&mut self, to: Register, op: &str, class: Class, args: &[Operand]) -> Statement {
        let op = OpId::find(op).expect("a row");
        if op.may_warn(class) && !self.routine.notes.contains(&op) {
            self.routine.notes.push(op);
        }
        Statement::Apply { to, op, class, args: args.to_vec() }
    }

    /// The same of doubles, into a register of its own; the statement goes to a block.
    pub fn f(&mut self, block: &mut Block, op: &str, args: &[Operand]) -> Operand {
        let class = OpId::find(op).expect("a row").row().result_class(Class::F64);
        let to = self.register(class, "");
        block.push(self.apply(to, op, Class::F64, args));
        r(to)
    }

    /// The same of integers and logical values.
    pub fn n(&mut self, block: &mut Block, op: &str, args: &[Operand]) -> Operand {
        let class = OpId::find(op).expect("a row").row().result_class(Class::I32);
        let to = self.register(class, "");
        block.push(self.apply(to, op, Class::I32, args));
        r(to)
    }

    pub fn done(mut self, body: Block, results: &[(Register, DType)]) -> Routine {
        self.routine.body = body;
        self.routine.results = results.to_vec();
        self.routine
    }
}

pub fn when(value: Operand, missing: Option<u8>, then: Block, otherwise: Block) -> Statement {
    Statement::If { value, missing, then, otherwise }
}

const MISSING: &str = "missing value where TRUE/FALSE needed";

/// Escape counts, and where the point was last.
pub fn mandelbrot(turns: i32) -> Routine {
    let mut w = Writing::new(
        "mandelbrot",
        "function(cr, ci) {\n  zr <- 0; zi <- 0; n <- 0L\n  for (k in 1:1000) {\n    a <- zr * zr; b <- zi * zi\n    if (a + b > 4) break\n    zi <- 2 * zr * zi + ci\n    zr <- a - b + cr\n    n <- n + 1L\n  }\n  n\n}",
    );
    let (cr, ci) = (w.given(0, DType::Float64, "cr"), w.given(1, DType::Float64, "ci"));
    let (zr, zi, n, k) = (w.double("zr"), w.double("zi"), w.whole("n"), w.whole("k"));
    let (a, b, counter) = (w.double("a"), w.double("b"), w.whole(""));
    let missing = w.failure(MISSING, "a + b > 4", 5);
    let mut body = vec![Statement::Step { to: k, from: i(1), counter, step: i(1) }];
    body.push(w.apply(a, "mul", Class::F64, &[r(zr), r(zr)]));
    body.push(w.apply(b, "mul", Class::F64, &[r(zi), r(zi)]));
    let size = w.f(&mut body, "add", &[r(a), r(b)]);
    let far = w.f(&mut body, "gt", &[size, d(4.0)]);
    body.push(when(far, Some(missing), vec![Statement::Break], vec![]));
    let twice = w.f(&mut body, "mul", &[d(2.0), r(zr)]);
    let product = w.f(&mut body, "mul", &[twice, r(zi)]);
    body.push(w.apply(zi, "add", Class::F64, &[product, r(ci)]));
    let gap = w.f(&mut body, "sub", &[r(a), r(b)]);
    body.push(w.apply(zr, "add", Class::F64, &[gap, r(cr)]));
    body.push(w.apply(n, "add", Class::I32, &[r(n), i(1)]));
    let all = vec![set(zr, d(0.0)), set(zi, d(0.0)), set(n, i(0)), Statement::For { counter, times: i(turns), body }];
    w.done(all, &[(n, DType::Int32), (zr, DType::Float64)])
}

/// The mean of a path of a geometric Brownian motion.
pub fn path(steps: i32) -> Routine {
    let mut w = Writing::new(
        "path",
        "function(s, mu, sigma) {\n  total <- 0\n  for (k in 1:252) {\n    z <- rnorm(1)\n    s <- s * exp(mu + sigma * z)\n    total <- total + s\n  }\n  total / 252\n}",
    );
    let s = w.given(0, DType::Float64, "s");
    let (mu, sigma) = (w.given(1, DType::Float64, "mu"), w.given(2, DType::Float64, "sigma"));
    w.key();
    let (total, z, count, counter) = (w.double("total"), w.double("z"), w.whole(""), w.whole(""));
    let mut body = vec![Statement::Draw { to: z, draw: Draw::Normal, count, args: vec![] }];
    let scaled = w.f(&mut body, "mul", &[r(sigma), r(z)]);
    let drift = w.f(&mut body, "add", &[r(mu), scaled]);
    let growth = w.f(&mut body, "exp", &[drift]);
    body.push(w.apply(s, "mul", Class::F64, &[r(s), growth]));
    body.push(w.apply(total, "add", Class::F64, &[r(total), r(s)]));
    let mut all = vec![set(total, d(0.0)), set(count, i(0)), Statement::For { counter, times: i(steps), body }];
    let mean = w.f(&mut all, "div", &[r(total), d(f64::from(steps))]);
    w.done(all, &[(mean.register().expect("a register"), DType::Float64)])
}

/// `m[i, j]` and `v[i]`, with bounds that fail, and those that give NA.
pub fn lookup() -> Routine {
    let mut w = Writing::new("lookup", "function(i, j) c(m[i, j], v[j])");
    let (at, j) = (w.given(0, DType::Int32, "i"), w.given(1, DType::Float64, "j"));
    let (m, v) = (w.table(2, DType::Float64, "m"), w.table(3, DType::Int32, "v"));
    let (rows, columns) =
        (w.parameter(Source::Extent(m, 0), DType::Int64, ""), w.parameter(Source::Extent(m, 1), DType::Int64, ""));
    let length = w.parameter(Source::Length(v), DType::Int64, "");
    let out = w.failure("subscript out of bounds", "m[i, j]", 1);
    let low = w.failure("negative subscripts", "v[j]", 1);
    let (row, column, position, spot) = (w.position(), w.position(), w.position(), w.position());
    let (x, y) = (w.double(""), w.whole(""));
    let body = vec![
        Statement::Position { to: row, from: r(at), extent: r(rows), low: out, high: Some(out), inside: false },
        Statement::Position { to: column, from: r(j), extent: r(columns), low: out, high: Some(out), inside: false },
        Statement::Offset { to: position, at: vec![(r(row), l(1)), (r(column), r(rows))] },
        Statement::Read { to: x, table: m, at: r(position) },
        Statement::Position { to: spot, from: r(j), extent: r(length), low, high: None, inside: false },
        Statement::Read { to: y, table: v, at: r(spot) },
    ];
    w.done(body, &[(x, DType::Float64), (y, DType::Int32)])
}

/// The sum of a vector's elements by a loop, none of which can be outside.
pub fn total() -> Routine {
    let mut w = Writing::new("total", "function(x) {\n  s <- x\n  for (k in seq_along(v)) s <- s + v[k]\n  s\n}");
    let x = w.given(0, DType::Float64, "x");
    let v = w.table(1, DType::Float64, "v");
    let length = w.parameter(Source::Length(v), DType::Int64, "");
    let out = w.failure("subscript out of bounds", "v[k]", 3);
    let (s, k, counter, times) = (w.double("s"), w.whole("k"), w.whole(""), w.whole(""));
    let (at, y) = (w.position(), w.double(""));
    let mut body = vec![
        Statement::Step { to: k, from: i(1), counter, step: i(1) },
        Statement::Position { to: at, from: r(k), extent: r(length), low: out, high: Some(out), inside: false },
        Statement::Read { to: y, table: v, at: r(at) },
    ];
    body.push(w.apply(s, "add", Class::F64, &[r(s), r(y)]));
    let whole = w.apply(times, "to_int32", Class::I64, &[r(length)]);
    let all = vec![set(s, r(x)), whole, Statement::For { counter, times: r(times), body }];
    w.done(all, &[(s, DType::Float64)])
}

/// The n-th Fibonacci number by a local array; integers that overflow.
pub fn fibonacci() -> Routine {
    let mut w = Writing::new("fibonacci", "function(n) { a <- c(1L, 1L, 0L); for (k in 1:12) ...; a[1] }");
    let n = w.given(0, DType::Int32, "n");
    w.routine.arrays.push(LocalArray { class: Class::I32, length: 3 });
    let counter = w.whole("");
    let [first, second, sum, any] = ["", "", "", ""].map(|name| w.whole(name));
    let here = w.position();
    let low = w.failure("no", "a[n]", 1);
    let mut body =
        vec![Statement::Get { to: first, array: 0, at: l(0) }, Statement::Get { to: second, array: 0, at: l(1) }];
    body.push(w.apply(sum, "add", Class::I32, &[r(first), r(second)]));
    let times = w.n(&mut body, "mul", &[r(sum), r(n)]);
    body.push(Statement::Set { array: 0, at: l(0), value: r(second) });
    body.push(Statement::Set { array: 0, at: l(1), value: times });
    let all = vec![
        Statement::Set { array: 0, at: l(0), value: i(1) },
        Statement::Set { array: 0, at: l(1), value: i(1) },
        Statement::For { counter, times: i(12), body },
        Statement::Position { to: here, from: r(n), extent: l(3), low, high: None, inside: false },
        Statement::Get { to: any, array: 0, at: r(here) },
    ];
    w.done(all, &[(any, DType::Int32)])
}

/// Draws of all kinds, an unequal number of them for each element.
pub fn draws() -> Routine {
    let mut w = Writing::new("draws", "function(n) ...");
    let n = w.given(0, DType::Int32, "n");
    w.key();
    let counts = [w.whole("u.count"), w.whole("z.count"), w.whole("e.count"), w.whole("row.count")];
    let (sum, counter) = (w.double("sum"), w.whole(""));
    let [u, z, e, b] = ["u", "z", "e", "b"].map(|name| w.double(name));
    let mut body = vec![Statement::Draw { to: u, draw: Draw::Uniform, count: counts[0], args: vec![] }];
    let low = w.f(&mut body, "lt", &[r(u), d(0.5)]);
    let mut then = vec![Statement::Draw { to: z, draw: Draw::Normal, count: counts[1], args: vec![] }];
    then.push(w.apply(sum, "add", Class::F64, &[r(sum), r(z)]));
    let mut otherwise = vec![Statement::Draw { to: e, draw: Draw::Exponential, count: counts[2], args: vec![] }];
    otherwise.push(w.apply(sum, "sub", Class::F64, &[r(sum), r(e)]));
    body.push(when(low, None, then, otherwise));
    let op = OpId::find("rbinom").expect("a row");
    w.routine.notes.push(op);
    let size = w.double("");
    body.push(w.apply(size, "to_float64", Class::I32, &[r(n)]));
    body.push(Statement::Draw { to: b, draw: Draw::Row(op), count: counts[3], args: vec![r(size), r(u)] });
    body.push(w.apply(sum, "add", Class::F64, &[r(sum), r(b)]));
    let mut all: Block = counts.iter().map(|&count| set(count, i(0))).collect();
    all.push(set(sum, d(0.0)));
    all.push(Statement::For { counter, times: r(n), body });
    w.done(all, &[(sum, DType::Float64)])
}

/// Conditions with NA, loops within loops, and all ways to leave them.
pub fn branches() -> Routine {
    let mut w = Writing::new("branches", "function(x, y, flag) ...");
    let (x, y) = (w.given(0, DType::Float64, "x"), w.given(1, DType::Float64, "y"));
    let flag = w.given(2, DType::Bool8, "flag");
    let missing = w.failure(MISSING, "x > 1 && !(y <= x)", 2);
    let far = w.failure("too far", "stop(\"too far\")", 9);
    let (out, turns, counter) = (w.double("out"), w.whole("turns"), w.whole(""));
    let mut all = vec![set(out, r(x)), set(turns, i(0))];
    let more = w.f(&mut all, "gt", &[r(x), d(1.0)]);
    let less = w.f(&mut all, "le", &[r(y), r(x)]);
    let not = w.n(&mut all, "not", &[less]);
    let both = w.n(&mut all, "and", &[more, not]);
    let mut then = vec![];
    let root = w.f(&mut then, "sqrt", &[r(y)]);
    then.push(w.apply(out, "add", Class::F64, &[root, r(x)]));
    let mut otherwise = vec![];
    let root = w.f(&mut otherwise, "sqrt", &[r(x)]);
    otherwise.push(w.apply(out, "sub", Class::F64, &[root, r(y)]));
    all.push(when(both, Some(missing), then, otherwise));
    // repeat { turns <- turns + 1L; if (is.na(out)) return; for (...) { if (out == 3) next; if (out < 0.5) break; out
    // <- out / 2 }
    //   if (flag || turns >= 5) break; if (out > 1e6) stop("too far") }
    let mut inner = vec![];
    let three = w.f(&mut inner, "eq", &[r(out), d(3.0)]);
    inner.push(when(three, Some(missing), vec![Statement::Next], vec![]));
    let small = w.f(&mut inner, "lt", &[r(out), d(0.5)]);
    inner.push(when(small, Some(missing), vec![Statement::Break], vec![]));
    inner.push(w.apply(out, "div", Class::F64, &[r(out), d(2.0)]));
    let mut body = vec![w.apply(turns, "add", Class::I32, &[r(turns), i(1)])];
    let na = w.f(&mut body, "is_na", &[r(out)]);
    body.push(when(na, None, vec![set(out, d(-1.0)), Statement::Return], vec![]));
    body.push(Statement::For { counter, times: r(turns), body: inner });
    let many = w.n(&mut body, "ge", &[r(turns), i(5)]);
    let either = w.n(&mut body, "or", &[r(flag), many]);
    body.push(when(either, None, vec![Statement::Break], vec![]));
    let beyond = w.f(&mut body, "ne", &[r(out), r(out)]);
    let huge = w.f(&mut body, "gt", &[r(out), d(1e6)]);
    let any = w.n(&mut body, "or", &[beyond, huge]);
    body.push(when(any, Some(missing), vec![Statement::Fail(far)], vec![]));
    body.push(w.apply(out, "mul", Class::F64, &[r(out), d(3.0)]));
    all.push(Statement::Loop { body });
    w.done(all, &[(out, DType::Float64), (turns, DType::Int32)])
}

/// A short one, which is no reason to take one element at a time.
pub fn clamp() -> Routine {
    let mut w = Writing::new("clamp", "function(x, low) if (x < low) low else x");
    let (x, low) = (w.given(0, DType::Float32, "x"), w.given(1, DType::Float32, "low"));
    let missing = w.failure(MISSING, "x < low", 1);
    let (out, less) = (w.register(Class::F32, ""), w.whole(""));
    let test = w.apply(less, "lt", Class::F32, &[r(x), r(low)]);
    let body = vec![test, when(r(less), Some(missing), vec![set(out, r(low))], vec![set(out, r(x))])];
    w.done(body, &[(out, DType::Float32)])
}

pub fn all() -> Vec<Routine> {
    vec![mandelbrot(1000), path(252), lookup(), total(), fibonacci(), draws(), branches(), clamp()]
}
