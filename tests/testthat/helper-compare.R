# One body, run by base R on host vectors and by the package on arrays; values, types, attributes,
# warnings and errors are compared.

test_device <- Sys.getenv("VERDIGRIS_TEST_DEVICE", "cpu")
if (test_device == "cuda") test_device <- "cuda:0"
emulated <- nzchar(Sys.getenv("VERDIGRIS_EMULATOR")) # by tests/emulator

# What base R says to odd arguments counts too. Where it takes several values for a condition R CMD check --as-cran
# would end R (below 4.3).
Sys.unsetenv("_R_CHECK_LENGTH_1_LOGIC2_")

gpu <- function(x, dtype = NULL) as_gpu(x, dtype = dtype, device = test_device)

# An ordinary value. If it is a number that is on its way, it is looked at here, where its warnings are heard.
looked_at <- function(v) {
  if (is.numeric(v) && is.null(attributes(v))) v <- v[]
  if (test_device != "cpu") gpu_sync(test_device)
  v
}

# Value, warnings and error of a call.
outcome <- function(expr) {
  warnings <- character()
  value <- tryCatch(
    withCallingHandlers(
      {
        v <- expr
        looked_at(if (is_gpu(v) || is.list(v)) collect(v) else v)
      },
      warning = function(w) {
        warnings <<- c(warnings, conditionMessage(w))
        invokeRestart("muffleWarning")
      }
    ),
    # base R has no panics, so such an error is never the one that is expected
    error = function(e) structure(c(list(message = conditionMessage(e)), if (inherits(e, "verdigris_error_panic"))
      list(panic = TRUE)), class = "failed")
  )
  list(value = value, warnings = unique(warnings))
}

# Units in the last place, by dtype.
epsilon <- c(float64 = 2^-52, float32 = 2^-23, float16 = 2^-10, bfloat16 = 2^-7, complex128 = 2^-52, complex64 = 2^-23)

# ---- where base R's answer is not the standard -----------------------------------------------------
# The known deviations, row by row: `where` says for which elements (of operands a and b, given both answers)
# another value is right, `mute` which of base R's warnings go with them. ?elementwise lists the same.
infinite <- function(z) is.infinite(Re(z)) | is.infinite(Im(z))
deviations <- list(
  list(rows = c("asinh", "acosh", "atanh"), types = "complex",
       why = "base R multiplies an infinite value by i, which gives NaN; here the values are those of C99, Annex G",
       where = function(a, b, want, got) is.na(want) & (infinite(a) | infinite(got)),
       mute = "NaNs produced in function"),
  list(rows = c("+", "*", "^"), types = "double",
       why = "of NA and NaN the result is one, base R leaves it to the compiler which; here it is a rule",
       where = function(a, b, want, got) is.na(a) & is.na(b) & is.na(got)),
  list(rows = c("gamma", "lgamma", "digamma", "trigamma"), types = "double",
       why = "next to the poles below 0 base R loses up to seven digits",
       where = function(a, b, want, got) a < 0 & abs(want - got) < 1e-9 * abs(want)),
  list(rows = c("/", "^"), types = "complex",
       why = "base R (libgcc) gives NaN parts where a quotient overflows",
       where = function(a, b, want, got) is.na(want) & infinite(got)),
  list(rows = c("sinpi", "cospi"), types = "double",
       why = "base R without a libm that has them multiplies by pi first, and is off by 4e-16 absolute",
       where = function(a, b, want, got) abs(want - got) < 1e-15),
  list(rows = c("lgamma", "digamma", "lbeta", "lchoose", "qnorm"), types = "double",
       why = "next to a zero of the function base R's error is absolute",
       where = function(a, b, want, got) abs(want) < 0.1 & abs(want - got) < 1e-15),
  list(rows = c("digamma", "trigamma"), types = "double",
       why = "base R gives NaN and warns where the value (next to 0 about -1/x and 1/x^2) leaves the range of its algorithm",
       where = function(a, b, want, got) is.nan(want) & abs(a) < 1e-150 & a != 0 & abs(got) > 1e300,
       mute = "NaNs produced"),
  list(rows = c("%%", "%/%"), types = "double",
       why = "base R's remainder is arbitrary (and it warns) where the quotient has more digits than a number holds",
       where = function(a, b, want, got) abs(a / b) > 2^63),
  list(rows = "signif", types = "double",
       why = "beyond 1e306 base R loses a digit, or all (signif(1e308, 1) is 0)",
       where = function(a, b, want, got) abs(a) > 1e306 & is.finite(a)),
  list(rows = "signif", types = "double",
       why = "base R turns more digits than an int holds into none",
       where = function(a, b, want, got) if (!is.null(b)) abs(b) >= 2^31 & got == a else FALSE),
  list(rows = "signif", types = "complex",
       why = "base R multiplies by a rounded power of ten",
       where = function(a, b, want, got) Mod(want - got) <= 2^-52 * Mod(a)),
  list(rows = "beta", types = "double",
       why = "base R warns of a range that only an intermediate value leaves",
       where = function(a, b, want, got) pmin(a, b) < 2.3e-308,
       mute = "value out of range in 'gammafn'"),
  list(rows = c("beta", "lbeta"), types = "double",
       why = "base R before 4.5 warns of an underflow that changes nothing",
       where = function(a, b, want, got) pmax(a, b) > 3.7e306,
       mute = "underflow occurred in 'lgammacor'")
)

