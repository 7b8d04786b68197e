//! Speed of the cuda device at the level of the engine: `cargo run --release --example cuda_speed`.
//!
//! Prints for each row: the median time of a call in milliseconds, including the wait; the rate at which the elements
//! that must be read and written move; and the time of a call among ten that are queued together, which is the device's
//! time without the round trip. An argument selects rows by a part of their name.

use std::time::Instant;

use verdigris_engine::array::transfer::Host;
use verdigris_engine::array::{Array, Operand};
use verdigris_engine::backend::{self, cuda};
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::error::Result;
use verdigris_ops::layout::Axis;
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::scalar::Scalar;
use verdigris_ops::OpId;

const CUDA: Device = Device::Cuda(0);

fn row(name: &str, bytes: f64, mut body: impl FnMut() -> Result<()>) {
    if !std::env::args().skip(1).all(|wanted| name.contains(&wanted)) {
        return;
    }
    let card = backend::of(CUDA).expect("there is a device");
    let mut once = || {
        let began = Instant::now();
        body().and_then(|()| card.synchronize()).unwrap_or_else(|e| panic!("{name}: {e}\n{:?}", e.detail));
        began.elapsed().as_secs_f64() * 1e3
    };
    let first = once();
    for _ in 0..3 {
        once();
    }
    let mut times: Vec<f64> = (0..25).map(|_| once()).collect();
    times.sort_by(f64::total_cmp);
    let mut queued: Vec<f64> = (0..5)
        .map(|_| {
            let began = Instant::now();
            for _ in 0..10 {
                body().unwrap_or_else(|e| panic!("{name}: {e}\n{:?}", e.detail));
            }
            card.synchronize().unwrap_or_else(|e| panic!("{name}: {e}"));
            began.elapsed().as_secs_f64() * 1e2
        })
        .collect();
    queued.sort_by(f64::total_cmp);
    println!(
        "{name:50} {:9.4} ms {:6.0} GB/s   queued {:9.4} ms   first {first:.1} ms",
        times[12],
        bytes / times[12] / 1e6,
        queued[2]
    );
}

fn apply(name: &str, operands: &[Operand]) -> Result<Array> {
    Array::apply(OpId::find(name).expect("the table has it"), operands, None)
}

fn of(x: &Array) -> Operand {
    Operand::Array(x.clone())
}

fn number(x: f64) -> Operand {
    Operand::Value(Scalar::F64(x), verdigris_ops::dtype::Kind::Double)
}

/// `sqrt(a*a + b*b)*2 - exp(-a)/(1 + abs(b))`
fn chain(a: &Array, b: &Array) -> Result<Array> {
    let squares = apply("add", &[of(&apply("mul", &[of(a), of(a)])?), of(&apply("mul", &[of(b), of(b)])?)])?;
    let left = apply("mul", &[of(&apply("sqrt", &[of(&squares)])?), number(2.0)])?;
    let decay = apply("exp", &[of(&apply("neg", &[of(a)])?)])?;
    let below = apply("add", &[number(1.0), of(&apply("abs", &[of(b)])?)])?;
    apply("sub", &[of(&left), of(&apply("div", &[of(&decay), of(&below)])?)])
}

