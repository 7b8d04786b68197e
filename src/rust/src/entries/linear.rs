//! Entries: matrix products, factorisations and solves. Matrices are flat arrays with extents.

use verdigris_engine::array::gram;
use verdigris_engine::array::linear::{self, Options};
use verdigris_engine::array::many::{many as factor_many, Sides};
use verdigris_engine::array::weighted_gram::{Recorded, WeightedGram};
use verdigris_engine::array::Array;
use verdigris_engine::backend::cpu::blas::{self, Blas};
use verdigris_engine::backend::dense::{Method, Precision};
use verdigris_engine::memory::buffer::Device;
use verdigris_engine::memory::fallible;
use verdigris_ops::dense::Factoring;
use verdigris_ops::dtype::{DType, Kind};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::layout::Axis;
use verdigris_ops::rule::{promote, Typed};

use crate::array::{attributes, convert, handle, host_vector};
use crate::entries::entry::entries;
use crate::entries::module::{pointed, pointer, Pointed};
use crate::r::typed::FromR;
use crate::r::{self, options, values, List, SEXP};

/// Options of a product: the precision that float32 factors may be rounded to, by option `verdigris.matmul_precision`;
/// and whether a matrix times its own transpose is computed as one triangle (syrk). `halves`: 1 yes, 0 no, 2 by
/// extents.
fn product_options(halves: usize) -> Result<Options> {
    let name = c"verdigris.matmul_precision";
    let expected = "\"float32\", \"tf32\" or \"bfloat16\"";
    let precision = match options::string(name, expected)? {
        None | Some("float32") => Precision::Float32,
        Some("tf32") => Precision::Tf32,
        Some("bfloat16") => Precision::BFloat16,
        Some(_) => return Err(options::refused(name, expected, options::option(name))),
    };
    Ok(Options { precision, halves: (halves < 2).then_some(halves == 1) })
}

/// The shape of a factor of a product.
#[derive(Clone, Copy)]
enum Shape {
    Vector(usize),
    Matrix([usize; 2]),
}

impl Shape {
    /// `None` if x has dimensions, but not two.
    fn of(x: SEXP) -> Result<Option<Shape>> {
        Ok(match attributes::dim(x)?.as_deref() {
            None => Some(Shape::Vector(r::len(x))),
            Some(&[rows, columns]) => Some(Shape::Matrix([rows, columns])),
            Some(_) => None,
        })
    }

    /// The shape of the transpose; vectors are unchanged.
    fn turned(self, turned: bool) -> Shape {
        match self {
            Shape::Matrix([rows, columns]) if turned => Shape::Matrix([columns, rows]),
            shape => shape,
        }
    }
}

/// Rows, inner extent and columns of a product; a vector is taken as the row or column that conforms. `None` leaves it
/// to base R: vectors that conform as both, and extents that are 0 or do not conform.
fn conforming(x: Shape, y: Shape, turned: [bool; 2]) -> Option<[usize; 3]> {
    let ([m, k], [rows, n]) = match (x.turned(turned[0]), y.turned(turned[1])) {
        (Shape::Matrix(dx), Shape::Matrix(dy)) => (dx, dy),
        (Shape::Vector(nx), Shape::Vector(ny)) if turned[1] => ([nx, 1], [1, ny]),
        (Shape::Vector(nx), Shape::Vector(ny)) => ([1, nx], [ny, 1]),
        (Shape::Vector(nx), Shape::Matrix(dy)) if dy[0] == nx => ([1, nx], dy),
        // tcrossprod() of a matrix and a vector depends on R's version
        (Shape::Matrix(dx), Shape::Vector(ny)) if dx[1] == ny && !turned[1] => (dx, [ny, 1]),
        _ => return None,
    };
    (k == rows && m * k * n > 0).then_some([m, k, n])
}

/// Whether x can be a factor of a product: an array, or numbers without a class.
fn is_factor(x: SEXP, array: Option<&Array>) -> bool {
    // SAFETY: reading a flag.
    array.is_some() || unsafe { r::Rf_isObject(x) } == r::Rboolean::FALSE && values::kind(x).is_some()
}

