# C code may keep the address from REAL(x) over a call of R, and write through it again: R and devices see of x in
# between and afterwards what they would see of a host vector. `holder/holder.c` is such code. It runs in a child.

holder <- local({
  found <- NULL
  function() {
    skip_if(Sys.which("make") == "", "make is not there")
    if (is.null(found)) {
      folder <- tempfile("holder")
      dir.create(folder)
      file.copy(test_path("holder", "holder.c"), folder)
      here <- setwd(folder)
      on.exit(setwd(here))
      out <- suppressWarnings(system2(file.path(R.home("bin"), "R"), c("CMD", "SHLIB", "holder.c"), stdout = TRUE,
        stderr = TRUE))
      library <- file.path(folder, paste0("holder", .Platform$dynlib.ext))
      skip_if(!file.exists(library), "no compiler for C is there")
      found <<- library
    }
    found
  }
})

# Each body is run with a host vector `x` and with an array of the same values. Values that differ are printed.
held_in_child <- function(bodies, ...) {
  head <- bquote({
    dyn.load(.(holder()))
    options(verdigris.host_access = "allow")
    collect <- function(v) if (is.list(v)) lapply(v, collect) else if (is_gpu(v)) as.vector(v) else v
    same <- function(name, make, body) {
      want <- collect(body(as.vector(make())))
      got <- collect(body(make()))
      if (!isTRUE(all.equal(got, want, tolerance = 0, check.attributes = FALSE))) {
        cat(name, ": ", deparse(got), " is not ", deparse(want), "\n", sep = "")
        quit(status = 9)
      }
    }
  })
  expect_child_ends(c(deparse(head), unlist(lapply(bodies, deparse))), ...)
}

test_that("what C code writes through an address that it keeps is seen on the device", {
  held_in_child(list(quote({
    makes <- list(
      float64 = function() as_gpu(c(1, 2, 3, 4)), float32 = function()
        as_gpu(c(1, 2, 3, 4), "float32"), int64 = function() as_gpu(c(1, 2, 3, 4), "int64"),
      int32 = function() as_gpu(1:4), int8 = function() as_gpu(1:4, "int8"), bool8 = function()
        as_gpu(c(FALSE, FALSE, FALSE, TRUE)),
      complex128 = function() as_gpu(c(1i, 2i, 3i, 4i)), complex64 = function() as_gpu(c(1i, 2i, 3i, 4i), "complex64"),
      recorded = function() as_gpu(c(1, 2, 3, 4)) * 2, long = function() as_gpu(as.numeric(1:1000)),
      wrapped = function() structure(as_gpu(as.numeric(1:100)), note = "from 64 elements on base R wraps it")
    )
    forms <- list(
      call = function(x, f) .Call("hold", x, f), external = function(x, f) .External("hold_external", x, f),
      unwind = function(x, f) .Call("hold_unwind", x, f)
    )
    for (make in names(makes)) for (form in names(forms)) {
      body <- function(x) {
        seen <- list()
        forms[[form]](x, function() {
          # a read, what is computed, what is only recorded, a part, a copy
          y <- x
          seen <<- c(seen, list(x[1:3], sum(x), x * 2L, rev(x), x[2:4], y, list(x + x)[[1]] - x))
        })
        c(seen, list(x, sum(x), x + 1L))
      }
      same(paste(make, form), makes[[make]], body)
    }
  })), timeout = 120)
})

test_that("holders nest, end by errors, and hold several arrays", {
  held_in_child(list(quote({
    numbers <- function() as_gpu(c(1, 2, 3, 4))
    same("nested", numbers, function(x) {
      seen <- list()
      inner <- function() {
        .Call("hold", x, function() seen <<- c(seen, list(x * 1)))
        .Call("write_once", x, 3L, -5)
        seen <<- c(seen, list(sum(x), x * 1))
      }
      .Call("hold", x, inner)
      c(seen, list(x * 1))
    })
    same("error", numbers, function(x) {
      try(.Call("hold", x, function() stop("here")), silent = TRUE)
      a <- x * 1
      try(.Call("hold", x, function() if (sum(x) > 100) stop("here")), silent = TRUE)
      list(a, x * 1, sum(x))
    })
    same("two", numbers, function(x) {
      y <- x + 10
      seen <- list()
      .Call("hold_two", x, y, function() seen <<- c(seen, list(x * 1, y * 1, sum(x + y))))
      c(seen, list(x, y, x + y))
    })
    same("quotients", numbers, function(x) .Call("quotients", x, function() as.vector(sum(x * c(1, 10, 100, 1000)))))
    same("deep", numbers, function(x) {
      down <- function(k) if (k > 0L) down(k - 1L) else .Call("quotients", x,
        function() as.vector(sum(x * c(1, 10, 100, 1000))))
      list(down(0L), down(30L), down(3L), x * 1)
    })
    same("assigned", numbers, function(x) {
      # the caller's array is another one than what R code assigns to
      y <- x
      .Call("hold", x, function() y[4] <<- y[1])
      list(x * 1, y * 1)
    })
  })))
})

