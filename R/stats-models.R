# Models and tests: functions of base R that cannot read an array as a vector.

# Base R's function calls is.vector(), which is FALSE for an object with a class.
#' @rdname host
#' @usage NULL
#' @export
mahalanobis <- interposed("mahalanobis", c("x", "center", "cov"), hosted_mahalanobis(x, center, cov, inverted, ...),
  home = "stats")
hosted_mahalanobis <- function(...) hosted(stats::mahalanobis, list(...))

# Base R's function reads an array element by element.
#' @rdname host
#' @usage NULL
#' @export
approx <- interposed("approx", c("x", "y", "xout"), hosted_call(stats::approx, environment()), home = "stats")

# Base R's C code loops over the elements, and asks for the array's length each time.
#' @rdname host
#' @usage NULL
#' @export lm.fit
lm.fit <- interposed("lm.fit", c("x", "y"), fit_on_host("lm.fit", y, list(x, y, offset = offset, method = method,
  tol = tol, singular.ok = singular.ok, ...)), home = "stats")
#' @rdname host
#' @usage NULL
#' @export lm.wfit
lm.wfit <- interposed("lm.wfit", c("x", "y", "w"),
  fit_on_host("lm.wfit", y, list(x, y, w, offset = offset, method = method, tol = tol, singular.ok = singular.ok, ...)),
  home = "stats")

# Calls base R's function on host copies. Results as long as y become arrays if y is one.
fit_on_host <- function(name, y, args) {
  out <- call_base(get(name, asNamespace("stats")), lapply(args, function(a) if (is_gpu(a)) ordinary_copy(a) else a),
    parent.frame())
  if (is_gpu(y)) for (part in c("residuals", "effects", "fitted.values")) {
    values <- out[[part]]
    out[part] <- list(NULL) # drops the list's reference, so that upload_result_like() need not copy
    out[[part]] <- upload_result_like(values, y)
  }
  out
}

# Rank tests on host copies: stats' rank() compares the elements of an object in pairs, with a call for each. The result
# names the data by the user's expressions, as in base R.
rank_test <- function(generic) {
  f <- get(generic, envir = asNamespace("stats"))
  function(x, ...) with_names_of_data(call_base(f, c(list(ordinary_copy(x)), lapply(list(...), ordinary_copy))),
    c(list(substitute(x)), as.list(substitute(list(...)))[-1L]))
}

# Replaces the placeholders of call_base()'s arguments in a test's name of the data by the user's expressions.
with_names_of_data <- function(test, expressions) {
  if (is.list(test) && is.character(test$data.name)) for (k in seq_along(expressions)) {
    place <- deparse1(call("[[", VALUES, k))
    # an "expression" may be the data themselves if do.call() made the call
    if (any(grepl(place, test$data.name, fixed = TRUE)))
      test$data.name <- gsub(place, deparse1(host_copy(expressions[[k]])), test$data.name, fixed = TRUE)
  }
  test
}

#' @importFrom stats wilcox.test
#' @export
wilcox.test.gpu_array <- rank_test("wilcox.test")
#' @importFrom stats ansari.test
#' @export
ansari.test.gpu_array <- rank_test("ansari.test")
#' @importFrom stats mood.test
#' @export
mood.test.gpu_array <- rank_test("mood.test")
#' @importFrom stats kruskal.test
#' @export
kruskal.test.gpu_array <- rank_test("kruskal.test")
#' @importFrom stats fligner.test
#' @export
fligner.test.gpu_array <- rank_test("fligner.test")
#' @importFrom stats cor.test
#' @export
cor.test.gpu_array <- rank_test("cor.test")

# Base R's function calls embed(), which asks is.vector(): FALSE for an object with a class.
#' @rdname host
#' @usage NULL
#' @export
PP.test <- interposed("PP.test", "x", unit_root_test(x, lshort, substitute(x)), home = "stats")
unit_root_test <- function(x, lshort, name)
  with_names_of_data(call_base(stats::PP.test, list(ordinary_copy(x), lshort)), list(name))