/// The elements of a factor; a view if it is transposed. The array is evaluated before, since a view of a recorded
/// array would be computed by itself, once for each product. R's doubles and complex numbers take the other factor's
/// width, as with operators.
fn factor(x: SEXP, array: Option<Array>, like: &Array, shape: Shape, turned: bool) -> Result<Array> {
    let array = match array {
        Some(array) => array,
        None => {
            let kind = values::kind(x).filter(|kind| *kind >= Kind::Double);
            let dtype = kind.map(|kind| promote(&[Typed::Array(like.dtype()), Typed::Value(kind)]));
            convert::upload(x, dtype, like.device(), None)?
        }
    };
    match shape {
        Shape::Matrix([rows, columns]) if turned => {
            array.evaluate()?;
            array.view(&[rows, columns], &[Axis::whole(1, columns), Axis::whole(0, rows)])
        }
        _ => Ok(array),
    }
}

/// Passes the functions of R's BLAS to the engine. Called when the package is loaded.
#[no_mangle]
extern "C" fn vg_register_blas(gemm: blas::Gemm, gemv: blas::Gemv, syrk: blas::Syrk) {
    blas::register(Blas { gemm, gemv, syrk });
}

/// The arrays of a list of columns; `None` for NULL, which means a column of ones.
fn optional(columns: Vec<SEXP>) -> Result<Vec<Option<Array>>> {
    let mut out = fallible::with_capacity(columns.len())?;
    for column in columns {
        out.push(Option::<Array>::from_r(column, "columns")?);
    }
    Ok(out)
}

impl Pointed for WeightedGram {
    fn tag() -> SEXP {
        r::known_symbol!(c"verdigris_weighted_gram")
    }
}

/// The entry `product`.
fn multiplied(x: SEXP, y: SEXP, turned: usize, halves: usize) -> Result<Option<SEXP>> {
    let turned = [turned == 1, turned == 2];
    let (a, b) = (convert::array_or_none(x)?, convert::array_or_none(y)?);
    let Some(like) = a.clone().or_else(|| b.clone()) else { return Ok(None) };
    let (Some(dx), Some(dy)) = (Shape::of(x)?, Shape::of(y)?) else { return Ok(None) };
    let Some([m, k, n]) = conforming(dx, dy, turned) else { return Ok(None) };
    // base R warns of int64 that doubles cannot represent
    let is_int64 =
        |x: &Option<Array>| x.as_ref().is_some_and(|x| x.device() == Device::Cpu && x.dtype() == DType::Int64);
    if !is_factor(x, a.as_ref()) || !is_factor(y, b.as_ref()) || is_int64(&a) || is_int64(&b) {
        return Ok(None);
    }
    let options = product_options(halves)?;
    let (a, b) = (factor(x, a, &like, dx, turned[0])?, factor(y, b, &like, dy, turned[1])?);
    linear::multiply(&a, &b, [m, k, n], options)?.map(|out| handle::new_of_dim(out, &[m, n])).transpose()
}

