# PageRank (Brin and Page 1998) by power iteration on a dense graph of 8,000 pages, 100 turns.
inputs <- function() {
  n <- N(8000)
  A <- matrix(as.numeric(det(n * n, 5) > 0.99), n)
  list(P = up(sweep(A, 2, pmax(colSums(A), 1), "/"), "float32"))
}
program <- function(P) {
  n <- nrow(P)
  r <- up(matrix(1 / n, n, 1), "float32")
  for (turn in 1:100) {
    r <- 0.85 * (P %*% r) + 0.15 / n
    r <- r / sum(r)
  }
  max(r)
}
