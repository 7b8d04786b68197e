# What R's byte compiler takes for the functions of the engine's example `routines`, on one core:
#   Rscript bench/routines.R
#   cargo run --release -p verdigris-engine --manifest-path src/rust/Cargo.toml --example routines
# Both print nanoseconds of processor time, so others may use the machine.

functions <- lapply(list(
  mandelbrot = function(cx, cy) {
    x <- 0
    y <- 0
    for (i in 1:1000) {
      x2 <- x * x
      y2 <- y * y
      if (x2 + y2 > 4) return(i)
      y <- 2 * x * y + cy
      x <- x2 - y2 + cx
    }
    1000L
  },
  path = function(s, drift, vol) {
    for (t in 1:252) s <- s * exp(drift + vol * rnorm(1))
    s
  },
  newton = function(a) {
    x <- a
    repeat {
      s <- (x * x * x - a) / (3 * x * x)
      x <- x - s
      if (abs(s) < 1e-12 * abs(x)) break
    }
    x
  },
  epidemic = function(beta, gamma) {
    s <- 0.99
    i <- 0.01
    r <- 0
    top <- 0
    for (t in 1:100) {
      new <- beta * s * i
      rec <- gamma * i
      s <- s - new
      i <- i + new - rec
      r <- r + rec
      if (i > top) top <- i
    }
    top
  },
  walk = function(x) {
    for (t in 1:100) {
      u <- runif(1)
      if (u < 0.5) x <- x + sqrt(u) else x <- x - exp(u)
      if (x < -5) {
        x <- 0
        next
      }
      x <- 0.99 * x
    }
    x
  }
), compiler::cmpfun)

report <- function(name, elements, turns, expression) {
  each <- system.time(expression)[["user.self"]] / elements * 1e9
  cat(sprintf("%s: %.1f ns an element, %.2f a turn\n", name, each, each / turns))
}

n <- 64
points <- expand.grid(x = seq(-2, 0.6, length.out = n), y = seq(-1.3, 1.3, length.out = n))
turns <- mean(mapply(functions$mandelbrot, points$x, points$y))
report("mandelbrot", n * n, turns, for (k in seq_len(n * n)) functions$mandelbrot(points$x[k], points$y[k]))
report("path", 2000, 252, for (k in 1:2000) functions$path(100, 1e-4, 0.01))
a <- 1 + 99 * (0:49999) / 50000
report("newton", 50000, 1, for (k in 1:50000) functions$newton(a[k]))
report("epidemic", 5000, 100, for (k in 1:5000) functions$epidemic(0.3 + 0.4 * k / 5000, 0.1))
report("walk", 2000, 100, for (k in 1:2000) functions$walk(0))
