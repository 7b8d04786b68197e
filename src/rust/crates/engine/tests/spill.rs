//! Spilling on the cpu device. A process of its own, since values that other tests are computing are in use and stay.

use verdigris_engine::array::transfer::{Host, HostMut};
use verdigris_engine::array::{Array, Operand};
use verdigris_engine::graph::{node, spill};
use verdigris_engine::memory;
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::OpId;

#[test]
fn spilled_values_come_back_when_they_are_needed() {
    let values: Vec<f64> = (0..memory::LARGE / 4).map(|k| k as f64).collect();
    let array = Array::upload(Host::Double(&values), None, Device::Cpu, None).unwrap();
    node::enlist(array.node());
    let doubled =
        Array::apply(OpId::find("add").unwrap(), &[Operand::Array(array.clone()), Operand::Array(array.clone())], None)
            .unwrap();
    let held = array.node().view().unwrap();
    assert!(!node::spill_nodes(Device::Cpu, 1).unwrap(), "a view that someone holds is in use");
    drop(held);
    let used = spill::Used::new();
    array.node().bring().unwrap();
    assert!(!node::spill_nodes(Device::Cpu, 1).unwrap(), "a computation under way has asked for it");
    drop(used);
    assert!(!node::spill_nodes(Device::Cpu, u64::MAX).unwrap());
    assert!(node::spill_nodes(Device::Cpu, 1).unwrap());
    assert!(spill::spilled() >= 8 * values.len() as u64 && array.is_ready() && array.node().view().is_none());
    let mut out = vec![0.0; values.len()];
    doubled.read(0, HostMut::Double(&mut out)).unwrap();
    assert!(out.iter().zip(&values).all(|(a, b)| *a == 2.0 * b));
    array.read(0, HostMut::Double(&mut out)).unwrap();
    assert_eq!(out, values);
}
