//! Time of routines on one core of the cpu device, in nanoseconds an element, for functions that R users write as
//! loops. `cargo run --release --example routines [NAME [BLOCK]]`, in blocks of so many elements (1024).
//! `bench/routines.R` times the same functions through R, beside R's own loops.

use verdigris_compile::{Draw, Failure, Operand, Parameter, Register, Routine, Source, Statement};
use verdigris_engine::backend::cpu::routine::run;
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::scalar::Scalar;
use verdigris_ops::{id, OpId};

fn r(register: Register) -> Operand {
    Operand::Register(register)
}

fn int(x: i32) -> Operand {
    Operand::Constant(Scalar::I32(x))
}

fn num(x: f64) -> Operand {
    Operand::Constant(Scalar::F64(x))
}

fn f64(to: Register, op: OpId, args: &[Operand]) -> Statement {
    Statement::Apply { to, op, class: Class::F64, args: args.to_vec() }
}

fn set(to: Register, from: Operand) -> Statement {
    Statement::Move { to, from }
}

fn when(value: Register, then: Vec<Statement>) -> Statement {
    Statement::If { value: r(value), missing: Some(0), then, otherwise: vec![] }
}

fn routine(registers: &[Class], given: &[Register], results: &[(Register, DType)], body: Vec<Statement>) -> Routine {
    let parameter = |(k, &register): (usize, &Register)| {
        let (source, dtype) = match registers[register as usize] {
            Class::I64 => (Source::Key, DType::Int64),
            _ => (Source::Given(k as u16), DType::Float64),
        };
        Parameter { register, source, dtype }
    };
    Routine {
        registers: registers.to_vec(),
        parameters: given.iter().enumerate().map(parameter).collect(),
        results: results.to_vec(),
        failures: vec![Failure { message: "missing value".into(), ..Failure::default() }],
        body,
        ..Routine::default()
    }
}

/// The turn in which a point leaves the circle of 2: registers cx cy x y x2 y2 s t | test i n
fn mandelbrot() -> Routine {
    let registers = [[Class::F64; 8].to_vec(), [Class::I32; 4].to_vec()].concat();
    let turn = vec![
        Statement::Step { to: 10, from: int(1), counter: 9, step: int(1) },
        f64(4, id::MUL, &[r(2), r(2)]),
        f64(5, id::MUL, &[r(3), r(3)]),
        f64(6, id::ADD, &[r(4), r(5)]),
        f64(8, id::GT, &[r(6), num(4.0)]),
        when(8, vec![set(11, r(10)), Statement::Return]),
        f64(6, id::MUL, &[num(2.0), r(2)]),
        f64(7, id::MUL, &[r(6), r(3)]),
        f64(3, id::ADD, &[r(7), r(1)]),
        f64(6, id::SUB, &[r(4), r(5)]),
        f64(2, id::ADD, &[r(6), r(0)]),
    ];
    let body = vec![
        set(2, num(0.0)),
        set(3, num(0.0)),
        Statement::For { counter: 9, times: int(1000), body: turn },
        set(11, int(1000)),
    ];
    routine(&registers, &[0, 1], &[(11, DType::Int32)], body)
}

/// A path of 252 steps: registers s drift vol z a b | i count | key
fn path() -> Routine {
    let registers = [[Class::F64; 6].to_vec(), [Class::I32; 2].to_vec(), vec![Class::I64]].concat();
    let turn = vec![
        Statement::Draw { to: 3, draw: Draw::Normal, count: 7, args: vec![] },
        f64(4, id::MUL, &[r(2), r(3)]),
        f64(5, id::ADD, &[r(1), r(4)]),
        f64(4, id::EXP, &[r(5)]),
        f64(0, id::MUL, &[r(0), r(4)]),
    ];
    let body = vec![set(7, int(0)), Statement::For { counter: 6, times: int(252), body: turn }];
    routine(&registers, &[0, 1, 2, 8], &[(0, DType::Float64)], body)
}

/// A cube root by Newton's method: registers a x f s t u | test
fn newton() -> Routine {
    let registers = [[Class::F64; 6].to_vec(), vec![Class::I32]].concat();
    let turn = vec![
        f64(2, id::MUL, &[r(1), r(1)]),
        f64(3, id::MUL, &[r(2), r(1)]),
        f64(2, id::SUB, &[r(3), r(0)]),
        f64(4, id::MUL, &[num(3.0), r(1)]),
        f64(5, id::MUL, &[r(4), r(1)]),
        f64(3, id::DIV, &[r(2), r(5)]),
        f64(1, id::SUB, &[r(1), r(3)]),
        f64(4, id::ABS, &[r(3)]),
        f64(5, id::ABS, &[r(1)]),
        f64(2, id::MUL, &[num(1e-12), r(5)]),
        f64(6, id::LT, &[r(4), r(2)]),
        when(6, vec![Statement::Break]),
    ];
    routine(&registers, &[0], &[(1, DType::Float64)], vec![set(1, r(0)), Statement::Loop { body: turn }])
}

