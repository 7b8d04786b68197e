//! Entries: matrix products, factorisations and solving. Matrices are flat arrays with extents.

use verdigris_engine::array::linear::{self, Options};
use verdigris_engine::array::many::{many as factor_many, Sides};
use verdigris_engine::array::Array;
use verdigris_engine::backend::dense::{Method, Precision};
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dense::Factoring;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::layout::Axis;

use crate::array::{attributes, convert, handle, host_vector};
use crate::entry;
use crate::r::{self, values, List, SEXP};

/// So many sizes.
fn extents<const N: usize>(x: SEXP) -> Result<[usize; N]> {
    let sizes = values::sizes(x)?;
    sizes.try_into().map_err(|_| Error::new(Kind::Argument, format!("extents are {N} sizes")))
}

/// The precision (0 float32, 1 TF32, 2 bfloat16), and whether the halves of a symmetric product are one (1), are not
/// (0), or as the extents say (2).
fn options(x: SEXP) -> Result<Options> {
    let [precision, halves] = extents(x)?;
    let precision = match precision {
        0 => Precision::Float32,
        1 => Precision::Tf32,
        _ => Precision::BFloat16,
    };
    Ok(chosen(precision, halves))
}

fn chosen(precision: Precision, halves: usize) -> Options {
    Options { precision, halves: (halves < 2).then_some(halves == 1) }
}

/// The array as a matrix. Not protected.
fn matrix(array: Array, rows: usize, columns: usize) -> Result<SEXP> {
    let int =
        |n| i32::try_from(n).map_err(|_| Error::new(Kind::Shape, format!("a matrix cannot have {n} rows or columns")));
    let extents = [int(rows)?, int(columns)?];
    // SAFETY: both vectors are protected while they are made; the product of the extents is the array's length.
    Ok(handle::dressed(array, move |out| unsafe {
        let dim = r::Rf_protect(r::Rf_allocVector(r::SEXPTYPE::INTSXP, 2));
        std::slice::from_raw_parts_mut(r::INTEGER(dim), 2).copy_from_slice(&extents);
        r::Rf_setAttrib(out, r::R_DimSymbol, dim);
        r::Rf_unprotect(1);
        attributes::set_class(out, 2)
    }))
}

fn optional(array: Option<Array>) -> SEXP {
    array.map_or(r::null(), handle::wrap)
}

/// Rows and columns of a matrix without dimnames.
fn plain_extents(x: SEXP) -> Option<[usize; 2]> {
    // SAFETY: reading attributes; a vector's `dim` are integers, its length many.
    unsafe {
        let dim = r::Rf_getAttrib(x, r::R_DimSymbol);
        if r::len(dim) != 2 || !r::is_null(r::Rf_getAttrib(x, r::R_DimNamesSymbol)) {
            return None;
        }
        let dim = std::slice::from_raw_parts(r::INTEGER(dim), 2);
        Some([dim[0] as usize, dim[1] as usize])
    }
}

/// A matrix to be multiplied, as a view where it is transposed, and its extents; None for what else there is.
fn plain_factor(x: SEXP, turned: bool) -> Result<Option<(Array, [usize; 2])>> {
    let (Some(handle), Some([rows, columns])) = (handle::of(x), plain_extents(x)) else { return Ok(None) };
    let array = handle.current()?;
    Ok(Some(match turned {
        true => (array.view(&[rows, columns], &[Axis::whole(1, columns), Axis::whole(0, rows)])?, [columns, rows]),
        false => (array, [rows, columns]),
    }))
}