entries! {
    /// `x %*% y` (`turned` 0), `t(x) %*% y` (1) or `x %*% t(y)` (2), without dimnames; NULL if base R must compute it.
    fn product(x: SEXP, y: SEXP, turned: usize, halves: usize) -> Result<Option<SEXP>> {
        multiplied(x, y, turned, halves)
    }

    /// As `product`, for arrays without dimnames; `y` may be NULL, for x, in products with a transpose. NULL for all
    /// other factors, which are left to R.
    fn product_unnamed(x: SEXP, y: SEXP, turned: usize, halves: usize) -> Result<Option<SEXP>> {
        let y = if r::is_null(y) && turned != 0 { x } else { y };
        let is_unnamed_array = |x| handle::is_array(x) && !attributes::has_dimnames(x);
        if !is_unnamed_array(x) || !is_unnamed_array(y) {
            return Ok(None);
        }
        multiplied(x, y, turned, halves)
    }

    /// Batched products. `sizes`: m, k, n; the number of slices; whether x, and y, have that many slices (1) or one
    /// (0).
    fn multiply_batched(x: Array, y: Array, sizes: [usize; 6], halves: usize) -> Result<Option<Array>> {
        let [m, k, n, count, many_x, many_y] = sizes;
        let slices = |many| if many == 1 { count } else { 1 };
        if x.len() != m * k * slices(many_x) || y.len() != k * n * slices(many_y) {
            return Err(Error::new(ErrorKind::Shape, "non-conformable arguments"));
        }
        linear::multiply_batched(&x, &y, [m, k, n], count, [many_x == 1, many_y == 1], product_options(halves)?)
    }

    /// list(x, y, z, status), the results of factorising a batch of small matrices; NULL for those that the method does
    /// not have. `sizes`: the index in `Factoring::ALL` (from 0); rows, columns, number of matrices; columns of the
    /// right-hand sides, and whether each matrix has its own (1). NULL if the device leaves this size to its libraries.
    fn many(x: Array, b: Option<Array>, sizes: [usize; 6], tol: f64) -> Result<Option<List>> {
        let [factoring, m, n, count, columns, own] = sizes;
        let unknown = || Error::new(ErrorKind::Argument, "no such factoring");
        let factoring = Factoring::ALL.get(factoring).copied().ok_or_else(unknown)?;
        if let Some(b) = &b {
            let wanted = n * columns * if own == 1 { count } else { 1 };
            if factoring != Factoring::Solve || b.len() != wanted {
                return Err(Error::new(ErrorKind::Shape, format!("{wanted} elements of right sides, not {}", b.len())));
            }
        }
        let sides = b.as_ref().map(|b| Sides { b, per_matrix: own == 1, columns });
        let Some(batch) = factor_many(factoring, &x, [m, n], count, sides, tol)? else { return Ok(None) };
        let mut results = batch.results.into_iter();
        let list = ["x", "y", "z"].into_iter().fold(List::new(4), |list, name| list.add(name, results.next()));
        Ok(Some(list.add("status", batch.status)))
    }

    /// X' X for a list of columns with this number of rows; NULL is a column of ones. The rows of the first `scaled`
    /// columns are multiplied by `scale`. NULL if the device has no kernel for it.
    fn gram(columns: Vec<SEXP>, rows: usize, scale: Option<Array>, scaled: usize) -> Result<Option<SEXP>> {
        let given = optional(columns)?;
        let out = gram::gram(&given, rows, scale.as_ref(), scaled)?;
        out.map(|out| handle::new_of_dim(out, &[given.len(); 2])).transpose()
    }

    /// A pointer for `weighted_gram_pass()`; NULL if one kernel cannot compute what was recorded. `values` and
    /// `operations` are the steps; `outputs` the factor, `rights` right sides, and the values to add up.
    fn weighted_gram(
        columns: Vec<SEXP>,
        predictor: Array,
        values: Vec<SEXP>,
        operations: Vec<SEXP>,
        outputs: Vec<SEXP>,
        rights: usize,
        fixed: Vec<SEXP>,
    ) -> Result<Option<SEXP>> {
        let arrays = |list: Vec<SEXP>| list.into_iter().map(convert::array).collect::<Result<Vec<_>>>();
        let steps: Vec<(Array, Array)> = arrays(values)?.into_iter().zip(arrays(operations)?).collect();
        let outputs = arrays(outputs)?;
        let (scale, others) =
            outputs.split_first().ok_or_else(|| Error::new(ErrorKind::Argument, "`outputs` is empty"))?;
        let (rights, sums) = others.split_at(rights.min(others.len()));
        let fixed = arrays(fixed)?;
        let recorded = Recorded { predictor: &predictor, steps: &steps, scale, rights, sums, fixed: &fixed };
        Ok(WeightedGram::new(optional(columns)?, &recorded)?.map(pointer))
    }

    /// list(predictor, scale, results, rights) of a pass, whose predictor is `before` plus the columns times `by`;
    /// without numbers it is `before`. NULL if the device has no kernel. The results are cross products, unless there
    /// are right sides, then the sums.
    fn weighted_gram_pass(x: SEXP, by: Vec<f64>, before: Option<Array>) -> Result<Option<List>> {
        let Some(pass) = pointed::<WeightedGram>(x)?.pass(&by, before.as_ref())? else { return Ok(None) };
        let rights = pass.rights.map(|rights| rights.into_iter().fold(List::new(1), |list, x| list.add("", x)));
        let list = List::new(4).add("predictor", pass.predictor).add("scale", pass.scale);
        Ok(Some(list.add("results", pass.results).add("rights", rights)))
    }

    /// The sum of `before`, unless NULL, and of a list of columns, each times its number in `by`; NULL is a column of
    /// ones. NULL if no array is given.
    fn combination(columns: Vec<SEXP>, by: Vec<f64>, before: Option<Array>) -> Result<Option<Array>> {
        gram::combination(&optional(columns)?, &by, before)
    }

    /// list(lu, pivots, info) of an n x n matrix.
    fn lu(x: Array, n: usize) -> Result<List> {
        let (lu, pivots, info) = linear::lu(&x, n)?;
        Ok(List::new(3).add("lu", lu).add("pivots", pivots).add("info", f64::from(info)))
    }

    /// Solves with the factors of `lu()`. `sizes`: n and the columns of b.
    fn lu_solve(lu: Array, pivots: Array, b: Array, sizes: [usize; 2], transpose: bool) -> Result<Array> {
        let [n, columns] = sizes;
        linear::lu_solve(&lu, &pivots, &b, n, columns, transpose)
    }

    /// list(factor, info) of an n x n matrix.
    fn cholesky(x: Array, n: usize) -> Result<List> {
        let (factor, info) = linear::cholesky(&x, n)?;
        Ok(List::new(2).add("factor", factor).add("info", f64::from(info)))
    }

    /// Solves with a triangle of the n x n matrix r. `sizes`: n and the columns of b.
    fn triangular_solve(
        r: Array,
        b: Array,
        sizes: [usize; 2],
        upper as "upper.tri": bool,
        transpose: bool,
    ) -> Result<Array> {
        let [n, columns] = sizes;
        linear::triangular_solve(&r, n, &b, columns, upper, transpose)
    }

    /// The matrix with zeros below the diagonal. `sizes`: rows and columns.
    fn upper_triangle(x: Array, sizes: [usize; 2]) -> Result<Array> {
        let [rows, columns] = sizes;
        if x.len() != rows * columns {
            return Err(Error::new(ErrorKind::Shape, "extents are not the matrix's"));
        }
        linear::upper_triangle(&x, rows, columns)
    }

    /// list(qr, parts): LINPACK's form of qr; parts is a host vector of the columns' norms, the diagonal and qraux.
    fn qr(x: Array, sizes: [usize; 2]) -> Result<List> {
        let [m, n] = sizes;
        let (form, parts) = linear::qr(&x, m, n)?;
        Ok(List::new(2).add("qr", form).add("parts", host_vector::read(&parts, 0, parts.len())?))
    }

    /// Q y, or t(Q) y. `sizes`: m and n of qr, the number of reflectors, and the columns of y.
    fn qr_apply(qr: Array, qraux: Array, y: Array, sizes: [usize; 4], transpose: bool) -> Result<Array> {
        let [m, n, k, columns] = sizes;
        linear::qr_apply(&qr, &qraux, &y, [m, n], k, columns, transpose)
    }

    /// list(values, vectors, info); values are ascending.
    fn eigen_symmetric(x: Array, n: usize, vectors: bool) -> Result<List> {
        let (values, vectors, info) = linear::eigen_symmetric(&x, n, vectors)?;
        Ok(List::new(3).add("values", values).add("vectors", vectors).add("info", f64::from(info)))
    }

    /// list(values, vectors, info): n real parts and n imaginary parts; vectors packed as LAPACK's dgeev does.
    fn eigen_general(x: Array, n: usize, vectors: bool) -> Result<List> {
        let (values, vectors, info) = linear::eigen_general(&x, n, vectors)?;
        Ok(List::new(3).add("values", values).add("vectors", vectors).add("info", f64::from(info)))
    }

    /// list(d, u, v, transposed, info, moved) of an m x n matrix, m >= n.
    fn svd(x: Array, sizes: [usize; 2], vectors: bool, full: bool, polar: bool) -> Result<List> {
        let method = if polar { Method::Polar } else { Method::Bidiagonal };
        let out = linear::svd(&x, sizes, vectors, full, method)?;
        Ok(List::new(6)
            .add("d", out.d)
            .add("u", out.u)
            .add("v", out.v)
            .add("transposed", out.v_transposed)
            .add("info", f64::from(out.info))
            .add("moved", out.perturbation))
    }
}
