# The log likelihood of a Gaussian process (Rasmussen and Williams 2006, algorithm 2.1), 6,000 points.
inputs <- function() list(x = up(det(N(6000)) * 10))
program <- function(x) {
  y <- sin(x)
  K <- exp(-0.5 * outer(x, x, "-")^2)
  diag(K) <- diag(K) + 1e-2
  R <- chol(K)
  a <- backsolve(R, forwardsolve(t(R), y))
  -0.5 * sum(y * a) - sum(log(diag(R)))
}
