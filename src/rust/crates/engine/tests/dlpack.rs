//! DLPack export and import, to and from consumers and producers made of the raw structs, and numpy.

use std::ffi::c_void;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlpark::ffi::{DLDataType, DLDataTypeCode, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned};
use dlpark::ffi::{DLPackVersion, DLTensor};
use dlpark::DlpackFlags;
use verdigris_engine::array::transfer::{Host, HostMut};
use verdigris_engine::array::Array;
use verdigris_engine::interop::dlpack::{export, import, Copying, Raw};
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind};
use verdigris_ops::layout::Axis;

fn doubles(x: &[f64]) -> Array {
    Array::upload(Host::Double(x), None, Device::Cpu, None).unwrap()
}

fn back(x: &Array) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    x.read(0, HostMut::Double(&mut out)).unwrap();
    out
}

fn tensor_of(raw: Raw) -> &'static DLTensor {
    // SAFETY: the tests use it before they delete it.
    unsafe {
        match raw {
            Raw::Legacy(p) => &(*p).dl_tensor,
            Raw::Versioned(p) => &(*p).dl_tensor,
        }
    }
}

fn numbers<'a>(p: *mut i64, n: i32) -> &'a [i64] {
    // SAFETY: as DLPack has it.
    unsafe { std::slice::from_raw_parts(p, n as usize) }
}

#[test]
fn a_consumer_reads_the_memory_and_deletes_once() {
    for versioned in [false, true] {
        let x = doubles(&[1., 2., 3., 4., 5., 6.]);
        let raw = export(&x, &[2, 3], versioned, None).unwrap();
        let view = x.evaluate().unwrap();
        assert!(view.buffer.is_shared());
        let buffer = std::sync::Arc::downgrade(&view.buffer);
        let tensor = tensor_of(raw);
        assert_eq!(tensor.data as u64, view.address());
        assert_eq!((tensor.ndim, tensor.byte_offset), (2, 0));
        assert_eq!(numbers(tensor.shape, 2), [2, 3]);
        assert_eq!(numbers(tensor.strides, 2), [1, 2]);
        assert!(tensor.dtype.is::<f64>());
        assert_eq!(tensor.device, DLDevice::CPU);
        drop(view);
        drop(x);
        assert!(buffer.upgrade().is_some(), "the tensor keeps the memory");
        // SAFETY: two doubles of the array, which is alive.
        assert_eq!(unsafe { *tensor.data.cast::<f64>().add(5) }, 6.0);
        if let Raw::Versioned(p) = raw {
            // SAFETY: ours.
            unsafe { assert_eq!(((*p).version, (*p).flags), (DLPackVersion::CURRENT, DlpackFlags::READ_ONLY)) };
        }
        // the deleter may run on any thread
        let address = raw.pointer() as usize;
        std::thread::spawn(move || {
            let p = address as *mut c_void;
            let name = if versioned { Raw::VERSIONED } else { Raw::LEGACY };
            // SAFETY: whole, and used for the last time.
            unsafe { Raw::from_capsule(name, p).unwrap().delete() };
        })
        .join()
        .unwrap();
        assert!(buffer.upgrade().is_none(), "the deleter lets go");
    }
}

#[test]
fn views_go_out_with_strides_and_no_copy() {
    let x = doubles(&[1., 2., 3., 4., 5., 6.]);
    let t = x.view(&[2, 3], &[Axis::whole(1, 3), Axis::whole(0, 2)]).unwrap();
    let raw = export(&t, &[3, 2], true, None).unwrap();
    let tensor = tensor_of(raw);
    assert_eq!(numbers(tensor.strides, 2), [2, 1]);
    assert_eq!(tensor.data as u64, x.evaluate().unwrap().address());
    let r = x.view(&[6], &[Axis { of: 0, start: 5, step: -1, extent: 5 }]).unwrap();
    let reversed = export(&r, &[5], false, None).unwrap();
    assert_eq!(numbers(tensor_of(reversed).strides, 1), [-1]);
    assert_eq!(tensor_of(reversed).data as u64, x.evaluate().unwrap().address() + 40, "offsets are in the pointer");
    // in again: the same elements
    for (raw, expected) in [(raw, vec![1., 3., 5., 2., 4., 6.]), (reversed, vec![6., 5., 4., 3., 2.])] {
        // SAFETY: just made.
        let (y, _) = unsafe { import(raw, Copying::Never) }.unwrap();
        assert_eq!(back(&y), expected);
    }
}

