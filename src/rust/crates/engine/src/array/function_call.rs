//! Calls of compiled R functions (routines) on arrays, recorded as nodes of the graph.

use std::sync::Arc;

use crate::array::evaluate_all;
use crate::array::{reads_volatile, Array, Operand};
use crate::graph::evaluate::holds_much;
use crate::graph::node::{Arg, Args, Expr, Node, Operation};
use crate::memory;
use crate::memory::buffer::Device;
use verdigris_compile::{Interned, Routine, Source};
use verdigris_ops::call_site::CallSite;
use verdigris_ops::dtype::natural_dtype;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::scalar::Scalar;

/// An argument of a call, or a value that the R function captured.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    pub operand: &'a Operand,
    /// The operand's `dim`; may be empty for a vector.
    pub dim: &'a [usize],
}

/// Records `n` runs of an interned routine; returns an array for each of its results. Arguments are cast to the
/// parameters' types and recycled; tables are computed and made contiguous. `key` is the key of random draws, and
/// required if the routine draws. Warnings and failures are reported at the call site when values are computed.
///
/// # Errors
/// `Shape` where a parameter has more than `n` elements, or none and `n` is not 0; `Device` where an array is on
/// another device; those of computing tables.
pub fn call(
    routine: &'static Routine,
    given: &[Given],
    key: Option<i64>,
    n: usize,
    device: Device,
    site: Option<CallSite>,
) -> Result<Vec<Array>> {
    crate::backend::of(device)?;
    if n == 0 {
        return routine.results.iter().map(|&(_, dtype)| Array::filled(dtype, 0, device)).collect();
    }
    let mut args = Args::new();
    for parameter in &routine.parameters {
        let whole = |x: usize| match i32::try_from(x) {
            Err(_) if parameter.dtype == DType::Int32 => {
                let message = format!("the function reads a length, but {x} is beyond R's integers");
                Err(Error::new(Kind::Shape, message).advise("Pass the length as a number."))
            }
            _ => Ok(Arg::Scalar(Scalar::I64(x as i64).to(parameter.dtype.class()))),
        };
        args.push(match parameter.source {
            Source::Given(k) => argument(given[k as usize].operand, parameter.dtype, n, device)?,
            Source::Key => Arg::Scalar(Scalar::I64(key.expect("a routine that draws is given a key"))),
            Source::Length(table) => whole(given[routine.tables[table as usize].given as usize].operand.extent())?,
            Source::Extent(table, axis) => {
                let Given { operand, dim } = given[routine.tables[table as usize].given as usize];
                whole(dim.get(axis as usize).copied().unwrap_or(if axis == 0 { operand.extent() } else { 1 }))?
            }
        });
    }
    let mut read = 0;
    for table in &routine.tables {
        let source = whole_table(given[table.given as usize].operand, table.dtype, device)?;
        read += source.len() * table.dtype.size();
        args.push(Arg::Node(source.node().clone()));
    }
    let at_once = reads_volatile(&args);
    let bytes: usize = routine.results.iter().map(|(_, dtype)| n * dtype.size()).sum();
    let site = site.filter(|_| routine.is_noted() || bytes >= memory::LARGE);
    let first = routine.results[0].1;
    let expr = Expr { op: Operation::Call(Interned(routine)), class: first.class(), args, site: site.clone() };
    let call = Array::recorded(first, n, device, expr)?;
    let of = |(k, &(register, dtype)): (usize, &(verdigris_compile::Register, DType))| {
        let class = routine.registers[register as usize];
        debug_assert_eq!(class, dtype.class(), "a result is stored from a register of its class");
        let op = Operation::Result(k as u8);
        let expr = Expr { op, class, args: Args::of(call.node()), site: site.clone() };
        Arc::new(Node::lazy(dtype, n, device, expr).with_leaves(call.node().cost.leaves))
    };
    let results: Vec<Arc<Node>> = routine.results.iter().enumerate().map(of).collect();
    call.node().give_results(&results);
    let results: Vec<Array> = results.into_iter().map(Array::of).collect();
    if at_once || holds_much(read, bytes) {
        evaluate_all(&results)?;
    }
    Ok(results)
}

fn refuse_elsewhere(array: &Array, device: Device) -> Result<()> {
    if array.device() == device {
        return Ok(());
    }
    let message = format!("the function runs on {device}, but an array that it reads is on {}", array.device());
    Err(Error::new(Kind::Device, message).advise(format!("Move it with `as_gpu(x, device = \"{device}\")`.")))
}

/// The operand of a recorded call for one parameter, cast to the parameter's dtype.
fn argument(operand: &Operand, dtype: DType, n: usize, device: Device) -> Result<Arg> {
    match operand {
        Operand::Value(scalar, _) if dtype == DType::Bool8 => Ok(Arg::Scalar(scalar.to_logical())),
        Operand::Value(scalar, _) => Ok(Arg::Scalar(scalar.to(dtype.class()))),
        Operand::Array(array) | Operand::Vector(array, _) => {
            refuse_elsewhere(array, device)?;
            if array.len() > n || array.is_empty() {
                let message = format!("an argument has {} elements, but the result has {n}", array.len());
                return Err(Error::new(Kind::Shape, message).advise("Give arguments that can be recycled."));
            }
            Ok(Arg::Node(array.cast(dtype, None)?.node().clone()))
        }
    }
}

