//! Running a known plan allocates nothing on the way to the driver: neither building the plan, nor looking it up, nor
//! filling in its kernel's parameters. A process of its own, since it counts allocations.
#![cfg(not(target_os = "macos"))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use verdigris_engine::array::transfer::Host;
use verdigris_engine::array::{Array, Operand};
use verdigris_engine::backend::cuda::codegen::{parameters, Variant};
use verdigris_engine::backend::cuda::driver::kernel::Packed;
use verdigris_engine::graph::builder::recycle;
use verdigris_engine::memory::buffer::Device;
use verdigris_engine::plan::{Mix, Plan};
use verdigris_ops::dtype::Kind;
use verdigris_ops::scalar::Scalar;
use verdigris_ops::OpId;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(body: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    body();
    COUNT.get() - before
}

fn apply(name: &str, operands: &[Operand]) -> Array {
    Array::apply(OpId::find(name).expect("a row"), operands, None).expect("recorded")
}

#[test]
fn a_known_plan_is_found_and_its_parameters_filled_in_without_memory() {
    let array = |v: &[f64]| Array::upload(Host::Double(v), None, Device::Cpu, None).expect("an upload");
    let (x, y) = (array(&[1.0, 2.0, 3.0]), array(&[4.0, 5.0, 6.0]));
    let sum = apply("add", &[Operand::Array(x.clone()), Operand::Array(y)]);
    let root = apply("mul", &[Operand::Array(sum), Operand::Value(Scalar::F64(2.0), Kind::Double)]);
    let root = apply("sub", &[Operand::Array(root), Operand::Array(x)]);
    let mut known: HashMap<Plan, usize, BuildHasherDefault<Mix>> = HashMap::default();
    known.insert(root.plan().expect("a plan").0, 7);
    let once = || {
        let (plan, bound) = root.plan().expect("a plan");
        assert_eq!(known.get(&plan), Some(&7));
        let outputs = [1 << 20];
        let fit: (Variant, u32) = parameters::fit(&plan, &bound, 2, &outputs);
        let mut params = Packed::default();
        parameters::pack(&mut params, &plan, &bound, fit, &outputs, (0, 0)).expect("it fits");
        // n, two words of flags, what is packed, an output, two inputs, a number
        assert_eq!(params.bytes().len(), 64);
        recycle(plan, bound);
    };
    once();
    assert_eq!(allocations(once), 0);
    assert!(allocations(|| drop(std::hint::black_box(vec![1u8; 100]))) == 1);
}