# Which elements of `want` fall under a deviation of this row, and the warnings that go with it.
excused <- function(row, args, want, got) {
  none <- list(elements = rep(FALSE, length(want)), mute = character())
  if (is.null(row) || !is.numeric(want) && !is.complex(want) || length(want) != length(got) || !length(want))
    return(none)
  known <- Filter(function(d) row %in% d$rows && typeof(want) %in% d$types, deviations)
  operand <- function(k) if (length(args) >= k && is.atomic(args[[k]])) rep_len(as.vector(args[[k]]), length(want))
  for (d in known) {
    at <- d$where(operand(1L), operand(2L), as.vector(want), as.vector(got))
    at <- !is.na(at) & at
    none$elements <- none$elements | at
    if (any(at)) none$mute <- c(none$mute, d$mute)
  }
  none
}

# Where two vectors differ: a sentence, or NULL.
difference <- function(got, want, ulp = 0, eps = 2^-52, payload = TRUE, fine = FALSE) {
  if (inherits(want, "failed") || inherits(got, "failed")) {
    if (!inherits(want, "failed")) return(paste("failed:", got$message))
    if (!inherits(got, "failed")) return(paste("did not fail with:", want$message))
    if (!identical(got$message, want$message)) return(paste0("error '", got$message, "' is not '", want$message, "'"))
    return(NULL)
  }
  if (!identical(typeof(got), typeof(want))) return(paste("type", typeof(got), "is not", typeof(want)))
  if (length(got) != length(want)) return(paste("length", length(got), "is not", length(want)))
  plain <- function(a) if (length(a)) a[order(names(a))]
  if (!identical(plain(attributes(got)), plain(attributes(want)))) {
    return(paste("attributes", deparse1(attributes(got)), "are not", deparse1(attributes(want))))
  }
  if (is.list(want) || is.null(want)) return(if (!identical(got, want)) "differs")
  long <- inherits(want, "integer64")
  got <- if (long) as.character(got) else as.vector(got)
  want <- if (long) as.character(want) else as.vector(want)
  if (is.complex(want)) {
    # a part may be small beside the other: the distance is measured against the modulus
    bad <- is.na(got) != is.na(want)
    unequal <- !is.na(got) & !is.na(want) & got != want
    bad[unequal] <- !is.finite(want[unequal]) | !is.finite(got[unequal]) |
      Mod(got[unequal] - want[unequal]) > ulp * eps * Mod(want[unequal])
  } else if (is.double(want)) {
    bad <- is.na(got) != is.na(want)
    if (payload) bad <- bad | (is.nan(got) != is.nan(want))
    both <- which(!is.na(got) & !is.na(want) & got != want)
    bad[both] <- !is.finite(want[both]) | !is.finite(got[both]) |
      abs(got[both] - want[both]) > ulp * eps * abs(want[both]) + (ulp > 0) * 2^-1070
    if (ulp == 0) {
      zero <- which(got == 0 & want == 0)
      bad[zero] <- 1 / got[zero] != 1 / want[zero]
    }
  } else {
    bad <- !(got == want)
    bad[is.na(bad)] <- (is.na(got) != is.na(want))[is.na(bad)]
  }
  bad[is.na(bad)] <- TRUE
  bad <- bad & !fine
  if (!any(bad)) return(NULL)
  k <- which(bad)[1L]
  sprintf("%d of %d elements differ; the first, [%d], is %s and not %s", sum(bad), length(bad), k,
          format(got[k], digits = 17), format(want[k], digits = 17))
}