/// A table as a contiguous array. An empty table gets one element that no position selects, because kernels may read an
/// element before they check the position.
fn whole_table(operand: &Operand, dtype: DType, device: Device) -> Result<Array> {
    match operand {
        Operand::Value(scalar, _) => {
            let scalar = scalar.to(dtype.class());
            let array = Array::full(scalar, natural_dtype(dtype.class()), 1, device)?.cast(dtype, None)?;
            array.contiguous_array()
        }
        Operand::Array(array) | Operand::Vector(array, _) if array.is_empty() => {
            refuse_elsewhere(array, device)?;
            Array::filled(dtype, 1, device)?.contiguous_array()
        }
        Operand::Array(array) | Operand::Vector(array, _) => {
            refuse_elsewhere(array, device)?;
            array.cast(dtype, None)?.contiguous_array()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::explain::explain;
    use crate::plan::{Access, Instruction};
    use crate::testing::array;
    use verdigris_compile::{intern, Failure, Operand as From, Parameter, Statement, Table};
    use verdigris_ops::dtype::{Class, Kind as RKind};
    use verdigris_ops::id;

    /// Returns the sum and the difference of two numbers, and an element of a table; may fail.
    fn routine() -> &'static Routine {
        let number = |k: u16, source| Parameter { register: k, source, dtype: DType::Float64 };
        let apply = |to, op, a, b| Statement::Apply {
            to,
            op,
            class: Class::F64,
            args: vec![From::Register(a), From::Register(b)],
        };
        intern(Routine {
            name: "both".into(),
            registers: vec![Class::F64, Class::F64, Class::F64, Class::F64, Class::I64],
            names: vec![String::new(); 5],
            parameters: vec![
                number(0, Source::Given(0)),
                number(1, Source::Given(1)),
                Parameter { register: 4, source: Source::Length(0), dtype: DType::Int64 },
            ],
            tables: vec![Table { given: 2, dtype: DType::Float64, name: "v".into() }],
            body: vec![apply(2, id::ADD, 0, 1), apply(3, id::SUB, 0, 1)],
            results: vec![(2, DType::Float64), (3, DType::Float64)],
            failures: vec![Failure { message: "no".into(), ..Failure::default() }],
            ..Routine::default()
        })
    }

    fn called(x: &Array) -> Vec<Array> {
        let (x, v) = (Operand::Array(x.clone()), Operand::Array(array(&[7.0; 5])));
        let y = Operand::Value(Scalar::I32(2), RKind::Integer);
        let given = [&x, &y, &v].map(|operand| Given { operand, dim: &[] });
        call(routine(), &given, None, 3, Device::Cpu, None).expect("recorded")
    }

    #[test]
    fn equal_routines_are_one() {
        assert!(std::ptr::eq(routine(), routine()));
    }

    #[test]
    fn results_of_a_call_share_it() {
        let results = called(&array(&[1.0, 2.0, 3.0]));
        let sum =
            crate::testing::apply("mul", &[Operand::Array(results[0].clone()), Operand::Array(results[1].clone())]);
        let (plan, bound) = sum.plan().expect("a plan");
        let calls = plan.code.iter().filter(|i| matches!(i, Instruction::Call(_))).count();
        assert_eq!((calls, plan.calls(), bound.sites.len()), (1, true, 1));
        assert_eq!(plan.inputs.iter().map(|i| i.access).collect::<Vec<_>>(), [Access::Linear, Access::Gathered]);
        assert_eq!(bound.scalars, [Scalar::F64(2.0), Scalar::I64(5)]);
        let plan_of = |y: f64| {
            let (x, v) = (Operand::Array(array(&[1.0, 2.0, 3.0])), Operand::Array(array(&[7.0; 5])));
            let y = Operand::Value(Scalar::F64(y), RKind::Double);
            let given = [&x, &y, &v].map(|operand| Given { operand, dim: &[] });
            let second =
                call(routine(), &given, None, 3, Device::Cpu, None).expect("recorded").pop().expect("two results");
            second.plan().expect("a plan").0
        };
        // Scalars are kernel arguments, so plans with different scalars are equal.
        assert_eq!((plan_of(1.0).key(), plan_of(1.0)), (plan_of(2.0).key(), plan_of(2.0)));
    }

    #[test]
    fn what_else_comes_of_a_call_is_stored_with_it() {
        let results = called(&array(&[1.0, 2.0, 3.0]));
        let written = |array: &Array| explain(array).iter().map(|kernel| kernel.writes.len()).collect::<Vec<_>>();
        assert_eq!(written(&results[0]), [2]);
        assert_eq!(explain(&results[0])[0].code, ["y <- both(x1, 2, x2)[[1]]", "y2 <- both(x1, 2, x2)[[2]]"]);
        let twice = crate::testing::twice(&results[0]);
        assert_eq!(written(&twice), [2]);
        let [first, second] = <[Array; 2]>::try_from(results).ok().expect("two results");
        drop(second);
        assert_eq!(written(&first), [1]);
    }

    #[test]
    fn arguments_must_be_recyclable_and_near() {
        let x = Operand::Array(array(&[1.0; 4]));
        let given = [Given { operand: &x, dim: &[] }; 3];
        let refused = call(routine(), &given, None, 3, Device::Cpu, None).err().expect("too long");
        assert_eq!(refused.kind, Kind::Shape);
        let none = call(routine(), &given, None, 0, Device::Cpu, None).expect("recorded");
        assert_eq!(none.iter().map(Array::len).collect::<Vec<_>>(), [0, 0]);
    }
}
