# Where a function's value is a whole number, a power of two or another double, each device gives that very double:
# what follows may be floor() or ==. CUDA's pow(), log2() and log10() alone do not.

exact_cases <- list(
  power = list(function(x, y) x^y, rep(c(-9:-1, 1:12), each = 31) + 0, rep(-15:15, 21) + 0),
  binary = list(function(x, y) x^y, rep(c(2, 0.5), each = 2001), rep(-1000:1000, 2) + 0),
  decimal = list(function(x, y) x^y, rep(10, 37), -14:22 + 0),
  fraction = list(function(x, y) x^y, rep((1:200) / 8, 7), rep(0:6 + 0, each = 200)),
  root = list(function(x, y) x^y, (1:1000)^2 + 0, rep(0.5, 1000)),
  log2 = list(log2, 2^(-1000:1000)),
  log10 = list(log10, 10^(-22:22)),
  base2 = list(function(x) log(x, 2), 2^(-100:100)),
  base10 = list(function(x) log(x, 10), 10^(-22:22)),
  signif = list(function(x) signif(x, 3), c((1:9999) / 7, 10^(0:15))),
  gamma = list(gamma, 1:23 + 0), factorial = list(factorial, 0:22 + 0),
  choose = list(choose, rep(0:30 + 0, each = 31), rep(0:30 + 0, 31)),
  exp = list(exp, c(0, -Inf)), log = list(log, 1), log1p = list(log1p, 0), expm1 = list(expm1, 0),
  sinpi = list(sinpi, (-50:50) / 2), cospi = list(cospi, (-50:50) / 2), tanh = list(tanh, c(-30, 0, 30)),
  Mod = list(Mod, complex(real = c(3, 5, 8, 7, 20, 9), imaginary = c(4, 12, 15, 24, 21, 40)))
)

# Those of `want` that float32 has too.
fits_single <- function(want) as.vector(as_gpu(want, "float32", device = "cpu")) == want

test_that("exact values are exact", {
  found <- character()
  for (name in names(exact_cases)) for (dtype in c("float64", "float32")) {
    f <- exact_cases[[name]][[1L]]
    operands <- exact_cases[[name]][-1L]
    want <- do.call(f, operands)
    # an operand that float32 rounds has another value
    given <- if (dtype == "float64") rep(TRUE, length(want)) else if (is.complex(operands[[1L]])) next else
      Reduce(`&`, lapply(operands, fits_single), is.finite(want)) & fits_single(want) & abs(want) > 1e-30 & abs(want) < 1e35
    got <- as.vector(do.call(f, lapply(operands, gpu, dtype = if (is.complex(operands[[1L]])) "complex128" else dtype)))
    wrong <- which(given & got != want)
    if (length(wrong)) found <- c(found, sprintf("%s, %s: %d values, as %.17g for %.17g", name, dtype, length(wrong),
      got[wrong[1L]], want[wrong[1L]]))
  }
  expect_identical(found, character())
})

test_that("products of complex numbers are as wide as base R's", {
  found <- list()
  for (z in list(c(1e308+0i, 1e-308, 3), c(1e200+1e200i, 1e200, 1e-300, 1e-200), complex(real = cos(1:50), imaginary = sin(1:50)),
    c(1i, NA), c(2+1i, NaN), complex(real = Inf, imaginary = 0), c(0i, 5), c(5e-324+0i, 2^60))) {
    found <- c(found, compare(prod, list(z)))
  }
  expect_all_same(found)
})