/// An epidemic of 100 steps, its top: registers beta gamma s i r top new rec t | test k
fn epidemic() -> Routine {
    let registers = [[Class::F64; 9].to_vec(), [Class::I32; 2].to_vec()].concat();
    let turn = vec![
        f64(8, id::MUL, &[r(0), r(2)]),
        f64(6, id::MUL, &[r(8), r(3)]),
        f64(7, id::MUL, &[r(1), r(3)]),
        f64(2, id::SUB, &[r(2), r(6)]),
        f64(8, id::ADD, &[r(3), r(6)]),
        f64(3, id::SUB, &[r(8), r(7)]),
        f64(4, id::ADD, &[r(4), r(7)]),
        f64(9, id::GT, &[r(3), r(5)]),
        when(9, vec![set(5, r(3))]),
    ];
    let body = vec![
        set(2, num(0.99)),
        set(3, num(0.01)),
        set(4, num(0.0)),
        set(5, num(0.0)),
        Statement::For { counter: 10, times: int(100), body: turn },
    ];
    routine(&registers, &[0, 1], &[(5, DType::Float64), (4, DType::Float64)], body)
}

/// A walk that goes up or down by other rules, and starts anew now and then: conditions that lanes rarely share.
/// Registers x u y | test k count | key
fn walk() -> Routine {
    let registers = [[Class::F64; 3].to_vec(), [Class::I32; 3].to_vec(), vec![Class::I64]].concat();
    let turn = vec![
        Statement::Draw { to: 1, draw: Draw::Uniform, count: 5, args: vec![] },
        f64(3, id::LT, &[r(1), num(0.5)]),
        Statement::If {
            value: r(3),
            missing: Some(0),
            then: vec![f64(2, id::SQRT, &[r(1)]), f64(0, id::ADD, &[r(0), r(2)])],
            otherwise: vec![f64(2, id::EXP, &[r(1)]), f64(0, id::SUB, &[r(0), r(2)])],
        },
        f64(3, id::LT, &[r(0), num(-5.0)]),
        when(3, vec![set(0, num(0.0)), Statement::Next]),
        f64(0, id::MUL, &[r(0), num(0.99)]),
    ];
    let body = vec![set(5, int(0)), Statement::For { counter: 4, times: int(100), body: turn }];
    routine(&registers, &[0, 6], &[(0, DType::Float64)], body)
}

/// Seconds that this thread has run: others may use the machine.
fn busy() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

fn main() {
    let wanted = std::env::args().nth(1);
    let block: usize = std::env::args().nth(2).map_or(1024, |text| text.parse().expect("a number of elements"));
    let share = |k: usize, n: usize| k as f64 / n as f64;
    let column = |n: usize, f: &dyn Fn(usize) -> f64| (0..n).map(f).collect::<Vec<f64>>();
    let key = |n: usize| column(n, &|_| f64::from_bits(0x1234_5678_9ABC_DEF1));
    let m = 512;
    let side = |k: usize| share(k, m - 1);
    let work = [
        (
            "mandelbrot",
            mandelbrot(),
            vec![column(m * m, &|k| -2.0 + 2.6 * side(k % m)), column(m * m, &|k| -1.3 + 2.6 * side(k / m))],
        ),
        (
            "path",
            path(),
            vec![column(20_000, &|_| 100.0), column(20_000, &|_| 1e-4), column(20_000, &|_| 0.01), key(20_000)],
        ),
        ("newton", newton(), vec![column(200_000, &|k| 1.0 + 99.0 * share(k * 7919 % 200_000, 200_000))]),
        (
            "epidemic",
            epidemic(),
            vec![column(100_000, &|k| 0.3 + 0.4 * share(k * 7919 % 100_000, 100_000)), column(100_000, &|_| 0.1)],
        ),
        ("walk", walk(), vec![column(50_000, &|_| 0.0), key(50_000)]),
    ];
    for (name, routine, columns) in work {
        if wanted.as_ref().is_some_and(|wanted| wanted != name && wanted != "all") {
            continue;
        }
        let routine: &'static Routine = Box::leak(Box::new(routine));
        let n = columns[0].len();
        let mut results: Vec<Vec<f64>> = routine.results.iter().map(|_| vec![0.0; n]).collect();
        let sizes: Vec<usize> = routine.results.iter().map(|(_, dtype)| dtype.class().size()).collect();
        let mut least = f64::INFINITY;
        for _ in 0..5 {
            let start = busy();
            let mut words = vec![0u32; routine.notes.len()];
            for i in (0..n).step_by(block) {
                let args: Vec<*const u8> = columns.iter().map(|c| c[i..].as_ptr().cast()).collect();
                let out: Vec<*mut u8> = results
                    .iter_mut()
                    .zip(&sizes)
                    .map(|(r, size)| r.as_mut_ptr().cast::<u8>().wrapping_add(i * size))
                    .collect();
                // SAFETY: every column has n elements of 8 bytes, and every result room for as many.
                unsafe { run(routine, &args, &[], i, block.min(n - i), &out, &mut words) };
            }
            least = least.min(busy() - start);
        }
        let turns = match name {
            // the results are integers
            "mandelbrot" => {
                let bytes = results[0].iter().flat_map(|x| x.to_ne_bytes());
                let all: Vec<u8> = bytes.take(4 * n).collect();
                let sum: f64 = all.chunks(4).map(|b| f64::from(i32::from_ne_bytes(b.try_into().unwrap()))).sum();
                sum / n as f64
            }
            "path" => 252.0,
            "newton" => 1.0,
            _ => 100.0,
        };
        let each = least / n as f64 * 1e9;
        println!("{name}: {each:.1} ns an element, {:.2} a turn", each / turns);
    }
}
