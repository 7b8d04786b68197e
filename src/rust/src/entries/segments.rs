//! Entries: segments of elements, the building blocks of sparse matrices (CSR, CSC). Segment k has the elements from
//! `p[k]` to `p[k + 1] - 1`; `i` has their positions. Offsets and positions are 0-based.

use verdigris_engine::array::segments::{self, Made, Matrix};
use verdigris_engine::array::Array;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::reduction::Reduction;

use crate::array::handle;
use crate::entries::entry::entries;
use crate::r::{List, SEXP};

/// list(p, i, x); `last` is the name of the third element.
fn made(made: Made, last: &'static str) -> List {
    List::new(3).add("p", made.offsets).add("i", made.positions).add(last, made.values)
}

entries! {
    /// The matrix with a row for each segment: the sum over its elements of x times the row of b at position i.
    /// `sizes`: rows and columns of b.
    fn segment_products(p: Array, i: Array, x: Option<Array>, b: Array, sizes: [usize; 2]) -> Result<SEXP> {
        let [extent, columns] = sizes;
        let a = Matrix { offsets: &p, positions: &i, values: x.as_ref(), extent };
        handle::new_of_dim(segments::products(&a, &b, columns)?, &[p.len() - 1, columns])
    }

    /// Reduces each segment to a value. Sums of integers are doubles, those of int64 are int64.
    fn segment_reduce(p: Array, x: Array, what: &str, na_rm as "na.rm": bool) -> Result<Array> {
        let reduction = Reduction::ALL.into_iter().find(|reduction| reduction.name() == what && reduction.width() == 1);
        let reduction = reduction.ok_or_else(|| Error::new(Kind::Argument, format!("no reduction is called {what}")))?;
        let out = segments::reduce(&p, &x, reduction, na_rm)?;
        if out.dtype() == DType::Int64 && x.dtype() != DType::Int64 { out.cast(DType::Float64, None) } else { Ok(out) }
    }

    /// For each of `n` elements, the number of its segment.
    fn segment_expand(p: Array, n: usize) -> Result<Array> {
        segments::expand(&p, n)
    }

    /// list(p, i, order): the transpose, with a segment for each of `nrow` positions. `order`: where each element was.
    fn segment_transpose(p: Array, i: Array, extent as "nrow": usize) -> Result<List> {
        segments::transpose(&p, &i, extent).map(|turned| made(turned, "order"))
    }

    /// list(p, i, x): the product of two matrices that are stored by columns. `sizes`: rows and columns of the first.
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

    /// For each element, the inner product of a row of a (its position) and a row of b (its segment). `inner`: their
    /// columns.
    fn segment_sampled(p: Array, i: Array, a: Array, b: Array, inner: usize) -> Result<Array> {
        segments::sampled(&p, &i, &a, &b, inner)
    }

    /// Solves a triangular system. `sizes`: rows and columns of b. `unit`: the diagonal counts as ones.
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
        handle::new_of_dim(segments::solve(&a, &b, columns, upper, unit)?, &[extent, columns])
    }
}
