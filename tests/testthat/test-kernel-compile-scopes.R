# What names mean in a function that is compiled: at each call what they mean in R then; and a function that is made
# anew in each call is compiled once.

# How often R's compiler was asked.
compiled_times <- function(code) {
  times <- 0
  count <- bquote((.(function() times <<- times + 1))())
  suppressMessages(trace("compile_variant", count, where = asNamespace("verdigris"), print = FALSE))
  on.exit(suppressMessages(untrace("compile_variant", where = asNamespace("verdigris"))))
  force(code)
  times
}

test_that("functions that are made in each turn are compiled once, and see what they are in", {
  x <- gpu(c(1, 2, 3))
  turn <- function(a, of) {
    helper <- function(v) v * a
    gpu_map(function(v) helper(v) + of[1], x)
  }
  found <- list()
  times <- compiled_times(for (k in 1:5) found[[k]] <- collect(turn(k, gpu(c(10 * k, 0)))))
  expect_identical(found, lapply(1:5, function(k) c(1, 2, 3) * k + 10 * k))
  expect_identical(times, 1)
  # another type of what is captured is another kernel
  expect_identical(compiled_times(z <- collect(turn(2.5, gpu(c(1, 0))))), 1)
  expect_identical(z, c(3.5, 6, 8.5))
})

test_that("the same code with other helpers is another function", {
  with_helper <- function(helper) function(v) helper(v) + 1
  x <- gpu(c(1, 4, 9))
  expect_identical(collect(gpu_map(with_helper(function(v) v * 2), x)), c(3, 9, 19))
  expect_identical(collect(gpu_map(with_helper(function(v) v * 3), x)), c(4, 13, 28))
  expect_identical(collect(gpu_map(with_helper(sqrt), x)), c(2, 3, 4))
  inner <- function(k) {
    scale <- k
    function(v) v * scale
  }
  # two scopes of one code
  both <- function(f, g) function(v) f(v) + 10 * g(v)
  expect_identical(collect(gpu_map(both(inner(1), inner(2)), x)), c(21, 84, 189))
  expect_identical(collect(gpu_map(both(inner(3), inner(3)), x)), c(33, 132, 297))
})

test_that("a name that comes to mean another function does so at the next call", {
  home <- new.env(parent = globalenv())
  local(f <- function(v) sqrt(v) + twice(v), home)
  local(twice <- function(v) 2 * v, home)
  x <- gpu(c(1, 4))
  once <- gpu_compile(home$f)
  expect_identical(collect(gpu_map(home$f, x)), c(3, 10))
  expect_identical(collect(once(x)), c(3, 10))
  # one of base R's, too
  local(sqrt <- function(x) x * 100, home)
  expect_identical(collect(gpu_map(home$f, x)), c(102, 408))
  expect_identical(collect(once(x)), c(102, 408))
  local(twice <- function(v) 3 * v, home)
  expect_identical(collect(once(x)), c(103, 412))
  rm("sqrt", envir = home)
  expect_identical(collect(gpu_map(home$f, x)), c(4, 14))
})

test_that("sapply() and its like take functions made in each turn", {
  x <- gpu(c(1, 2, 3))
  total <- function(a) sapply(x, function(v) v * a + 1)
  composed(for (k in 1:3) expect_identical(as.vector(total(k)), c(1, 2, 3) * k + 1))
})

test_that("nothing that such functions are in is kept alive", {
  freed <- 0
  for (k in 1:3) local({
    kept <- gpu(rep(1, 1000))
    reg.finalizer(environment(), function(e) freed <<- freed + 1)
    gpu_compute(gpu_map(function(v) v + kept[1], gpu(c(1, 2))))
    gpu_compute(gpu_stencil(kept, function(w) w[1] + kept[2], 1))
    gpu_compute(gpu_apply(matrix(kept, 10), 1, function(row) sum(row) + kept[3]))
  })
  gc(); gc()
  expect_identical(freed, 3)
})

test_that("a stencil by a function made in each call is compiled once", {
  u <- matrix(as.double(1:20), 4)
  smooth <- function(u, w0) gpu_stencil(u, function(w) w[2, 2] * w0 + w[1, 2], 1, edge = 0)
  want <- function(w0) u * w0 + rbind(0, u[-4, ])
  x <- gpu(u)
  found <- list()
  times <- compiled_times(for (k in 1:3) found[[k]] <- collect(smooth(x, k)))
  expect_identical(found, lapply(1:3, want))
  expect_identical(times, 1)
  expect_identical(compiled_times(gpu_sort_by(gpu(as.double(16:1)), function(a, b) a < b)), 1)
})

test_that("other names of base R's functions, and zeros of both signs, keep their meaning", {
  x <- gpu(c(1, 2, 4))
  # as the user finds it
  var <- getExportedValue("verdigris", "sd")
  expect_equal(collect(gpu_map(function(a, b) var(c(a, b)), x, c(3, 6, 9))), mapply(function(a, b) stats::sd(c(a, b)),
    c(1, 2, 4), c(3, 6, 9)))
  max <- pmin
  expect_identical(collect(gpu_map(function(a, b) max(a, b), x, 1.5)), c(1, 1.5, 1.5))
  over <- function(zero) eval(bquote(function(v) v / .(zero)))
  expect_identical(collect(gpu_map(over(0), x)), rep(Inf, 3))
  expect_identical(collect(gpu_map(over(-0), x)), rep(-Inf, 3))
  both <- function(f, g) function(v) f(v) + g(v)
  expect_identical(collect(gpu_map(both(over(0), over(-0)), x)), rep(NaN, 3))
})

test_that("a compiled function keeps its bounds and its gradient where more of its arguments are whole", {
  table <- matrix(c(10, 20), 2)
  outside <- gpu_compile(function(i, t) t[i, 1], bounds = "NA")
  expect_identical(collect(gpu_map(outside, gpu(1:3), MoreArgs = list(t = table))), c(10, 20, NA))
  slope <- gpu_grad(function(x, a, t) x * a^2 + t[1], "a")
  found <- gpu_map(slope, gpu(c(1, 2)), 3, MoreArgs = list(t = c(1, 2)))
  expect_identical(collect(found$a), c(6, 12))
  gradient <- gpu_grad(function(x, a) x * a^2, "a")
  expect_error(gpu_map(function(x) gradient(x, 3), gpu(1:3)), class = "verdigris_error_compile")
})

test_that("what a call gives is what that call has compiled", {
  m <- matrix(as.double(1:12), 4)
  f <- function(r, p) if (is.integer(p)) sum(r) else c(sum(r), 1)
  for (p in list(1L, 2.5, 1L)) expect_identical(composed(as.vector(apply(gpu(m), 1, f, p = p))), as.vector(apply(m, 1, f,
    p = p)))
})
