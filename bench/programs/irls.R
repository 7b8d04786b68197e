# Logistic regression by iteratively reweighted least squares (McCullagh and Nelder 1989): 1e6 x 50, 10 turns.
inputs <- function() {
  n <- N(1e6)
  list(X = up(cbind(1, matrix(det(n * 49), n))), y = up(as.numeric(det(n, 7) > 0.4)))
}
program <- function(X, y) {
  b <- rep(0, ncol(X))
  for (turn in 1:10) {
    eta <- X %*% b
    mu <- 1 / (1 + exp(-eta))
    w <- as.vector(mu * (1 - mu))
    z <- eta + (y - mu) / w
    b <- solve(crossprod(X, X * w), crossprod(X, z * w))
  }
  sum(b)
}