# On a CUDA device the modulus is CUDA's hypot (2 units in the last place, CUDA C++ Programming Guide, mathematical
# functions), and a power goes by its exp, log and atan2: complex results are not the bits of the host's C library.
complex_ulp <- c(abs = 2, sqrt = 4, "^" = 64)

cases <- new.env()
cases$n <- 0L
cases$met <- 0L

kind_of <- function(dtype) {
  switch(dtype, bool8 = "logical", int8 = , uint8 = , int16 = , int32 = "integer", int64 = "integer64",
         complex64 = , complex128 = "complex", "double")
}
kind <- function(x) if (inherits(x, "integer64")) "integer64" else typeof(x)

# Compares f on arrays with f on host vectors; an argument in a list stays on the host. `dtype` stores the arguments of
# its kind more narrowly: the host then computes with the values as stored. `row` names the row of the operation
# table, for its limit and its known deviations.
compare <- function(f, args, dtype = NULL, ulp = 0, what = "", row = NULL, before = identity) {
  cases$n <- cases$n + 1L
  if (test_device != "cpu" && !is.null(row) && row %in% names(complex_ulp) && any(vapply(args, is.complex, NA))) {
    ulp <- max(ulp, complex_ulp[[row]])
  }
  narrow <- function(x) if (!is.null(dtype) && kind(x) == kind_of(dtype)) dtype
  arrays <- lapply(args, function(x) if (is.list(x)) x[[1L]] else gpu(x, narrow(x)))
  hosts <- lapply(seq_along(args), function(k) {
    x <- args[[k]]
    if (is.list(x)) x[[1L]] else if (is.null(narrow(x))) x else collect(arrays[[k]])
  })
  hosts <- lapply(hosts, before)
  want <- outcome(do.call(f, hosts))
  got <- outcome(do.call(f, lapply(arrays, before)))
  eps <- 2^-52
  exact <- is.null(dtype) || !dtype %in% c("float32", "float16", "bfloat16", "complex64")
  # a narrow result is rounded once more than the host's
  if (!exact) {
    ulp <- ulp + 1
    eps <- epsilon[[dtype]]
    real <- if (dtype == "complex64") "float32" else dtype
    if (is.double(want$value)) want$value[] <- collect(gpu(as.vector(want$value), real))
    if (is.complex(want$value)) want$value[] <- collect(gpu(as.vector(want$value), "complex64"))
  }
  fine <- excused(row, hosts, want$value, got$value)
  # which of NA and NaN comes out of a function is no matter where the host's compiler orders the operands: where base
  # R's own sums keep the first (R 4.6 of Debian), and in kernels of the emulated GPU
  payload <- exact && (!is.null(row) || !emulated && !is.nan(sum(c(NaN, NA))))
  said <- difference(got$value, want$value, ulp, eps, payload = payload, fine = fine$elements)
  want$warnings <- by_group(want$warnings)
  got$warnings <- by_group(got$warnings)
  for (text in fine$mute) {
    want$warnings <- want$warnings[!startsWith(want$warnings, text)]
    got$warnings <- got$warnings[!startsWith(got$warnings, text)]
  }
  if (is.null(said) && !identical(sort(got$warnings), sort(want$warnings))) {
    said <- paste0("warnings {", paste(got$warnings, collapse = "; "), "} are not {",
      paste(want$warnings, collapse = "; "), "}")
  }
  if (is.null(said)) NULL else paste0(what, ": ", said)
}

