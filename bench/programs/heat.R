# The heat equation by explicit differences on slices of a 2048 x 2048 grid, 200 steps.
inputs <- function() {
  n <- N(2048)
  list(start = up(matrix(det(n * n), n), "float32"))
}
program <- function(start) {
  u <- start
  i <- 2:(nrow(u) - 1)
  for (step in 1:200)
    u[i, i] <- u[i, i] + 0.2 * (u[i - 1, i] + u[i + 1, i] + u[i, i - 1] + u[i, i + 1] - 4 * u[i, i])
  sum(u)
}
