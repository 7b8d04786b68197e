# The lasso by FISTA (Beck and Teboulle, SIAM J. Imaging Sci. 2, 2009): 20,000 x 2,000, 200 turns.
inputs <- function() {
  n <- N(20000)
  p <- N(2000)
  list(X = up(matrix(det(n * p) - 0.5, n), "float32"), y = up(matrix(det(n, 5) - 0.5, n), "float32"))
}
program <- function(X, y) {
  p <- ncol(X)
  step <- 1 / sum(X^2)
  b <- up(matrix(0, p, 1), "float32")
  z <- b
  t <- 1
  for (turn in 1:200) {
    g <- z - step * crossprod(X, X %*% z - y)
    new <- sign(g) * pmax(abs(g) - step * 0.1, 0)
    t_new <- (1 + sqrt(1 + 4 * t^2)) / 2
    z <- new + (t - 1) / t_new * (new - b)
    b <- new
    t <- t_new
  }
  sum(abs(b))
}
