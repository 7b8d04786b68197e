# Conway's game of life (Gardner 1970) on a torus of 2048 x 2048, 100 steps.
inputs <- function() {
  n <- N(2048)
  list(start = up(matrix(as.integer(det(n * n, 3) > 0.7), n)))
}
program <- function(start) {
  m <- start
  n <- nrow(m)
  before <- c(n, 1:(n - 1))
  after <- c(2:n, 1)
  for (step in 1:100) {
    rows <- m[before, ] + m + m[after, ]
    around <- rows[, before] + rows + rows[, after] - m
    m <- (around == 3L | (m == 1L & around == 2L)) + 0L
  }
  sum(m)
}
