# The randomised singular value decomposition (Halko, Martinsson and Tropp 2011): 10,000 x 4,000, rank 50.
inputs <- function() {
  n <- N(10000)
  m <- N(4000)
  A <- outer(det(n), det(m, 3)) + matrix(det(n * m, 5), n) / 10
  list(A = up(A), start = up(matrix(det(m * 50, 7) - 0.5, m)))
}
program <- function(A, start) {
  Q <- A %*% start
  for (turn in 1:3) {
    Q <- qr.Q(qr(Q))
    Q <- A %*% crossprod(A, Q)
  }
  Q <- qr.Q(qr(Q))
  sum(svd(crossprod(Q, A))$d[1:10])
}
