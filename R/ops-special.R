# Bessel functions and psigamma under base R's names: rows of the operation table
# (src/rust/crates/ops/src/table/bessel.rs).

#' Bessel functions and psigamma
#'
#' Base R's functions for arrays, with base R's arguments. They are recorded, fused with surrounding operations, and
#' computed on the device when the values are needed. They can be used in [gpu_map()] and in compiled functions
#' ([gpu_compile()]), and [gpu_grad()] can differentiate them with respect to `x`. Arguments are recycled, and
#' attributes kept, as in base R. A call with an array among `x`, `nu` and `deriv` is computed on the device of the
#' array; any other call reaches base R.
#'
#' @section Accuracy:
#' Float64 values have a relative error of at most 1e-13 for orders from 0 to 1e4 and `x` from 1e-10 to 1e6, including
#' whole and half orders and orders next to them. For `besselJ()` and `besselY()` at `x` above the order the error is
#' relative to `sqrt(besselJ()^2 + besselY()^2)`, since no relative limit holds near a zero. Larger orders and `x` use
#' the same algorithms. For negative orders the error is relative to the larger term of the reflection formula, and for
#' `psigamma()` at negative `x` to the larger of its terms. Float32 arrays are computed in float64 and rounded.
#'
#' No element takes longer than about 20 microseconds of a core. Away from `x = nu` the time does not depend on the
#' order (base R's grows in proportion to it).
#' @section Algorithms:
#' Away from `x = nu`: Debye's uniform expansions, in double-double arithmetic where exponents and phases are large.
#' Near `x = nu`: a recurrence from smaller orders. For small `x`: power series and Temme's series. For all other
#' arguments: continued fractions (Temme's, Steed's). `psigamma()`: recurrence and asymptotic series. The page
#' `docs/special.md` of the sources describes the region of each algorithm, and the tests.
#' @section Where results differ from base R:
#' * `besselJ()` for `x` above 1e5, and scaled `besselI()`, return values; base R returns 0, with or without a warning.
#' * `besselI()` is finite up to the largest double (`x` from 709 to 713), and `besselK()` returns subnormal values.
#' * Base R's warning "precision lost in result" is not raised: values, infinities and zeros are correct.
#' * `besselJ()` and `besselY()` of orders above 1e7 are NaN as in base R, with the warning "NaNs produced" alone.
#'   An infinite order of `besselI()` and `besselK()` has its limit, where base R may crash.
#' * `psigamma()` for negative `x` returns values for `deriv` above 5, and near 0, where base R returns NaN.
#' @param x Numbers or an array; 0 or larger for Bessel functions, else NaN with base R's warnings.
#' @param nu The order: numbers or an array, of any sign.
#' @param expon.scaled Whether the result of `besselI()` is multiplied by `exp(-x)`, and the result of `besselK()` by
#'   `exp(x)`.
#' @param deriv Which derivative of [digamma()]: 0 to 100, rounded; numbers or an array.
#' @returns An array on the device of the arguments; its float type is the widest of the arrays'. Nothing is computed or
#'   waited for. Warnings ("NaNs produced", "value out of range in 'bessel_j'") are raised when the values are computed.
#' @section Errors:
#' Base R's errors and messages; `verdigris_error_device` for arrays on different devices.
#' @references
#' Temme, N. M. (1975) On the numerical evaluation of the modified Bessel function of the third kind. *Journal of
#' Computational Physics* 19, 324--337; (1976) On the numerical evaluation of the ordinary Bessel function of the second
#' kind. *ibid.* 21, 343--350.
#'
#' Barnett, A. R., Feng, D. H., Steed, J. W. and Goldfarb, L. J. B. (1974) Coulomb wave functions for all real eta and
#' rho. *Computer Physics Communications* 8, 377--395.
#'
#' Olver, F. W. J. (1974) *Asymptotics and Special Functions*. Academic Press.
#'
#' NIST Digital Library of Mathematical Functions, chapters 5 and 10.
#' @examples
#' x <- as_gpu(c(0.5, 2, 40), device = "cpu")
#' besselJ(x, nu = 1.5)
#' besselK(x, nu = c(0, 1, 100), expon.scaled = TRUE)
#' psigamma(x, deriv = 2)
#' # the Matern covariance of smoothness 1.2 at these distances
#' 2^(1 - 1.2) / gamma(1.2) * x^1.2 * besselK(x, 1.2)
#' @name special
NULL

#' @rdname special
#' @export
besselI <- interposed("besselI", c("x", "nu"), bessel("besselI", c("x", "nu"), environment()))
#' @rdname special
#' @export
besselJ <- interposed("besselJ", c("x", "nu"), bessel("besselJ", c("x", "nu"), environment()))
#' @rdname special
#' @export
besselK <- interposed("besselK", c("x", "nu"), bessel("besselK", c("x", "nu"), environment()))
#' @rdname special
#' @export
besselY <- interposed("besselY", c("x", "nu"), bessel("besselY", c("x", "nu"), environment()))
#' @rdname special
#' @export
psigamma <- interposed("psigamma", c("x", "deriv"), bessel("psigamma", c("x", "deriv"), environment()))

# Evaluates a call of one of these functions; `frame` is the frame of the call.
bessel <- function(name, operands, frame) {
  f <- get(name, baseenv())
  is_given <- function(argument) !eval(call("missing", as.name(argument)), frame)
  if (!is_given("x") || name != "psigamma" && !is_given("nu")) return(hosted_call(f, frame))
  operands <- unname(mget(operands, envir = frame))
  takes <- vapply(operands, function(x) is.numeric(x) || is.logical(x), NA)
  # Base R also accepts other types, and one value per element.
  scaled <- if ("expon.scaled" %in% names(formals(f))) frame$expon.scaled else FALSE
  is_one <- is.atomic(scaled) && length(scaled) == 1L && !is.object(scaled)
  if (is_one) scaled <- as.logical(scaled)
  if (!all(takes) || !is_one || is.na(scaled)) return(hosted_call(f, frame))
  out <- .External2(C_recycled, paste0(name, if (scaled) "_scaled"), operands, -1L)
  if (is.null(out)) return(hosted_call(f, frame))
  if (length(out) == 0L && length(operands[[1L]])) strip(out) else out
}
