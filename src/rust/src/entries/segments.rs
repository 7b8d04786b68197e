//! Entries: segments of elements, of which sparse matrices are made. Offsets and positions count from 0.

use verdigris_engine::array::segments::{self, Made, Matrix};
use verdigris_engine::array::Array;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::reduction::Reduction;

use crate::entries::entry::entries;
use crate::entries::linear::matrix;
use crate::r::{List, SEXP};

/// list(p, i, x), or with another name of the last.
fn made(made: Made, last: &'static str) -> List {
    List::new(3).add("p", made.offsets).add("i", made.positions).add(last, made.values)
}

entries! {
    /// The m x columns matrix of sums, over the elements of a segment, of x times the row of b at the position. b has
    /// `sizes`: rows and columns.
    fn segment_products(p: Array, i: Array, x: Option<Array>, b: Array, sizes: [usize; 2]) -> Result<SEXP> {
        let [extent, columns] = sizes;
        let a = Matrix { offsets: &p, positions: &i, values: x.as_ref(), extent };
        matrix(segments::products(&a, &b, columns)?, p.len() - 1, columns)
    }

    /// A value for each segment; sums of int32 and smaller ones as doubles.
    fn segment_reduce(p: Array, x: Array, what: &str, na_rm as "na.rm": bool) -> Result<Array> {
        let reduction = Reduction::ALL.into_iter().find(|reduction| reduction.name() == what && reduction.width() == 1);
        let reduction = reduction.ok_or_else(|| Error::new(Kind::Argument, format!("no reduction is called {what}")))?;
        let out = segments::reduce(&p, &x, reduction, na_rm)?;
        if out.dtype() == DType::Int64 && x.dtype() != DType::Int64 { out.cast(DType::Float64, None) } else { Ok(out) }
    }

    /// The number of each of `n` elements' segment.
    fn segment_expand(p: Array, n: usize) -> Result<Array> {
        segments::expand(&p, n)
    }

    /// list(p, i, order): the elements by position, of which there are `extent`.
    fn segment_transpose(p: Array, i: Array, extent as "nrow": usize) -> Result<List> {
        segments::transpose(&p, &i, extent).map(|turned| made(turned, "order"))
    }

    /// list(p, i, x) of the product of two matrices by columns, of which the first has `sizes`.
    fn segment_multiply(
        pa: Array,
        ia: Array,
        xa: Option<Array>,
        pb: Array,
        ib: Array,
        xb: Option<Array>,
        sizes: [usize; 2],
    ) -> Result<List> {
        let [rows, inner] = sizes;
        let a = Matrix { offsets: &pa, positions: &ia, values: xa.as_ref(), extent: rows };
        let b = Matrix { offsets: &pb, positions: &ib, values: xb.as_ref(), extent: inner };
        segments::multiply(&a, &b).map(|product| made(product, "x"))
    }

    /// For each element the product of rows of a and b, which have `inner` columns.
    fn segment_sampled(p: Array, i: Array, a: Array, b: Array, inner: usize) -> Result<Array> {
        segments::sampled(&p, &i, &a, &b, inner)
    }

    /// What solves a triangular system; b has `sizes`.
    fn segment_solve(
        p: Array,
        i: Array,
        x: Option<Array>,
        b: Array,
        sizes: [usize; 2],
        upper: bool,
        unit: bool,
    ) -> Result<SEXP> {
        let [extent, columns] = sizes;
        let a = Matrix { offsets: &p, positions: &i, values: x.as_ref(), extent };
        matrix(segments::solve(&a, &b, columns, upper, unit)?, extent, columns)
    }
}
