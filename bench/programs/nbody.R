# Bodies under gravity, all pairs (Aarseth 2003, softened): 4,000 bodies, 20 steps.
inputs <- function() {
  n <- N(4000)
  list(at = up(matrix(det(3 * n), n), "float32"), mass = up(det(n, 3) / n, "float32"))
}
program <- function(at, mass) {
  speed <- at * 0
  for (step in 1:20) {
    d <- lapply(1:3, function(k) outer(at[, k], at[, k], "-"))
    inverse <- (d[[1]]^2 + d[[2]]^2 + d[[3]]^2 + 1e-3)^-1.5
    pull <- cbind((d[[1]] * inverse) %*% mass, (d[[2]] * inverse) %*% mass, (d[[3]] * inverse) %*% mass)
    speed <- speed - 1e-3 * pull
    at <- at + 1e-3 * speed
  }
  sum(speed^2)
}
