# The Mandelbrot set (Mandelbrot 1980) on a grid of 2000 x 2000, 100 turns, in real numbers.
inputs <- function() {
  n <- N(2000)
  x <- seq(-2, 0.6, length.out = n)
  list(cx = up(matrix(rep(x, n), n)), cy = up(matrix(rep(seq(-1.3, 1.3, length.out = n), each = n), n)))
}
program <- function(cx, cy) {
  x <- cx * 0
  y <- x
  count <- x
  for (turn in 1:100) {
    new <- pmin(x * x - y * y + cx, 4)
    y <- pmin(2 * x * y + cy, 4)
    x <- new
    count <- count + (x * x + y * y < 4)
  }
  mean(count)
}
