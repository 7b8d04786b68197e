# One body, run by base R on host vectors and by the package on arrays; values, types, attributes,
# warnings and errors are compared.

test_device <- Sys.getenv("VERDIGRIS_TEST_DEVICE", "cpu")

gpu <- function(x, dtype = NULL) as_gpu(x, dtype = dtype, device = test_device)

# Value, warnings and error of a call.
outcome <- function(expr) {
  warnings <- character()
  value <- tryCatch(
    withCallingHandlers(
      {
        v <- expr
        if (is_gpu(v)) v <- collect(v)
        v
      },
      warning = function(w) {
        warnings <<- c(warnings, conditionMessage(w))
        invokeRestart("muffleWarning")
      }
    ),
    error = function(e) structure(list(message = conditionMessage(e)), class = "failed")
  )
  list(value = value, warnings = unique(warnings))
}

# Units in the last place, by dtype.
epsilon <- c(float64 = 2^-52, float32 = 2^-23, float16 = 2^-10, bfloat16 = 2^-7, complex128 = 2^-52, complex64 = 2^-23)

# Where two vectors differ: a sentence, or NULL.
difference <- function(got, want, ulp = 0, eps = 2^-52, payload = TRUE) {
  if (inherits(want, "failed") || inherits(got, "failed")) {
    if (!inherits(want, "failed")) return(paste("failed:", got$message))
    if (!inherits(got, "failed")) return(paste("did not fail with:", want$message))
    if (!identical(got$message, want$message)) return(paste0("error '", got$message, "' is not '", want$message, "'"))
    return(NULL)
  }
  if (!identical(typeof(got), typeof(want))) return(paste("type", typeof(got), "is not", typeof(want)))
  if (length(got) != length(want)) return(paste("length", length(got), "is not", length(want)))
  plain <- function(a) if (length(a)) a[order(names(a))]
  if (!identical(plain(attributes(got)), plain(attributes(want)))) return("attributes differ")
  got <- as.vector(got)
  want <- as.vector(want)
  if (is.complex(want)) {
    # a part may be small beside the other: the distance is measured against the modulus
    bad <- is.na(got) != is.na(want)
    fine <- !is.na(got) & !is.na(want) & got != want & is.finite(want)
    bad[fine] <- Mod(got[fine] - want[fine]) > ulp * eps * Mod(want[fine])
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
  if (!any(bad)) return(NULL)
  k <- which(bad)[1L]
  sprintf("%d of %d elements differ; the first, [%d], is %s and not %s", sum(bad), length(bad), k,
          format(got[k], digits = 17), format(want[k], digits = 17))
}

cases <- new.env()
cases$n <- 0L

# Compares f on arrays with f on host vectors. `dtype` stores the double arguments more narrowly: the host
# then computes with the values as stored.
compare <- function(f, args, dtype = NULL, ulp = 0, what = "") {
  cases$n <- cases$n + 1L
  arrays <- lapply(args, function(x) if (is.list(x)) x[[1L]] else if (is.double(x)) gpu(x, dtype) else gpu(x))
  hosts <- lapply(seq_along(args), function(k) {
    x <- args[[k]]
    if (is.list(x)) x[[1L]] else if (is.null(dtype) || !is.double(x)) x else collect(arrays[[k]])
  })
  want <- outcome(do.call(f, hosts))
  got <- outcome(do.call(f, arrays))
  eps <- if (is.null(dtype)) 2^-52 else epsilon[[dtype]]
  exact <- is.null(dtype) || dtype == "float64"
  # a narrow result is rounded once more than the host's
  if (!exact && ulp >= 0) {
    ulp <- ulp + 1
    if (is.double(want$value)) want$value[] <- collect(gpu(as.vector(want$value), dtype))
  }
  said <- difference(got$value, want$value, ulp, eps, payload = exact)
  if (is.null(said) && !identical(sort(got$warnings), sort(want$warnings))) {
    said <- paste0("warnings {", paste(got$warnings, collapse = "; "), "} are not {", paste(want$warnings, collapse = "; "), "}")
  }
  if (is.null(said)) NULL else paste0(what, ": ", said)
}

expect_all_same <- function(found) {
  found <- unlist(found)
  testthat::expect(length(found) == 0L, paste(c(sprintf("%d cases differ from base R:", length(found)), utils::head(found, 12L)), collapse = "\n"))
  invisible()
}
