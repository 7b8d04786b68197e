# An Asian option by Monte Carlo (Glasserman 2003): 2e6 paths of 100 days.
inputs <- function() list(n = N(2e6))
program <- function(n) {
  set.seed(1)
  s <- full(100, n)
  total <- full(0, n)
  for (day in 1:100) {
    s <- s * exp(0.0002 + 0.02 * normal(n))
    total <- total + s
  }
  mean(pmax(total / 100 - 100, 0))
}
