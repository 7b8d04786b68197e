# Derivatives of compiled functions.

#' Gradients of compiled functions
#'
#' `gpu_grad(f, wrt)` returns a function that computes the gradient of `sum(f(...))`, over all elements, with respect to
#' the parameters and captured numbers that `wrt` names: for [stats::optim()] and samplers. Derivatives are exact, by
#' forward-mode differentiation through loops, conditions and local vectors: every number carries as many derivatives as
#' `wrt` has, so this suits few parameters (up to about thirty) and many elements.
#'
#' Operators, the Math group, `ifelse`, `pmin`, `pmax`, `atan2`, `gamma`, `lgamma`, `digamma`, `trigamma`, `beta`,
#' `lbeta`, [Bessel functions and psigamma][special] (with respect to `x`), `dnorm`, `pnorm`, `qnorm`, the other
#' [distributions][probabilities] (distribution functions and quantiles with respect to the parameters for which there
#' is a closed form), and draws of `rnorm`, `rlnorm`, `runif` and `rexp` (with respect to their parameters, for a fixed
#' standard draw) have derivatives; at a kink or a step the derivative is that of the branch taken. Complex numbers and
#' other draws that depend on `wrt` are refused.
#' @param f A function that returns one double for each element (see [gpu_compile()]).
#' @param wrt Names of its parameters, or of numbers and vectors that it captures. A parameter in `whole`, and a
#'   captured vector, has one derivative per element.
#' @param whole,bounds As in [gpu_compile()]; by default those of `f`, if it is a compiled function.
#' @returns A function with the parameters of `f`. It returns a named numeric vector, the gradient, on the host (the
#'   only wait), with the sum itself as attribute `"value"`.
#' @section Errors:
#' The errors of [gpu_compile()]; `verdigris_error_compile` for an operation without a derivative;
#' `verdigris_error_argument` for a name in `wrt` that is neither a parameter nor captured; `verdigris_error_dtype` if
#' its value is not double.
#' @seealso [gpu_compile()]
#' @examples
#' x <- as_gpu(c(1, 2, 3, 4), device = "cpu")
#' y <- as_gpu(c(2.1, 3.9, 6.2, 7.8), device = "cpu")
#' loss <- function(x, y, a, b) (y - a - b * x)^2
#' slope <- gpu_grad(loss, c("a", "b"))
#' value <- function(p) sum(gpu_map(loss, x, y, p[1], p[2]))
#' optim(c(0, 0), value, function(p) slope(x, y, p[1], p[2]), method = "BFGS")$par
#' @export
gpu_grad <- function(f, wrt, whole = character(), bounds = c("R", "NA", "error")) {
  if (!is.character(wrt) || !length(wrt) || anyNA(wrt))
    abort_argument("wrt", "names of parameters or captured numbers", wrt)
  if (is_compiled(f)) {
    self <- environment(f)
    if (missing(whole)) whole <- self$parameters[self$whole]
    if (missing(bounds)) bounds <- self$bounds
  }
  f <- plain_function(f)
  names <- unique(c(names(formals(f)), all.vars(body(f))))
  for (name in setdiff(wrt, names)) stop_verdigris("argument",
    sprintf("`wrt` names `%s`, which is neither a parameter of `f` nor captured by it.", name),
    did_you_mean(name, names))
  self <- environment(gpu_compile(f, whole, one_of("bounds", bounds, BOUNDS)))
  self$name <- function_name(substitute(f))
  self$wrt <- wrt
  gradient <- as.function(c(formals(f), quote(summed_gradient(.self, environment()))), envir = self)
  structure(gradient, class = c("gpu_function", "function"))
}

# Sums the parts of a gradient's call: the first is the value of f, the others are its derivatives.
summed_gradient <- function(self, frame) {
  parts <- call_compiled(self, frame)
  sums <- vapply(parts, function(x) as.numeric(sum(x)), 0)
  structure(sums[-1L], value = sums[[1L]])
}