#[test]
fn shapes_without_elements_and_without_axes() {
    let raw = export(&doubles(&[]), &[0, 3], true, None).unwrap();
    assert!(tensor_of(raw).data.is_null());
    assert_eq!(numbers(tensor_of(raw).shape, 2), [0, 3]);
    // SAFETY: just made.
    let (x, dim) = unsafe { import(raw, Copying::IfNeeded) }.unwrap();
    assert_eq!((x.len(), dim), (0, vec![0, 3]));

    let raw = export(&doubles(&[7.]), &[], false, None).unwrap();
    assert_eq!(tensor_of(raw).ndim, 0);
    // SAFETY: just made.
    let (x, dim) = unsafe { import(raw, Copying::IfNeeded) }.unwrap();
    assert_eq!((back(&x), dim), (vec![7.], vec![]));

    let raw = export(&doubles(&[1., 2.]), &[1, 2, 1], false, None).unwrap();
    assert_eq!(numbers(tensor_of(raw).strides, 3), [1, 1, 2]);
    // SAFETY: just made.
    unsafe { raw.delete() };
    assert_eq!(export(&doubles(&[1.]), &[2], true, None).unwrap_err().kind, Kind::Shape);
}

#[test]
fn every_dtype_goes_out_and_in() {
    for dtype in DType::ALL {
        let x = Array::upload(Host::Integer(&[0, 1, 1]), Some(dtype), Device::Cpu, None).unwrap();
        let raw = export(&x, &[3], true, None).unwrap();
        assert_eq!(tensor_of(raw).dtype.element_size(), dtype.size());
        // SAFETY: just made.
        let (y, _) = unsafe { import(raw, Copying::IfNeeded) }.unwrap();
        assert_eq!(y.dtype(), dtype);
        assert_eq!(y.evaluate().unwrap().address(), x.evaluate().unwrap().address());
        let y = y.cast(DType::Float64, None).unwrap();
        assert_eq!(back(&y), [0., 1., 1.], "{dtype}");
    }
}

#[test]
fn na_has_no_place_in_a_bool() {
    let x = Array::upload(Host::Logical(&[1, i32::MIN]), None, Device::Cpu, None).unwrap();
    let error = export(&x, &[2], true, None).unwrap_err();
    assert_eq!((error.kind, error.advice.len()), (Kind::DType, 2));
}

// ---- a producer made of the raw structs ----------------------------------------------------------

struct Fake {
    tensor: DLManagedTensorVersioned,
    shape: Vec<i64>,
    strides: Vec<i64>,
    data: Vec<f64>,
    deleted: &'static AtomicUsize,
}

unsafe extern "C" fn delete_fake(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: the tensor is the first of what `fake` boxed.
    let fake = unsafe { Box::from_raw((*tensor).manager_ctx.cast::<Fake>()) };
    fake.deleted.fetch_add(1, Ordering::SeqCst);
}

/// A tensor over `data`, from element `first` on.
fn fake(
    data: &[f64],
    first: usize,
    shape: &[i64],
    strides: Option<&[i64]>,
) -> (*mut DLManagedTensorVersioned, &'static AtomicUsize) {
    let deleted: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
    let tensor = DLManagedTensorVersioned {
        version: DLPackVersion { major: 1, minor: 0 },
        manager_ctx: std::ptr::null_mut(),
        deleter: Some(delete_fake),
        flags: DlpackFlags::empty(),
        dl_tensor: DLTensor { device: DLDevice::CPU, dtype: DLDataType::F64, ..DLTensor::default() },
    };
    let fake = Box::leak(Box::new(Fake {
        tensor,
        shape: shape.to_vec(),
        strides: strides.unwrap_or(&[]).to_vec(),
        data: data.to_vec(),
        deleted,
    }));
    let context: *mut Fake = fake;
    let t = &mut fake.tensor;
    t.manager_ctx = context.cast();
    t.dl_tensor.data = fake.data.as_mut_ptr().cast();
    t.dl_tensor.byte_offset = 8 * first as u64;
    t.dl_tensor.ndim = shape.len() as i32;
    t.dl_tensor.shape = fake.shape.as_mut_ptr();
    t.dl_tensor.strides = if strides.is_some() { fake.strides.as_mut_ptr() } else { std::ptr::null_mut() };
    (t, deleted)
}

