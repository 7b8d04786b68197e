# The bootstrap of a mean (Efron 1979): 10,000 values, drawn 5,000 times.
inputs <- function() list(x = up(det(N(10000)), "float32"), times = N(5000))
program <- function(x, times) {
  set.seed(1)
  n <- length(x)
  means <- colMeans(matrix(x[index(n, n * times)], n))
  mean(means)
}