entry! {
    /// `x %*% y`, `t(x) %*% y` (`turned` 1) or `x %*% t(y)` (2) for what needs no looking into: two matrices on a GPU,
    /// without dimnames and in their own precision. NULL for all else.
    fn product(x, y, turned, halves) {
        // SAFETY: an option's value lives as long as the option.
        if !r::is_null(unsafe { r::Rf_GetOption1(r::symbol(c"verdigris.matmul_precision")) }) {
            return Ok(r::null());
        }
        let (turned, halves) = (values::size(turned, "turned")?, values::size(halves, "halves")?);
        let Some((a, [m, k])) = plain_factor(x, turned == 1)? else { return Ok(r::null()) };
        let Some((b, [rows, n])) = plain_factor(y, turned == 2)? else { return Ok(r::null()) };
        if rows != k || m * k * n == 0 || a.device() == Device::Cpu || a.device() != b.device() {
            return Ok(r::null());
        }
        match linear::multiply(&a, &b, [m, k, n], chosen(Precision::Float32, halves))? {
            Some(out) => matrix(out, m, n),
            None => Ok(r::null()),
        }
    }

    /// The product of two arrays as an m x k and a k x n matrix; NULL where the host's BLAS serves.
    fn multiply(x, y, sizes, choice) {
        let (a, b) = (convert::array(x)?, convert::array(y)?);
        let [m, k, n] = extents(sizes)?;
        if a.len() != m * k || b.len() != k * n {
            return Err(Error::new(Kind::Shape, "non-conformable arguments"));
        }
        match linear::multiply(&a, &b, [m, k, n], options(choice)?)? {
            Some(out) => matrix(out, m, n),
            None => Ok(r::null()),
        }
    }

    /// The products of slices: extents m, k, n, how many, and whether x and y have so many slices (1) or one (0).
    fn multiply_batched(x, y, sizes, choice) {
        let (a, b) = (convert::array(x)?, convert::array(y)?);
        let [m, k, n, count, many_a, many_b] = extents(sizes)?;
        let slices = |many| if many == 1 { count } else { 1 };
        if a.len() != m * k * slices(many_a) || b.len() != k * n * slices(many_b) {
            return Err(Error::new(Kind::Shape, "non-conformable arguments"));
        }
        let many = [many_a == 1, many_b == 1];
        Ok(optional(linear::multiply_batched(&a, &b, [m, k, n], count, many, options(choice)?)?))
    }

    /// list(x, y, z, status) of a batch of small matrices, what there is of them: which of `Factoring::ALL` (from 0),
    /// rows, columns, how many; of right sides their columns, and whether each matrix has its own (1). NULL where the
    /// device has libraries for matrices of this size.
    fn many(x, b, sizes, tol) {
        let [factoring, m, n, count, columns, own] = extents(sizes)?;
        let unknown = || Error::new(Kind::Argument, "no such factoring");
        let factoring = Factoring::ALL.get(factoring).copied().ok_or_else(unknown)?;
        let sides = if r::is_null(b) { None } else { Some(convert::array(b)?) };
        if let Some(b) = &sides {
            let wanted = n * columns * if own == 1 { count } else { 1 };
            if factoring != Factoring::Solve || b.len() != wanted {
                return Err(Error::new(Kind::Shape, format!("{wanted} elements of right sides, not {}", b.len())));
            }
        }
        let sides = sides.as_ref().map(|b| Sides { b, own: own == 1, columns });
        let tol = values::number(tol, "tol")?;
        let Some(batch) = factor_many(factoring, &convert::array(x)?, [m, n], count, sides, tol)? else {
            return Ok(r::null());
        };
        let mut list = List::new(4);
        let mut results = batch.results.into_iter();
        for name in ["x", "y", "z"] {
            list = list.add(name, optional(results.next()));
        }
        Ok(list.add("status", optional(batch.status)).finish())
    }

    /// list(lu, pivots, info) of an n x n matrix.
    fn lu(x, n) {
        let [n] = extents(n)?;
        let (lu, pivots, info) = linear::lu(&convert::array(x)?, n)?;
        Ok(List::new(3)
            .add("lu", handle::wrap(lu))
            .add("pivots", handle::wrap(pivots))
            .add("info", r::real(info.into()))
            .finish())
    }

    /// What solves with `lu`: extents n and the columns of b.
    fn lu_solve(lu, pivots, b, sizes, transpose) {
        let [n, columns] = extents(sizes)?;
        let (lu, pivots, b) = (convert::array(lu)?, convert::array(pivots)?, convert::array(b)?);
        let transpose = values::flag(transpose, "transpose")?;
        Ok(handle::wrap(linear::lu_solve(&lu, &pivots, &b, n, columns, transpose)?))
    }

    /// list(factor, info) of an n x n matrix.
    fn cholesky(x, n) {
        let [n] = extents(n)?;
        let (factor, info) = linear::cholesky(&convert::array(x)?, n)?;
        Ok(List::new(2).add("factor", handle::wrap(factor)).add("info", r::real(info.into())).finish())
    }

    /// What solves with a triangle of r, n x n: extents n and the columns of b.
    fn triangular_solve(r, b, sizes, upper, transpose) {
        let [n, columns] = extents(sizes)?;
        let (upper, transpose) = (values::flag(upper, "upper.tri")?, values::flag(transpose, "transpose")?);
        Ok(handle::wrap(linear::triangular_solve(
            &convert::array(r)?,
            n,
            &convert::array(b)?,
            columns,
            upper,
            transpose,
        )?))
    }

    /// The upper triangle of a matrix of these extents, and zeros.
    fn upper_triangle(x, sizes) {
        let [rows, columns] = extents(sizes)?;
        let x = convert::array(x)?;
        if x.len() != rows * columns {
            return Err(Error::new(Kind::Shape, "extents are not the matrix's"));
        }
        Ok(handle::wrap(linear::upper_triangle(&x, rows, columns)?))
    }

    /// list(qr, parts): LINPACK's form, and a vector of the columns' norms, the diagonal and qraux.
    fn qr(x, sizes) {
        let [m, n] = extents(sizes)?;
        let (form, parts) = linear::qr(&convert::array(x)?, m, n)?;
        Ok(List::new(2).add("qr", handle::wrap(form)).add("parts", host_vector::read(&parts, 0, parts.len())?).finish())
    }

    /// Q y, or t(Q) y: extents m and n of qr, how many reflectors, and the columns of y.
    fn qr_apply(qr, qraux, y, sizes, transpose) {
        let [m, n, k, columns] = extents(sizes)?;
        let (qr, aux, y) = (convert::array(qr)?, convert::array(qraux)?, convert::array(y)?);
        let transpose = values::flag(transpose, "transpose")?;
        Ok(handle::wrap(linear::qr_apply(&qr, &aux, &y, [m, n], k, columns, transpose)?))
    }

    /// list(values, vectors, info), ascending.
    fn eigen_symmetric(x, n, vectors) {
        let [n] = extents(n)?;
        let (values, vectors, info) =
            linear::eigen_symmetric(&convert::array(x)?, n, values::flag(vectors, "vectors")?)?;
        Ok(List::new(3)
            .add("values", handle::wrap(values))
            .add("vectors", optional(vectors))
            .add("info", r::real(info.into()))
            .finish())
    }

    /// list(values, vectors, info): n real parts and n imaginary parts; vectors packed as LAPACK's dgeev does.
    fn eigen_general(x, n, vectors) {
        let [n] = extents(n)?;
        let (values, vectors, info) = linear::eigen_general(&convert::array(x)?, n, values::flag(vectors, "vectors")?)?;
        Ok(List::new(3)
            .add("values", handle::wrap(values))
            .add("vectors", optional(vectors))
            .add("info", r::real(info.into()))
            .finish())
    }

    /// list(d, u, v, transposed, info, moved) of an m x n matrix, m >= n.
    fn svd(x, sizes, vectors, full, polar) {
        let [m, n] = extents(sizes)?;
        let (vectors, full) = (values::flag(vectors, "vectors")?, values::flag(full, "full")?);
        let method = if values::flag(polar, "polar")? { Method::Polar } else { Method::Bidiagonal };
        let out = linear::svd(&convert::array(x)?, [m, n], vectors, full, method)?;
        Ok(List::new(6)
            .add("d", handle::wrap(out.d))
            .add("u", optional(out.u))
            .add("v", optional(out.v))
            .add("transposed", r::logical(out.v_transposed))
            .add("info", r::real(out.info.into()))
            .add("moved", r::real(out.moved))
            .finish())
    }
}
