# American puts on a binomial tree (Cox, Ross and Rubinstein 1979): 20,000 strikes at once, 500 steps.
inputs <- function() list(strike = up(80 + 40 * det(N(20000)), "float32"))
program <- function(strike) {
  n <- 500
  up_by <- exp(0.2 * sqrt(1 / n))
  p <- (exp(0.05 / n) - 1 / up_by) / (up_by - 1 / up_by)
  leaf <- 100 * up_by^(2 * (0:n) - n)
  value <- pmax(outer(strike, leaf, "-"), 0)
  for (step in n:1) {
    value <- exp(-0.05 / n) * (p * value[, 2:(step + 1)] + (1 - p) * value[, 1:step])
    now <- 100 * up_by^(2 * (0:(step - 1)) - (step - 1))
    value <- pmax(value, outer(strike, now, "-"))
  }
  mean(value)
}
