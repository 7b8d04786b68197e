//! Kernels from source and DLPack on a CUDA device; values that an aborted collective has not written.
//!
//! Needs a device, and is ignored without: `VERDIGRIS_TEST_DEVICE=cuda cargo test ... -- --ignored`.
#![cfg(not(target_os = "macos"))]

use std::sync::Arc;

use verdigris_engine::array::kernel_call::{self, Value};
use verdigris_engine::array::transfer::{Host, HostMut};
use verdigris_engine::array::Array;
use verdigris_engine::backend::cuda::compile::tier;
use verdigris_engine::backend::cuda::context::device::Cuda;
use verdigris_engine::interop::dlpack::{export, import, Copying, Raw};
use verdigris_engine::kernel::{Code, Geometry, Module, Spec};
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::{DType, Kind};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::layout::Axis;
use verdigris_ops::reduction::Reduction;
use verdigris_ops::scalar::Scalar;

const CUDA: Device = Device::Cuda(0);
const SOURCE: &str = r#"
extern "C" __global__ void axpy(const float* x, float* __restrict__ y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}"#;

/// What each test begins with.
fn start() {
    assert_eq!(std::env::var("VERDIGRIS_TEST_DEVICE").as_deref(), Ok("cuda"));
    // nothing is compiled beside the end of this process
    tier::set_tier(tier::Tier::Compiled);
}

fn floats(x: &[f64]) -> Array {
    Array::upload(Host::Double(x), Some(DType::Float32), CUDA, None).unwrap()
}

fn back(x: &Array) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    x.read(0, HostMut::Double(&mut out)).unwrap();
    out
}

/// y += a * x; what is alone in this test has one holder here and one among the arguments.
fn axpy(x: &Array, y: &Array, a: f64, geometry: Geometry) -> Result<Array> {
    let spec = Spec { code: Code::Source(SOURCE.into()), label: "axpy.cu".into(), ..Spec::default() };
    let function = Arc::new(Module::new(spec)?).function(None)?;
    let number = |x: f64| Value::Scalar(Scalar::F64(x), Kind::Double);
    let mut arrays = [x.clone(), y.clone()];
    let values = [Value::Array(0), Value::Array(1), number(a), number(y.len() as f64)];
    kernel_call::call(&function, &values, &mut arrays, 2, &geometry, CUDA)?;
    Ok(arrays[1].clone())
}

fn address(x: &Array) -> u64 {
    x.evaluate().unwrap().address()
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn cuda_kernels_write_in_place_and_spare_who_shares() {
    start();
    let x = floats(&(0..100_000).map(f64::from).collect::<Vec<_>>());
    let y = floats(&[1.0; 100_000]);
    let written = axpy(&x, &y, 2.0, Geometry::default()).unwrap();
    assert_eq!(address(&written), address(&y), "alone: in place");
    assert_eq!(back(&y)[99_999], 1.0 + 2.0 * 99_999.0);
    drop(written);

    let y = floats(&[1.0, 2.0, 3.0]);
    let x = floats(&[1.0, 1.0, 1.0]);
    let pending = y.cast(DType::Float64, None).unwrap();
    let written = axpy(&x, &y, 1.0, Geometry::default()).unwrap();
    assert_ne!(address(&written), address(&y));
    assert_eq!((back(&written), back(&pending)), (vec![2.0, 3.0, 4.0], vec![1.0, 2.0, 3.0]));

    // a strided argument that is read
    let reversed = x.view(&[3], &[Axis { of: 0, start: 2, step: -1, extent: 3 }]).unwrap();
    let x = axpy(&reversed, &floats(&[1.0, 2.0, 3.0]), 10.0, Geometry::default()).unwrap();
    assert_eq!(back(&x), [11.0, 12.0, 13.0]);
    let error = axpy(&x, &y, 1.0, Geometry { block: Some([4096, 1, 1]), ..Geometry::default() }).err().unwrap();
    assert_eq!(error.kind, ErrorKind::Launch);
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn cuda_memory_goes_out_and_in() {
    start();
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for stream in [None, Some(0), Some(1), Some(2)] {
        let t = x.view(&[2, 3], &[Axis::whole(1, 3), Axis::whole(0, 2)]).unwrap();
        let raw = export(&t, &[3, 2], true, stream).unwrap();
        // SAFETY: just made.
        let (y, dim) = unsafe { import(raw, Copying::Never) }.unwrap();
        assert_eq!((y.device(), dim), (CUDA, vec![3, 2]));
        assert_eq!(address(&y), address(&x));
        assert_eq!(back(&y), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
        // a kernel is queued on foreign memory, and the memory is given back at once
        let z = y.cast(DType::Float64, None).unwrap();
        z.evaluate().unwrap();
        drop(y);
        assert_eq!(back(&z)[5], 6.0);
    }
    let flags = Array::upload(Host::Logical(&[1, 0, i32::MIN]), None, CUDA, None).unwrap();
    assert_eq!(export(&flags, &[3], true, None).unwrap_err().kind, ErrorKind::DType);

    // host memory that claims to be the device's
    let host = Array::upload(Host::Double(&[1.0]), None, Device::Cpu, None).unwrap();
    let Raw::Legacy(p) = export(&host, &[1], false, None).unwrap() else { unreachable!("it is the legacy form") };
    // SAFETY: just made.
    unsafe {
        (*p).dl_tensor.device = dlpark::ffi::DLDevice::cuda(0);
        assert_eq!(import(Raw::Legacy(p), Copying::IfNeeded).err().unwrap().kind, ErrorKind::Device);
        Raw::Legacy(p).delete();
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn cuda_lost_values_are_an_error_at_each_read() {
    start();
    let (before, lost) = (floats(&[1.0]), floats(&[1.0, 2.0]));
    let received = lost.contiguous().unwrap().buffer;
    Cuda::of(0).unwrap().await_values(std::iter::once(&received), true);
    let computed = lost.cast(DType::Float64, None).unwrap().contiguous().unwrap();
    let computed = Array::from_view(computed);
    // beside it, of values that do not depend on it
    let kept = Array::from_view(before.cast(DType::Float64, None).unwrap().contiguous().unwrap());
    let more = Array::from_view(kept.cast(DType::Float32, None).unwrap().contiguous().unwrap());
    Cuda::of(0).unwrap().lose_awaited(Error::new(ErrorKind::Member, "values were lost: a test"));
    let after = floats(&[3.0]);
    // the next wait fails, whatever it waits for; then what has values can be read
    _ = before.read(0, HostMut::Double(&mut [0.0]));
    for _ in 0..2 {
        assert_eq!((back(&before), back(&after)), (vec![1.0], vec![3.0]));
        assert_eq!((back(&kept), back(&more)), (vec![1.0], vec![1.0]));
        for x in [&lost, &computed] {
            let read = x.read(0, HostMut::Double(&mut [0.0; 2])).unwrap_err();
            let sum = x.reduce(Reduction::Sum, false).expect_err("it has no values");
            let cast = x.cast(DType::Int32, None).and_then(|y| y.contiguous()).err().expect("it has no values");
            assert_eq!([read.kind, sum.kind, cast.kind], [ErrorKind::Member; 3]);
        }
    }
}
