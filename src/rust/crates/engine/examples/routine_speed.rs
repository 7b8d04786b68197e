//! Routines compared with the same kernels written by hand: `cargo run --release --example routine_speed`.
//!
//! Prints the median time in milliseconds of a routine through the graph, and of a hand-written kernel compiled by
//! NVRTC's defaults (contraction of `a * b + c` among them), measured in turn.

use std::time::Instant;

use verdigris_compile::{intern, Routine};
use verdigris_engine::array::function_call::{call, Given};
use verdigris_engine::array::transfer::Host;
use verdigris_engine::array::{Array, Operand};
use verdigris_engine::backend;
use verdigris_engine::backend::cuda::compile::Style;
use verdigris_engine::backend::cuda::context::device::Cuda;
use verdigris_engine::backend::cuda::driver::kernel::Args;
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::{DType, Kind};
use verdigris_ops::error::Result;
use verdigris_ops::scalar::Scalar;

#[path = "../tests/samples/mod.rs"]
mod samples;

const CUDA: Device = Device::Cuda(0);

const BY_HAND: &str = r#"
typedef unsigned long long u64;
typedef unsigned int u32;
extern "C" __global__ void __launch_bounds__(256) mandelbrot(int* y, const double* xr, const double* xi, long long n, int turns) {
  long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i >= n) return;
  double cr = xr[i], ci = xi[i], zr = 0, zi = 0;
  int k;
  for (k = 0; k < turns; k++) {
    double a = zr * zr, b = zi * zi;
    if (a + b > 4.0) break;
    zi = 2.0 * zr * zi + ci;
    zr = a - b + cr;
  }
  y[i] = k;
}
__device__ __forceinline__ void philox(u32 c[4], u32 k0, u32 k1) {
#pragma unroll
  for (int r = 0; r < 10; r++) {
    u32 h0 = __umulhi(0xD2511F53u, c[0]), l0 = 0xD2511F53u * c[0], h1 = __umulhi(0xCD9E8D57u, c[2]), l1 = 0xCD9E8D57u * c[2];
    u32 a = h1 ^ c[1] ^ k0, d = h0 ^ c[3] ^ k1;
    c[0] = a; c[1] = l1; c[2] = d; c[3] = l0;
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }
}
// normals by the library's functions, two of a block
extern "C" __global__ void __launch_bounds__(256) path(double* y, const double* s0, double mu, double sigma, u64 key, long long n, int steps) {
  long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i >= n) return;
  double s = s0[i], total = 0;
  for (int k = 0; k < steps; k += 2) {
    u32 c[4] = {(u32)i, (u32)(i >> 32), (u32)k >> 1, 9};
    philox(c, (u32)key, (u32)(key >> 32));
    double u = (((u64)c[1] << 32 | c[0]) >> 11) * 1.1102230246251565e-16 + 5.5511151231257827e-17;
    double v = (((u64)c[3] << 32 | c[2]) >> 11) * 1.1102230246251565e-16, a, b;
    double r = sqrt(-2.0 * log(u));
    sincospi(2.0 * v, &a, &b);
    s *= exp(mu + sigma * (r * b));
    total += s;
    s *= exp(mu + sigma * (r * a));
    total += s;
  }
  y[i] = total / steps;
}
"#;

fn median(mut body: impl FnMut() -> Result<()>) -> Result<f64> {
    let card = backend::of(CUDA)?;
    body()?;
    card.synchronize()?;
    let mut times = Vec::new();
    for _ in 0..7 {
        let began = Instant::now();
        body()?;
        card.synchronize()?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn routine(routine: Routine, operands: &[&Operand], n: usize) -> Result<Array> {
    let given: Vec<Given> = operands.iter().map(|operand| Given { operand, dim: &[] }).collect();
    let key = routine.draws().then_some(42);
    let mut results = call(intern(routine), &given, key, n, CUDA, None)?;
    results.truncate(1);
    let result = results.remove(0);
    result.evaluate()?;
    Ok(result)
}

fn main() -> Result<()> {
    let card = Cuda::of(0)?;
    println!("{:?}", card.properties);
    let style = Style { label: c"by-hand.cu", options: &["--std=c++17"] };
    let module = card.module_as("by hand", &style, || BY_HAND.into())?;
    let (mandelbrot, path) = (card.function(&module, "mandelbrot")?, card.function(&module, "path")?);
    let blocks = |n: usize| [n.div_ceil(256) as u32, 1, 1];

    let side = 4096usize;
    let n = side * side;
    let axis = |k: usize, from: f64, to: f64| from + (to - from) * k as f64 / (side - 1) as f64;
    let re: Vec<f64> = (0..n).map(|k| axis(k % side, -2.0, 0.6)).collect();
    let im: Vec<f64> = (0..n).map(|k| axis(k / side, -1.3, 1.3)).collect();
    let upload = |x: &[f64]| Array::upload(Host::Double(x), None, CUDA, None);
    let (re, im) = (upload(&re)?, upload(&im)?);
    let (x, y) = (Operand::Array(re.clone()), Operand::Array(im.clone()));
    let ours = median(|| routine(samples::mandelbrot(1000), &[&x, &y], n).map(drop))?;
    let out = card.allocate(n * 4)?;
    let (re, im) = (re.evaluate()?.address(), im.evaluate()?.address());
    let hand = median(|| {
        let mut args = Args::new();
        args.push(out.address).push(re).push(im).push(n as i64).push(1000i32);
        card.launch(&mandelbrot, blocks(n), [256, 1, 1], 0, &mut args)
    })?;
    println!("mandelbrot {side} x {side}, 1000 turns: {ours:.2} ms, by hand {hand:.2} ms: {:.3}", ours / hand);

    let n = 10_000_000usize;
    let start = Array::full(Scalar::F64(100.0), DType::Float64, n, CUDA)?;
    let s = Operand::Array(start.clone());
    let number = |x: f64| Operand::Value(Scalar::F64(x), Kind::Double);
    let (mu, sigma) = (number(1e-4), number(0.01));
    let ours = median(|| routine(samples::path(252), &[&s, &mu, &sigma], n).map(drop))?;
    let (start, out) = (start.evaluate()?.address(), card.allocate(n * 8)?);
    let hand = median(|| {
        let mut args = Args::new();
        args.push(out.address).push(start).push(1e-4f64).push(0.01f64).push(42u64).push(n as i64).push(252i32);
        card.launch(&path, blocks(n), [256, 1, 1], 0, &mut args)
    })?;
    println!("path, {n} x 252: {ours:.2} ms, by hand {hand:.2} ms: {:.3}", ours / hand);
    Ok(())
}