fn refused(tensor: *mut DLManagedTensorVersioned, deleted: &AtomicUsize, copying: Copying) -> Error {
    // SAFETY: a whole tensor.
    let error = unsafe { import(Raw::Versioned(tensor), copying) }.err().expect("it is refused");
    assert_eq!(deleted.load(Ordering::SeqCst), 0, "a refused tensor is still the caller's");
    // SAFETY: used for the last time.
    unsafe { Raw::Versioned(tensor).delete() };
    error
}

const DATA: [f64; 6] = [0., 1., 2., 3., 4., 5.];

#[test]
fn row_major_memory_is_a_view() {
    for strides in [Some(&[3i64, 1][..]), None] {
        let (tensor, deleted) = fake(&DATA, 0, &[2, 3], strides);
        // SAFETY: a whole tensor.
        let (x, dim) = unsafe { import(Raw::Versioned(tensor), Copying::Never) }.unwrap();
        assert_eq!(dim, [2, 3]);
        assert_eq!(x.evaluate().unwrap().layout.strides(), [3, 1]);
        let y = x.clone();
        assert_eq!(
            back(&x.cast(DType::Float32, None).unwrap().cast(DType::Float64, None).unwrap()),
            [0., 3., 1., 4., 2., 5.]
        );
        drop(x);
        assert_eq!(deleted.load(Ordering::SeqCst), 0);
        drop(y);
        assert_eq!(deleted.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn negative_strides_offsets_and_broadcasts() {
    for (first, shape, strides, expected) in [
        (5, vec![3], vec![-2], vec![5., 3., 1.]),
        (1, vec![2, 2], vec![1, 2], vec![1., 2., 3., 4.]),
        (2, vec![2, 3], vec![-1, 1], vec![2., 1., 3., 2., 4., 3.]),
        (4, vec![2, 2], vec![0, 0], vec![4., 4., 4., 4.]),
        (0, vec![2, 3], vec![1, 0], vec![0., 1., 0., 1., 0., 1.]),
    ] {
        for copying in [Copying::Never, Copying::Always] {
            let (tensor, deleted) = fake(&DATA, first, &shape, Some(&strides));
            // SAFETY: a whole tensor.
            let (x, _) = unsafe { import(Raw::Versioned(tensor), copying) }.unwrap();
            assert_eq!(deleted.load(Ordering::SeqCst), (copying == Copying::Always) as usize);
            assert_eq!(back(&x), expected);
            drop(x);
            assert_eq!(deleted.load(Ordering::SeqCst), 1);
        }
    }
}

#[test]
fn read_only_is_remembered() {
    let (tensor, _) = fake(&DATA, 0, &[6], Some(&[1]));
    // SAFETY: a whole tensor.
    let (x, _) = unsafe {
        (*tensor).flags = DlpackFlags::READ_ONLY;
        import(Raw::Versioned(tensor), Copying::Never)
    }
    .unwrap();
    let buffer = x.evaluate().unwrap().buffer;
    assert!(buffer.is_read_only() && buffer.is_shared());
}

#[test]
fn what_cannot_be_an_array_stays_with_its_owner() {
    let change = |f: &dyn Fn(&mut DLManagedTensorVersioned)| {
        let (tensor, deleted) = fake(&DATA, 0, &[6], Some(&[1]));
        // SAFETY: a whole tensor.
        f(unsafe { &mut *tensor });
        refused(tensor, deleted, Copying::IfNeeded)
    };
    assert_eq!(change(&|t| t.version.major = 2).kind, Kind::Argument);
    assert_eq!(change(&|t| t.dl_tensor.device.device_type = DLDeviceType::ROCM).kind, Kind::Device);
    assert_eq!(change(&|t| t.dl_tensor.dtype.lanes = 2).kind, Kind::DType);
    assert_eq!(change(&|t| t.dl_tensor.dtype = DLDataType::U32).kind, Kind::DType);
    assert!(change(&|t| t.dl_tensor.dtype.code = DLDataTypeCode::FLOAT8_E4M3).message.contains("type code"));
    assert_eq!(change(&|t| t.dl_tensor.data = std::ptr::null_mut()).kind, Kind::Argument);
    assert_eq!(change(&|t| t.dl_tensor.shape = std::ptr::null_mut()).kind, Kind::Argument);
    // SAFETY: the strides' place is the fake's.
    assert_eq!(change(&|t| unsafe { *t.dl_tensor.strides = i64::MAX }).kind, Kind::Shape);
    let (tensor, deleted) = fake(&[f64::from_bits(2)], 0, &[8], Some(&[1]));
    // SAFETY: a whole tensor.
    unsafe { (*tensor).dl_tensor.dtype = DLDataType::BOOL };
    assert_eq!(refused(tensor, deleted, Copying::IfNeeded).kind, Kind::DType);
}

#[test]
fn data_that_is_not_aligned_is_copied_or_refused() {
    let bytes: Vec<u8> = (0u8..4).chain(2.5f64.to_ne_bytes()).chain([0; 4]).collect();
    let data: Vec<f64> = bytes.chunks(8).map(|c| f64::from_ne_bytes(c.try_into().unwrap())).collect();
    let make = || {
        let (tensor, deleted) = fake(&data, 0, &[1], Some(&[1]));
        // SAFETY: a whole tensor.
        unsafe { (*tensor).dl_tensor.byte_offset = 4 };
        (tensor, deleted)
    };
    let (tensor, deleted) = make();
    assert_eq!(refused(tensor, deleted, Copying::Never).kind, Kind::Argument);
    let (tensor, deleted) = make();
    // SAFETY: a whole tensor.
    let (x, _) = unsafe { import(Raw::Versioned(tensor), Copying::IfNeeded) }.unwrap();
    assert_eq!((back(&x), deleted.load(Ordering::SeqCst)), (vec![2.5], 1));
}

#[test]
fn a_tensor_without_a_deleter_is_only_borrowed() {
    let mut shape = [2i64];
    let mut strides = [1i64];
    let mut data = [1.0f64, 2.0];
    let mut tensor = DLManagedTensor {
        dl_tensor: DLTensor {
            data: data.as_mut_ptr().cast(),
            device: DLDevice { device_type: DLDeviceType::CUDAHOST, device_id: 0 },
            ndim: 1,
            dtype: DLDataType::F64,
            shape: shape.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 0,
        },
        manager_ctx: std::ptr::null_mut(),
        deleter: None,
    };
    // SAFETY: all of it outlives the array.
    let (x, _) = unsafe { import(Raw::Legacy(&mut tensor), Copying::Never) }.unwrap();
    assert_eq!((x.device(), back(&x)), (Device::Cpu, vec![1.0, 2.0]));
}

/// numpy reads our arrays and we read numpy's, in one process. Skipped without numpy, except in CI.
#[test]
fn numpy_and_the_engine_share_memory() {
    let python = std::env::var("VERDIGRIS_PYTHON").unwrap_or_else(|_| "python3".into());
    let has_numpy = Command::new(&python).args(["-c", "import numpy"]).output().is_ok_and(|o| o.status.success());
    if !has_numpy {
        assert!(std::env::var_os("CI").is_none(), "CI needs numpy: run tools/build/setup.sh python");
        eprintln!("skipped: {python} has no numpy; tools/build/setup.sh python installs it");
        return;
    }
    let name = format!("{}dlpack_producer{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let here = std::env::current_exe().unwrap();
    let library = here.parent().and_then(|p| p.parent()).unwrap().join("examples").join(name);
    assert!(library.exists(), "{} is not built: run `cargo test` without `--test`", library.display());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dlpack.py");
    let output = Command::new(&python).arg(script).arg(&library).output().unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