test_that("an array gets other values, or loses them, while C code holds its address", {
  held_in_child(list(quote({
    same("out", function() as_gpu(c(1, 2, 3, 4)), function(x) {
      k <- 0
      .Call("hold", x, function() {
        k <<- k + 1
        # a host vector's elements are written where they are
        if (is_gpu(x)) gpu_copy(c(1, 1, 1, 1) * k, x) else for (i in 0:3) .Call("write_once", x, i, k)
      })
      list(x * 1, sum(x))
    })
    x <- as_gpu(c(1, 2, 3, 4))
    .Call("hold", x, function() gpu_compute(x * 2, out = x))
    stopifnot(identical(as.vector(x), c(200, 120, 70, 16)), sum(x) == 406)
    x <- as_gpu(as.numeric(1:100000))
    said <- tryCatch({ .Call("hold", x, function() { gpu_free(x); gc() }); x[1] },
      verdigris_error_consumed = function(e) "consumed")
    stopifnot(identical(said, "consumed"))
  })))
})

test_that("an address that nobody keeps costs one upload", {
  withr::local_options(verdigris.host_access = "allow")
  x <- gpu(as.numeric(1:1000))
  y <- gpu_compute(x + 0)
  identical(x, y)
  changed <- function() {
    count <- 0
    last <- gpu_pointer(x, writable = FALSE)$address
    for (k in 1:10) {
      force(x + k)
      now <- gpu_pointer(x, writable = FALSE)$address
      count <- count + (now != last)
      last <- now
    }
    count
  }
  expect_lte(changed(), 1)
  order(x)
  cumsum(collect(x))
  expect_lte(changed(), 1)
})

test_that("functions of stats that call back give what they give with host vectors", {
  withr::local_options(verdigris.host_access = "allow")
  same <- function(body) {
    # device arithmetic differs from the host's in the last bits of functions
    expect_equal(collect_all(body(gpu)), collect_all(body(identity)), tolerance = 1e-6)
  }
  collect_all <- function(v) if (is.list(v)) lapply(v, collect_all) else if (is_gpu(v)) collect(v) else v
  same(function(a) {
    x <- seq(0.5, 5, length.out = 12)
    e <- new.env()
    e$p <- a(c(1.5, 0.25))
    e$x <- a(x)
    d <- numericDeriv(quote(p[1] * exp(-p[2] * x)), "p", e)
    list(as.vector(d), as.vector(attr(d, "gradient")))
  })
  set.seed(1)
  data <- data.frame(x = seq(0.5, 5, length.out = 20))
  data$y <- 3 * exp(-0.4 * data$x) + stats::rnorm(20, sd = 0.02)
  same(function(a) {
    fit <- nls(y ~ p[1] * exp(-p[2] * x), data, start = list(p = a(c(2, 0.3))))
    list(unname(as.vector(coef(fit))), as.vector(resid(fit)))
  })
  same(function(a) coef(nls(y ~ p * exp(-q * x), data, start = list(p = a(2), q = a(0.3)))))
  rosenbrock <- function(p) 100 * (p[2] - p[1]^2)^2 + (1 - p[1])^2
  value <- function(f) function(p) as.vector(f(p))
  for (method in c("Nelder-Mead", "BFGS", "CG", "L-BFGS-B")) {
    same(function(a) optim(a(c(-1.2, 1)), value(function(p) rosenbrock(a(p))), method = method)$value)
  }
  same(function(a) as.vector(optimHess(a(c(1, 1)), value(function(p) rosenbrock(a(p))))))
  same(function(a) nlm(value(function(p) rosenbrock(a(p))), a(c(-1.2, 1)))$minimum)
  same(function(a) nlminb(a(c(-1.2, 1)), value(function(p) rosenbrock(a(p))))$objective)
  same(function(a) integrate(function(u) as.vector(exp(-a(u)^2)), 0, 2)$value)
  same(function(a) uniroot(function(u) as.vector(a(u)^2 - 2), c(0, 2))$root)
  same(function(a) optimize(function(u) as.vector((a(u) - 0.3)^2), c(0, 1))$minimum)
})
