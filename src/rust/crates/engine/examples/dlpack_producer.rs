//! A small shared library that exports arrays by DLPack, for `tests/dlpack.py`: numpy reads them in one process.
//!
//! `verdigris_example(kind, versioned)` returns a managed tensor; `verdigris_alive()` counts the buffers in use.

use std::ffi::{c_int, c_void};
use std::sync::Mutex;

use verdigris_engine::array::transfer::Host;
use verdigris_engine::array::Array;
use verdigris_engine::backend;
use verdigris_engine::interop::dlpack::{self, Copying, Raw};
use verdigris_engine::memory::buffer::{Buffer, Device, View};
use verdigris_ops::dtype::DType;
use verdigris_ops::layout::Axis;

fn counted(n: usize) -> Array {
    let x: Vec<f64> = (0..n).map(|i| i as f64).collect();
    Array::upload(Host::Double(&x), None, Device::Cpu, None).expect("host memory")
}

/// 0: doubles 0 to 5 as 2 x 3. 1: its transpose, a view. 2: 1, 3, 5 of it, reversed. 3: one number, 0-d.
/// 4: none, 0 x 3. 5: TRUE, FALSE. 10 + k: the kth dtype, 1 to 3.
fn example(kind: c_int) -> (Array, Vec<usize>) {
    let x = counted(6);
    match kind {
        0 => (x, vec![2, 3]),
        1 => (x.view(&[2, 3], &[Axis::whole(1, 3), Axis::whole(0, 2)]).expect("a view"), vec![3, 2]),
        2 => (x.view(&[6], &[Axis { of: 0, start: 5, step: -2, extent: 3 }]).expect("a view"), vec![3]),
        3 => (counted(1), vec![]),
        4 => (counted(0), vec![0, 3]),
        5 => (Array::upload(Host::Logical(&[1, 0]), None, Device::Cpu, None).expect("host memory"), vec![2]),
        k => {
            let dtype = DType::ALL[(k - 10) as usize];
            (Array::upload(Host::Integer(&[1, 2, 3]), Some(dtype), Device::Cpu, None).expect("host memory"), vec![3])
        }
    }
}

#[no_mangle]
pub extern "C" fn verdigris_example(kind: c_int, versioned: c_int) -> *mut c_void {
    let (array, dim) = example(kind);
    dlpack::export(&array, &dim, versioned != 0, None).map_or(std::ptr::null_mut(), Raw::pointer)
}

#[no_mangle]
pub extern "C" fn verdigris_alive() -> u64 {
    backend::of(Device::Cpu).and_then(|b| b.memory()).map_or(0, |m| m.live)
}

static IMPORTED: Mutex<Option<(Array, Vec<usize>)>> = Mutex::new(None);

/// Imports a tensor and keeps it; 0 where it is refused, and then the caller still owns it.
///
/// # Safety
/// A managed tensor of the form that `versioned` says.
#[no_mangle]
pub unsafe extern "C" fn verdigris_import(tensor: *mut c_void, versioned: c_int) -> c_int {
    let raw = if versioned != 0 { Raw::Versioned(tensor.cast()) } else { Raw::Legacy(tensor.cast()) };
    // SAFETY: the caller's promise.
    match unsafe { dlpack::import(raw, Copying::Never) } {
        Ok(imported) => {
            *IMPORTED.lock().expect("one thread") = Some(imported);
            1
        }
        Err(error) => {
            eprintln!("{error}");
            0
        }
    }
}

/// The element at a row-major index of the imported array, as a number.
///
/// # Safety
/// The index has as many numbers as the array has dimensions.
#[no_mangle]
pub unsafe extern "C" fn verdigris_element(index: *const i64) -> f64 {
    let imported = IMPORTED.lock().expect("one thread");
    let (array, dim) = imported.as_ref().expect("something imported");
    let (mut at, mut step) = (0, 1);
    for (k, &extent) in dim.iter().enumerate() {
        // SAFETY: the caller's promise.
        at += unsafe { *index.add(k) } as usize * step;
        step *= extent;
    }
    let View { buffer, layout, .. } = array.evaluate().expect("it is computed");
    let offset = layout.offset_of(at) * array.dtype().size();
    read(&buffer, offset, array.dtype())
}

fn read(buffer: &Buffer, offset: usize, dtype: DType) -> f64 {
    let address = (buffer.address as usize + offset) as *const u8;
    // SAFETY: an element of the imported memory, which the producer keeps alive.
    unsafe {
        match dtype {
            DType::Float64 => address.cast::<f64>().read(),
            DType::Float32 => address.cast::<f32>().read().into(),
            DType::Int32 => address.cast::<i32>().read().into(),
            DType::Bool8 => address.read().into(),
            other => panic!("the example does not read {other}"),
        }
    }
}

/// Lets go of what was imported.
#[no_mangle]
pub extern "C" fn verdigris_release() {
    IMPORTED.lock().expect("one thread").take();
}
