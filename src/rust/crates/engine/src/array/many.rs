//! Batches of small matrices by this package's own code: `kernels/dense.h`.

use crate::array::linear::factor_dtype;
use crate::array::{common_device, Array, Operand};
use crate::backend;
use crate::backend::dense::{real, BatchedFactoring};
use crate::memory::buffer::View;
use verdigris_ops::dense::Factoring;
use verdigris_ops::dtype::{DType, Kind};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};

/// The results of a batch.
pub struct Batch {
    /// The results listed by the `Factoring`, each with the matrices of the batch one after the other.
    pub results: Vec<Array>,
    /// An int32 for each matrix, 0 on success: LAPACK's `info`, or a status described in `dense.h`. None if all are 0.
    pub status: Option<Array>,
}

/// Right-hand sides: separate ones for each matrix if `per_matrix`, else the same for all.
pub struct Sides<'a> {
    pub b: &'a Array,
    pub per_matrix: bool,
    pub columns: usize,
}

/// Runs the same factoring on each of `count` matrices (`m × n`, one after the other in `x`). Returns None if the
/// device leaves matrices of this size to libraries. Singular values require `m >= n`. For `Factoring::Solve`, a
/// reciprocal condition number below `tol` is a failure.
pub fn many(
    factoring: Factoring,
    x: &Array,
    [m, n]: [usize; 2],
    count: usize,
    sides: Option<Sides<'_>>,
    tol: f64,
) -> Result<Option<Batch>> {
    let shape = |what: String| Error::new(ErrorKind::Shape, what);
    if m * n * count == 0 || x.len() != m * n * count {
        return Err(shape(format!("{count} matrices of {m} x {n} were given {} elements", x.len())));
    }
    let device = match &sides {
        Some(sides) => common_device(&[Operand::Array(x.clone()), Operand::Array(sides.b.clone())])?,
        None => x.device(),
    };
    let backend = backend::of(device)?;
    let mut dtype = factor_dtype(x.dtype());
    if let Some(sides) = sides.as_ref().filter(|sides| sides.b.dtype().kind() == Kind::Complex) {
        dtype = match (dtype.kind() == Kind::Complex, sides.b.dtype(), dtype) {
            (true, ..) => dtype,
            (_, DType::Complex64, DType::Float32) => DType::Complex64,
            _ => DType::Complex128,
        };
    }
    if !backend.serves_batch(factoring, m, n) || count > i32::MAX as usize || !factoring.serves(dtype.class()) {
        return Ok(None);
    }
    let a = x.cast(dtype, None)?.contiguous()?;
    let b = sides.as_ref().map(|sides| sides.b.cast(dtype, None)?.contiguous()).transpose()?;
    let columns = sides.as_ref().map_or(n, |sides| sides.columns);
    if columns == 0 {
        return Err(shape("a system without right sides".into()));
    }
    let k = m.min(n);
    let results: Vec<(usize, DType)> = match factoring {
        Factoring::Cholesky => vec![(n * n, dtype)],
        Factoring::Solve => vec![(n * columns, dtype)],
        Factoring::Qr => vec![(m * k, dtype), (k * n, dtype)],
        Factoring::Symmetric => vec![(n, real(dtype)), (n * n, dtype)],
        Factoring::Singular => vec![(n, real(dtype)), (m * n, dtype), (n * n, dtype)],
    };
    let outputs = results.iter().map(|(elements, dtype)| backend.allocate(elements * count * dtype.size()));
    let outputs = outputs.collect::<Result<Vec<_>>>()?;
    let status = backend.allocate(count * 4)?;
    let failed = backend.factor_batch(&BatchedFactoring {
        factoring,
        count,
        m,
        n,
        a: &a,
        b: b.as_ref().zip(sides.as_ref()).map(|(view, sides)| (view, sides.per_matrix)),
        columns,
        outputs: &outputs,
        status: &status,
        tol: if dtype.kind() == Kind::Complex { 0.0 } else { tol },
    })?;
    let array = |buffer, dtype, elements| Array::from_view(View::contiguous(buffer, dtype, elements));
    let results = outputs.into_iter().zip(results);
    Ok(Some(Batch {
        results: results.map(|(buffer, (elements, dtype))| array(buffer, dtype, elements * count)).collect(),
        status: failed.map(|_| array(status, DType::Int32, count)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::transfer::{Host, HostMut};
    use crate::memory::buffer::Device;

    fn array(values: &[f64]) -> Array {
        Array::upload(Host::Double(values), None, Device::Cpu, None).unwrap()
    }

    fn values(x: &Array) -> Vec<f64> {
        let mut out = vec![0.0; x.len()];
        x.cast(DType::Float64, None).unwrap().read(0, HostMut::Double(&mut out)).unwrap();
        out
    }

    #[test]
    fn a_failure_is_that_of_its_matrix() {
        let x = array(&[4.0, 0.0, 2.0, 3.0, 1.0, 7.0, 1.0, 1.0, 1.0, 0.0, 2.0, 1.0]);
        let batch = many(Factoring::Cholesky, &x, [2, 2], 3, None, 0.0).unwrap().unwrap();
        assert_eq!(values(&batch.results[0])[..4], [2.0, 0.0, 1.0, 2f64.sqrt()]);
        // the second matrix has a leading minor of 0, the third a negative one
        assert_eq!(values(&batch.status.unwrap()), [0.0, 2.0, 2.0]);
    }

    #[test]
    fn right_sides_are_for_all_or_for_each() {
        let x = array(&[2.0, 0.0, 0.0, 4.0, 1.0, 0.0, 1.0, 1.0]);
        let b = array(&[2.0, 4.0, 1.0, 3.0]);
        let solved = |own, count, columns| {
            let x = if count == 2 { x.clone() } else { array(&[2.0, 0.0, 0.0, 4.0]) };
            let sides = Sides { b: &b, per_matrix: own, columns };
            many(Factoring::Solve, &x, [2, 2], count, Some(sides), 1e-16).unwrap().unwrap()
        };
        assert_eq!(values(&solved(true, 2, 1).results[0]), [1.0, 1.0, -2.0, 3.0]);
        assert_eq!(values(&solved(false, 1, 2).results[0]), [1.0, 1.0, 0.5, 0.75]);
        let inverse = many(Factoring::Solve, &x, [2, 2], 2, None, 0.0).unwrap().unwrap();
        assert_eq!(values(&inverse.results[0]), [0.5, 0.0, 0.0, 0.25, 1.0, 0.0, -1.0, 1.0]);
    }

    #[test]
    fn other_sizes_are_refused() {
        let x = array(&[1.0; 8]);
        assert!(many(Factoring::Cholesky, &x, [2, 2], 3, None, 0.0).is_err());
        assert!(many(Factoring::Symmetric, &x, [4, 2], 1, None, 0.0).is_err());
        assert!(many(Factoring::Singular, &x, [2, 4], 1, None, 0.0).is_err());
        let sides = Sides { b: &array(&[1.0; 3]), per_matrix: false, columns: 1 };
        assert!(many(Factoring::Solve, &x, [2, 2], 2, Some(sides), 0.0).is_err());
        assert!(many(Factoring::Cholesky, &array(&[1.0; 65 * 65]), [65, 65], 1, None, 0.0).unwrap().is_none());
    }
}
