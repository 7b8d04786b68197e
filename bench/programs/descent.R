# Logistic regression by gradient descent: 1e5 x 20, 1,000 steps.
inputs <- function() {
  n <- N(1e5)
  list(X = up(matrix(det(n * 20), n), "float32"), y = up(as.numeric(det(n, 7) > 0.4), "float32"))
}
program <- function(X, y) {
  b <- up(matrix(0, ncol(X), 1), "float32")
  for (step in 1:1000) {
    mu <- 1 / (1 + exp(-(X %*% b)))
    b <- b - 1e-3 * crossprod(X, mu - y) / nrow(X)
  }
  sum(b)
}
