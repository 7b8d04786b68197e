# An analysis as it is typed: fifteen different figures of two columns of 1e7.
inputs <- function() list(z = up(det(N(1e7))), w = up(det(N(1e7), 3)))
program <- function(z, w) sum(c(mean(z), sd(z), mean(z^2) - mean(z)^2, cor(z, w), max(abs(z - w)), sum(z > 0.5 & w < 0.5),
  mean(z[w > 0.9]), median(z), mean(log1p(z)), sum(sqrt(z) * w), var(z - w), range(z * w)[2],
  mean((z - mean(z))^3) / sd(z)^3, sum(exp(-z / 2)), mean(ifelse(z > w, z, w))))
