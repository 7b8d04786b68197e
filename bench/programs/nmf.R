# Non-negative matrix factorisation by multiplicative updates (Lee and Seung 2001): 5000 x 2000, rank 20, 100 turns.
inputs <- function() {
  n <- N(5000)
  m <- N(2000)
  list(V = up(matrix(det(n * m), n), "float32"), W = up(matrix(det(n * 20, 2) + 0.1, n), "float32"),
    H = up(matrix(det(20 * m, 3) + 0.1, 20), "float32"))
}
program <- function(V, W, H) {
  for (turn in 1:100) {
    H <- H * crossprod(W, V) / (crossprod(W) %*% H + 1e-9)
    W <- W * tcrossprod(V, H) / (W %*% tcrossprod(H) + 1e-9)
  }
  mean((V - W %*% H)^2)
}
