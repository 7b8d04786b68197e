# The forward algorithm of a hidden Markov model (Rabiner 1989): 1e5 sequences of 200 symbols, 8 states.
inputs <- function() {
  n <- N(1e5)
  A <- matrix(det(64, 3) + 0.1, 8)
  B <- matrix(det(32, 5) + 0.1, 8)
  list(A = up(A / rowSums(A)), B = up(t(B / rowSums(B))), symbols = up(matrix(1L + as.integer(4 * det(n * 200, 7)), n)))
}
program <- function(A, B, symbols) {
  a <- B[symbols[, 1], ] / 8
  total <- 0
  for (t in 2:ncol(symbols)) {
    a <- (a %*% A) * B[symbols[, t], ]
    scale <- rowSums(a)
    a <- a / scale
    total <- total + sum(log(scale))
  }
  total
}
