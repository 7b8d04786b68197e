# Densities, distribution functions and quantiles of stats: masks of base R's functions, generated from one table, that
# record rows of src/rust/crates/ops/src/table/distributions.rs. The normal ones are in ops-math.R.

# The parameters of a distribution's rows, in their order.
DISTRIBUTIONS <- list(
  unif = c("min", "max"), exp = "rate", gamma = c("shape", "scale"), beta = c("shape1", "shape2"),
  lnorm = c("meanlog", "sdlog"), chisq = "df", t = "df", f = c("df1", "df2"), weibull = c("shape", "scale"),
  logis = c("location", "scale"), cauchy = c("location", "scale"), binom = c("size", "prob"),
  nbinom = c("size", "prob"), pois = "lambda", geom = "prob", hyper = c("m", "n", "k"), signrank = "n",
  wilcox = c("m", "n"), tukey = c("nmeans", "df", "nranges")
)
# The names of the masks. Base R has no density of the studentized range.
PROBABILITIES <- setdiff(outer(c("d", "p", "q"), names(DISTRIBUTIONS), paste0), "dtukey")

#' Densities, distribution functions and quantiles
#'
#' Base R's functions for arrays, with base R's arguments. They are recorded, fused with surrounding operations, and
#' computed on the device when the values are needed. They can be used in [gpu_map()] and in compiled functions
#' ([gpu_compile()]), and the densities have derivatives for [gpu_grad()]. `dnorm()`, `pnorm()` and `qnorm()` are among
#' the [elementwise functions][elementwise].
#'
#' The name of a function is `d`, `p` or `q`, followed by the name of the distribution: `unif`, `exp`, `gamma`, `beta`,
#' `lnorm`, `chisq`, `t`, `f`, `weibull`, `logis`, `cauchy`, `binom`, `nbinom`, `pois`, `geom`, `hyper`, `signrank`,
#' `wilcox` and (`p` and `q`) `tukey`. A call with an array among its numbers is computed on the device of the array;
#' any other call reaches base R's function.
#'
#' @section Accuracy:
#' Float64 values have a relative error of at most 1e-13, and of at most 1e-10 in tails down to 1e-300. Logarithms of
#' probabilities are also computed for smaller tails. For `tukey`, and for `signrank` and `wilcox` with hundreds of
#' values, the error is at most 1e-12. Float32 arrays are computed in float64 and rounded. The page
#' `docs/distributions.md` of the sources describes the algorithms, their sources, and their tests.
#' @section Differences from base R:
#' * Base R warns of each count that is not a whole number, with its value ("non-integer x = 1.500000"). Arrays raise
#'   one warning, "non-integer x", when the values are computed.
#' * These functions of base R have fewer accurate digits: quantiles of log probabilities and for shapes below 1e-3,
#'   distribution functions with `ncp` (which warn if they detect the loss), `ptukey()` and `qtukey()`.
#' * `signrank` of more than 1e5 values, `wilcox` of two samples of more than 1e5 values, or of 200,000 pairs if one sample
#'   has fewer than 8 values, are NaN with the warning "NaNs produced"; base R fails for lack of memory.
#' @param x,q,p Quantiles or probabilities: numbers or an array.
#' @param min,max,rate,shape,scale,shape1,shape2,ncp,meanlog,sdlog,df,df1,df2,location,size,prob,mu,lambda,m,n,k
#'   Parameters as in base R's functions: numbers or arrays, recycled.
#' @param nmeans,nranges As in [stats::ptukey()]: numbers or arrays, recycled.
#' @param log,log.p,lower.tail As in [stats::pgamma()].
#' @returns An array on the device of the arguments; its float type is the widest of the arrays'. Nothing is computed or
#'   waited for. Warnings ("NaNs produced") are raised when the values are computed.
#' @section Errors:
#' Base R's errors and messages; `verdigris_error_device` for arrays on different devices.
#' @examples
#' x <- as_gpu(c(0.1, 1, 10), device = "cpu")
#' dgamma(x, shape = 2, log = TRUE)
#' pt(x, df = 5, lower.tail = FALSE)
#' qbeta(as_gpu(c(0.025, 0.975), device = "cpu"), 11, 3)
#' @usage NULL
#' @eval sprintf("@aliases %s", paste(PROBABILITIES, collapse = " "))
#' @evalNamespace sprintf("export(%s)", PROBABILITIES)
#' @name probabilities
NULL

# The masks.
local({
  for (full in PROBABILITIES) {
    letter <- substr(full, 1L, 1L)
    name <- substring(full, 2L)
    numbers <- setdiff(names(formals(get(full, asNamespace("stats")))), c("log", "lower.tail", "log.p"))
    method <- bquote(probability(.(letter), .(name), environment()))
    assign(full, eval(bquote(interposed(.(full), .(numbers), .(method), home = "stats"))), envir = topenv())
  }
})

# Evaluates a mask's call, whose frame has the arguments. Anything out of the ordinary goes to base R on the host.
probability <- function(letter, name, frame) {
  f <- get(paste0(letter, name), asNamespace("stats"))
  is_given <- function(argument) !eval(call("missing", as.name(argument)), frame)
  parameters <- DISTRIBUTIONS[[name]]
  row <- name
  odd <- NULL
  if ("ncp" %in% names(formals(f)) && is_given("ncp")) {
    row <- paste0(name, "_ncp")
    parameters <- c(parameters, "ncp")
  }
  if (name == "nbinom" && is_given("mu")) {
    row <- "nbinom_mu"
    parameters <- c("size", "mu")
    odd <- "prob"
  }
  # base R decides what to do with both `rate` and `scale`
  if (name == "gamma" && is_given("scale")) odd <- "rate"
  operands <- c(names(formals(f))[1L], parameters)
  needed <- Filter(function(argument) identical(formals(f)[[argument]], quote(expr = )), operands)
  is_odd <- !is.null(odd) && is_given(odd) || !all(vapply(needed, is_given, NA))
  if (is_odd) return(hosted_call(f, frame))
  operands <- mget(operands, envir = frame)
  flags <- mget(intersect(c("lower.tail", "log", "log.p"), names(formals(f))), envir = frame)
  takes <- vapply(operands, function(x) is.numeric(x) || is.logical(x), NA)
  if (!all(takes) || !all(vapply(flags, is_flag, NA))) return(hosted_call(f, frame))
  is_log <- isTRUE(flags$log) || isTRUE(flags$log.p)
  row <- paste0(letter, row, if (isFALSE(flags$lower.tail)) "_upper", if (is_log) "_log")
  out <- .External2(C_recycled, row, unname(operands), -1L)
  if (is.null(out)) return(hosted_call(f, frame))
  # Without elements base R keeps the attributes of the first argument, and with several parameters none in some
  # versions.
  if (length(out) == 0L && (length(operands[[1L]]) || length(operands) > 2L && densities_lose_attributes()))
    strip(out) else out
}
