# Fits Rice's distribution to magnitudes by maximum likelihood: optim() with the gradient of gpu_grad().
#
# usage: Rscript examples/rice-likelihood.R [DEVICE] [N]     cuda:0 and 1e7 where there is a GPU, else cpu and 1e5
#
# The magnitude of a complex signal with normal noise has Rice's distribution: so have pixels of magnetic resonance
# images. Its density has a Bessel function for each observation:
#   f(x) = x / s^2 exp(-(x^2 + v^2) / (2 s^2)) I0(x v / s^2)

suppressPackageStartupMessages(library(verdigris))
arguments <- commandArgs(TRUE)
device <- if (length(arguments)) arguments[[1L]] else if (nrow(gpu_devices()) > 1L) "cuda:0" else "cpu"
n <- if (length(arguments) > 1L) as.numeric(arguments[[2L]]) else if (device == "cpu") 1e5 else 1e7
signal <- 1.5
noise <- 0.8

set.seed(1)
x <- gpu_compute(sqrt((signal + noise * gpu_rnorm(n, device = device))^2 + (noise * gpu_rnorm(n, device = device))^2))

# Minus the logarithm of the density. The scaled function keeps large arguments in range; the noise is exp(l).
loss <- function(x, v, l) {
  s <- exp(l)
  z <- x * v / s^2
  (x - v)^2 / (2 * s^2) + 2 * l - log(x) - log(besselI(z, 0, expon.scaled = TRUE))
}
terms <- gpu_compile(loss)
slope <- gpu_grad(loss, c("v", "l"))
value <- function(p) as.numeric(sum(terms(x, p[1], p[2]))) / n
gradient <- function(p) as.vector(slope(x, p[1], p[2])) / n
start <- c(as.numeric(mean(x)), 0)
# once, so that compilation is not counted
invisible(c(value(start), gradient(start)))
seconds <- system.time(fit <- optim(start, value, gradient, method = "BFGS", control = list(reltol = 1e-12)))[["elapsed"]]

# the information matrix by differences of the exact gradient
h <- 1e-5
information <- sapply(1:2, function(k) {
  step <- replace(numeric(2), k, h)
  (gradient(fit$par + step) - gradient(fit$par - step)) / (2 * h)
}) * n
errors <- sqrt(diag(solve((information + t(information)) / 2)))
estimate <- c(fit$par[1], exp(fit$par[2]))
errors[2] <- errors[2] * estimate[2]
cat(sprintf("%s, %g observations: %.3f s, %d values, %d gradients\n", device, n, seconds, fit$counts[["function"]],
  fit$counts[["gradient"]]))
print(rbind(true = c(signal = signal, noise = noise), estimate = estimate, "standard error" = errors), digits = 6)
stopifnot(abs(estimate - c(signal, noise)) < 5 * errors)

# the same numbers from base R's functions, for some of the observations
some <- collect(x[1:1000])
ours <- gpu_grad(loss, c("v", "l"))(as_gpu(some, device = device), fit$par[1], fit$par[2])
stopifnot(all.equal(attr(ours, "value"), sum(loss(some, fit$par[1], fit$par[2])), tolerance = 1e-12))