expect_all_same <- function(found) {
  found <- unlist(found)
  testthat::expect(length(found) == 0L, paste(c(sprintf("%d cases differ from base R:", length(found)),
    utils::head(found, 12L)), collapse = "\n"))
  invisible()
}

# Evaluates code by one tier of a GPU: "compiled" or "interpreted".
with_tier <- function(tier, code) {
  before <- .Call(verdigris:::C_tier, tier)
  on.exit(.Call(verdigris:::C_tier, before))
  force(code)
}

# Where each new expression is compiled, several processes may share the long files: VERDIGRIS_PART=2/4 is the second
# quarter.
part <- as.integer(strsplit(Sys.getenv("VERDIGRIS_PART", "1/1"), "/")[[1L]])
is_ours <- function(k) k %% part[2L] == part[1L] %% part[2L]
# The same for cases without a number, in the order in which they are met.
is_next_ours <- function() is_ours(cases$met <- cases$met + 1L)

# Ends a file of differential tests: how many cases it had, and that they are not fewer than they were.
expect_cases <- function(least) {
  least <- least %/% part[2L]
  cat(sprintf("\ndifferential cases on %s: %d\n", test_device, cases$n))
  testthat::expect_gte(cases$n, least)
  cases$n <- 0L
}

# ---- values ------------------------------------------------------------------------------------------
edges <- list(
  double = c(NA, NaN, Inf, -Inf, 0, -0, 1, -1, 0.5, -0.5, 2, 3, -2.5, 1e-300, -1e300, 1e308, 5e-324, 2^31, 1e15 + 0.5,
    pi),
  integer = c(NA, 0L, 1L, -1L, 2L, 7L, -13L, .Machine$integer.max, -.Machine$integer.max, 65536L),
  logical = c(NA, TRUE, FALSE),
  complex = c(NA, 0+0i, 1+0i, -1+0i, 0+1i, 3-4i, -2.5+0.5i, complex(real = Inf, imaginary = 1), 1e-5+1e5i)
)

lengths_tried <- c(0L, 1L, 63L, 64L, 65L, 257L)

# Values of a type, as many as asked for, the edges first and then numbers in an ordinary range.
values <- function(type, n, seed = 1L) {
  set.seed(seed)
  rest <- switch(type,
    double = round(rnorm(n, 0, 3), 6), integer = sample(-50:50, n, TRUE),
    logical = sample(c(TRUE, FALSE, NA), n, TRUE), complex = complex(real = rnorm(n), imaginary = rnorm(n)))
  rep_len(c(edges[[type]], rest), n)
}

# Every layout of one argument: contiguous of each length, matrix, with dimnames, named.
layouts <- function(type) {
  flat <- lapply(lengths_tried, function(n) values(type, n))
  m <- matrix(values(type, 60L), 12L)
  named <- values(type, 5L)
  names(named) <- letters[1:5]
  full <- m
  dimnames(full) <- list(NULL, letters[1:5])
  c(flat, list(m, full, named))
}

operations <- gpu_operations()
ulp_of <- function(name) operations$ulp[match(name, operations$name)]
call_of <- function(name) get(name, envir = asNamespace(if (exists(name, baseenv())) "base" else "stats"))

# Of base R's functions the group's method stands under the operator's name, in R before 4.3: R/ops-dispatch.R.
by_group <- function(text) {
  is_it <- startsWith(text, "Incompatible methods")
  text[is_it] <- gsub("\"[^\" ]+[.]([A-Za-z]+)\"", "\"Ops.\\1\"", text[is_it])
  text
}
