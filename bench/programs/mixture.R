# A mixture of three normal distributions by EM (Dempster, Laird and Rubin 1977): 2e6 values, 50 turns.
inputs <- function() {
  u <- det(N(2e6))
  list(x = up(qnorm(pmin(pmax(u, 1e-6), 1 - 1e-6)) + 4 * (det(length(u), 3) > 0.6)))
}
program <- function(x) {
  mu <- c(-1, 1, 4)
  sigma <- c(1, 1, 1)
  share <- rep(1 / 3, 3)
  for (turn in 1:50) {
    d <- lapply(1:3, function(k) share[k] * dnorm(x, mu[k], sigma[k]))
    all <- d[[1]] + d[[2]] + d[[3]]
    for (k in 1:3) {
      r <- d[[k]] / all
      n <- sum(r)
      mu[k] <- sum(r * x) / n
      sigma[k] <- sqrt(sum(r * (x - mu[k])^2) / n)
      share[k] <- n / length(x)
    }
  }
  sum(mu * share)
}