fn main() -> Result<()> {
    let card = cuda::context::device::Cuda::of(0)?;
    println!("{:?}, driver {:?}", card.properties, cuda::driver::devices::driver_version()?);
    let n = 100_000_000usize;
    let host: Vec<f64> = (0..n).map(|k| (k % 1000) as f64 / 100.0 + 0.01).collect();
    let mut back = vec![0u8; n * 8];
    // SAFETY: doubles may be read as bytes.
    let bytes = unsafe { std::slice::from_raw_parts(host.as_ptr().cast::<u8>(), n * 8) };
    let buffer = card.allocate(n * 8)?;
    let whole = backend::of(CUDA)?;
    row("upload 1e8 doubles", 8e8, || whole.upload(bytes, &buffer, 0));
    row("download 1e8 doubles", 8e8, || whole.download(&buffer, 0, &mut back));
    row("upload 10 doubles", 80.0, || whole.upload(&bytes[..80], &buffer, 0));
    row("download 10 doubles", 80.0, || whole.download(&buffer, 0, &mut back[..80]));

    for dtype in [DType::Float32, DType::Float64] {
        let size = dtype.size() as f64;
        let make = |from: usize| -> Result<Array> {
            let x = Array::upload(Host::Double(&host), Some(dtype), CUDA, None)?;
            let _ = from;
            Ok(x)
        };
        let (a, b) = (make(0)?, make(1)?);
        let name = |text: &str| format!("{text}, {dtype}");
        row(&name("a + b"), 3e8 * size, || apply("add", &[of(&a), of(&b)])?.evaluate().map(|_| ()));
        row(&name("a + 1"), 2e8 * size, || apply("add", &[of(&a), number(1.0)])?.evaluate().map(|_| ()));
        row(&name("sqrt(a*a+b*b)*2 - exp(-a)/(1+abs(b))"), 3e8 * size, || chain(&a, &b)?.evaluate().map(|_| ()));
        row(&name("a > 1"), 1e8 * (size + 1.0), || apply("gt", &[of(&a), number(1.0)])?.evaluate().map(|_| ()));
        for reduction in [
            Reduction::Sum,
            Reduction::Mean,
            Reduction::Max,
            Reduction::Range,
            Reduction::Var,
            Reduction::WhichMax,
            Reduction::Product,
        ] {
            row(&name(&format!("{}(a)", reduction.name())), 1e8 * size, || a.reduce(reduction, false).map(|_| ()));
        }
        for reduction in [Reduction::Sum, Reduction::Max, Reduction::Var, Reduction::WhichMax] {
            row(&name(&format!("{}(a) on the device", reduction.name())), 1e8 * size, || {
                a.reduce_groups(reduction, false, Groups::whole(n)).map(|_| ())
            });
        }
        row(&name("cumsum"), 2e8 * size, || a.scan(verdigris_ops::scan::Scan::Sum).map(|_| ()));
        row(&name("sum((a-b)^2)"), 2e8 * size, || {
            let d = apply("sub", &[of(&a), of(&b)])?;
            apply("mul", &[of(&d), of(&d)])?.reduce(Reduction::Sum, false).map(|_| ())
        });
        let sides = [
            ("1e4 x 1e4", 10_000, 10_000),
            ("1e7 x 10", 10_000_000, 10),
            ("10 x 1e7", 10, 10_000_000),
            ("6250000 x 16", 6_250_000, 16),
            ("16 x 6250000", 16, 6_250_000),
            ("32 x 3125000", 32, 3_125_000),
            ("100 x 1000000", 100, 1_000_000),
        ];
        for (shape, rows, columns) in sides {
            let by_column = Groups { outer: columns, length: rows, inner: 1 };
            let by_row = Groups { outer: 1, length: columns, inner: rows };
            row(&name(&format!("colSums {shape}")), 1e8 * size, || {
                a.reduce_groups(Reduction::Sum, false, by_column)?.evaluate().map(|_| ())
            });
            row(&name(&format!("rowSums {shape}")), 1e8 * size, || {
                a.reduce_groups(Reduction::Sum, false, by_row)?.evaluate().map(|_| ())
            });
        }
        for draw in ["runif", "rnorm", "rexp"] {
            let op = OpId::find(&if dtype == DType::Float32 { format!("{draw}_single") } else { draw.into() });
            let (op, key) = (op.expect("the table has it"), Scalar::I64(0x1234_5678_9abc_def0));
            row(&name(draw), 1e8 * size, || {
                Array::source(op, Class::I64, dtype, n, CUDA, &[key])?.evaluate().map(|_| ())
            });
        }
        let centred = apply("sub", &[of(&a), number(5.0)])?;
        centred.evaluate()?;
        row(&name("x[x > 0]"), 1.5e8 * size, || centred.mask(&apply("gt", &[of(&centred), number(0.0)])?).map(|_| ()));
        row(&name("which(x > 0)"), 1e8 * size + 4e8, || {
            apply("gt", &[of(&centred), number(0.0)])?.positions(false).map(|_| ())
        });
        row(&name("sort(x)"), 2e8 * size, || centred.sort(false, false).map(|_| ()));
        row(&name("order(x)"), 2e8 * size, || centred.sort(false, true).map(|_| ()));
        let mixed = Array::source(OpId::find("rnorm").expect("it is"), Class::I64, dtype, n, CUDA, &[Scalar::I64(7)])?;
        mixed.evaluate()?;
        row(&name("sort(normals)"), 2e8 * size, || mixed.sort(false, false).map(|_| ()));
        row(&name("order(normals)"), 2e8 * size, || mixed.sort(false, true).map(|_| ()));
        row(&name("normals[normals > 0]"), 1.5e8 * size, || {
            mixed.mask(&apply("gt", &[of(&mixed), number(0.0)])?).map(|_| ())
        });
        let t = a.view(&[10_000, 10_000], &[Axis::whole(1, 10_000), Axis::whole(0, 10_000)])?;
        row(&name("t(m), 1e4 x 1e4"), 2e8 * size, || Array::duplicate(&t.evaluate()?).map(|_| ()));
        row(&name("t(m) + m, 1e4 x 1e4"), 3e8 * size, || apply("add", &[of(&t), of(&a)])?.evaluate().map(|_| ()));
        let column = Array::upload(Host::Double(&host[..10_000]), Some(dtype), CUDA, None)?;
        row(&name("m - v, 1e4 x 1e4 and 1e4"), 2e8 * size, || {
            apply("sub", &[of(&a), of(&column)])?.evaluate().map(|_| ())
        });
        let part = a.view(&[n], &[Axis { of: 0, start: 1, step: 1, extent: n - 1 }])?;
        row(&name("a[-1] + 1"), 2e8 * size, || apply("add", &[of(&part), number(1.0)])?.evaluate().map(|_| ()));
        let small = Array::upload(Host::Double(&host[..10]), Some(dtype), CUDA, None)?;
        row(&name("ten-element add, waited for"), 0.0, || {
            apply("add", &[of(&small), of(&small)])?.evaluate().map(|_| ())
        });
        row(&name("ten-element sum"), 0.0, || small.reduce(Reduction::Sum, false).map(|_| ()));
        let began = Instant::now();
        for _ in 0..10_000 {
            apply("add", &[of(&small), of(&small)])?.evaluate()?;
        }
        whole.synchronize()?;
        println!(
            "{:58} {:9.4} ms",
            name("ten-element add, 10,000 in a row, each"),
            began.elapsed().as_secs_f64() * 1e3 / 1e4
        );
    }
    println!("{} kernels compiled; {:?}", verdigris_engine::memory::counters::COMPILED.get(), card.memory()?);
    Ok(())
}
