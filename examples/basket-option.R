# Prices a basket option and measures its risk by Monte Carlo, from four stock indices' history.
#
# usage: Rscript examples/basket-option.R [PATHS] [FOLDER]
# The same arithmetic runs on base R, on the cpu device, and on a CUDA device where there is one. Base R gets fewer paths,
# so paths a second are compared.
# Writes basket-option.png and basket-option.csv into FOLDER (default build/demo).

suppressPackageStartupMessages(library(verdigris))
arguments <- commandArgs(TRUE)
paths <- if (length(arguments) >= 1L) as.numeric(arguments[1L]) else 1e7
folder <- if (length(arguments) >= 2L) arguments[2L] else file.path("build", "demo")
dir.create(folder, recursive = TRUE, showWarnings = FALSE)

# ---- the market: drift, volatility and correlation of daily log returns, 260 trading days a year ------------
prices <- datasets::EuStockMarkets
days <- 260
history <- as_gpu(unclass(prices)[, ])
n <- nrow(prices)
returns <- log(history[2:n, ] / history[1:(n - 1), ])
drift <- collect(colMeans(returns)) * days
centred <- returns - matrix(collect(colMeans(returns)), n - 1, ncol(prices), byrow = TRUE)
covariance <- collect(t(centred) %*% centred) / (n - 2) * days
volatility <- sqrt(diag(covariance))
correlation <- covariance / outer(volatility, volatility)
stopifnot(all.equal(covariance, stats::cov(diff(log(unclass(prices)[, ]))) * days, check.attributes = FALSE))
cat("Yearly drift, volatility and correlation of", colnames(prices), "\n")
print(round(rbind(drift = drift, volatility = volatility, correlation), 3))

# ---- the contract: a call on the equally weighted basket, each index at 100 today ---------------------------
weights <- rep(1 / ncol(prices), ncol(prices))
rate <- 0.03
maturity <- 1
strike <- 100
factor <- t(chol(correlation))

# End values of the indices from a list of standard normals, one vector an index. Plain arithmetic:
# numbers may be host vectors or arrays on any device.
end_values <- function(z, drift, horizon) {
  lapply(seq_along(z), function(k) {
    shock <- Reduce(`+`, lapply(seq_len(k), function(j) factor[k, j] * z[[j]]))
    100 * exp((drift[k] - volatility[k]^2 / 2) * horizon + volatility[k] * sqrt(horizon) * shock)
  })
}

evaluate <- function(z) {
  neutral <- end_values(z, rep(rate, length(z)), maturity)
  arithmetic <- Reduce(`+`, Map(`*`, weights, neutral))
  geometric <- exp(Reduce(`+`, Map(function(w, s) w * log(s), weights, neutral)))
  payoff <- exp(-rate * maturity) * pmax(arithmetic - strike, 0)
  control <- exp(-rate * maturity) * pmax(geometric - strike, 0)
  # ten trading days of the real market, for the value at risk of the basket
  loss <- 100 - Reduce(`+`, Map(`*`, weights, end_values(z, drift, 10 / days)))
  list(
    price = mean(payoff), error = sd(payoff) / sqrt(length(payoff)),
    geometric = mean(control), geometric_error = sd(control) / sqrt(length(control)),
    risk = unname(quantile(loss, 0.99)), payoff = payoff, loss = loss
  )
}

# The geometric basket is lognormal, so its option has Black and Scholes' formula (Kemna and Vorst 1990).
closed_form <- local({
  s <- sqrt(drop(weights %*% covariance %*% weights))
  forward <- 100 * exp(sum(weights * (rate - volatility^2 / 2)) * maturity + s^2 * maturity / 2)
  d <- (log(forward / strike) + s^2 * maturity / 2) / (s * sqrt(maturity))
  exp(-rate * maturity) * (forward * pnorm(d) - strike * pnorm(d - s * sqrt(maturity)))
})

# ---- the runs ----------------------------------------------------------------------------------------------
devices <- "cpu"
if (nrow(subset(gpu_devices(), device != "cpu"))) devices <- c(devices, "cuda")
draws <- function(device, m) lapply(weights, function(w) gpu_rnorm(m, device = device))
timed <- function(code) {
  seconds <- system.time(value <- code, gcFirst = TRUE)[["elapsed"]]
  c(value, seconds = seconds)
}
results <- list()
few <- min(paths, 1e6)
set.seed(1)
results[["base R"]] <- timed(evaluate(lapply(weights, function(w) stats::rnorm(few))))
for (device in devices) {
  # once on few paths, so that a new expression's compilation is not counted
  evaluate(draws(device, 1e4))
  set.seed(1)
  results[[device]] <- timed(evaluate(draws(device, paths)))
}
counts <- c(few, rep(paths, length(devices)))
table <- do.call(rbind, Map(function(name, r, m) {
  data.frame(on = name, paths = m, price = r$price, std_error = r$error, geometric = r$geometric,
             closed_form = closed_form, var_99 = r$risk, paths_per_second = m / r$seconds)
}, names(results), results, counts))
rownames(table) <- NULL
shown <- table
shown[c("paths", "paths_per_second")] <- lapply(table[c("paths", "paths_per_second")], function(v) {
  format(signif(v, 3), big.mark = ",", scientific = FALSE)
})
options(width = 100)
print(shown[c("on", "paths", "paths_per_second", "price", "std_error", "geometric", "closed_form", "var_99")], digits = 5)
write.csv(table, file.path(folder, "basket-option.csv"), row.names = FALSE)

# ---- checks: the closed form within four standard errors, devices and base R within each other's ----------------
for (r in results) stopifnot(abs(r$geometric - closed_form) < 4 * r$geometric_error)
for (device in devices) {
  r <- results[[device]]
  stopifnot(abs(r$price - results[["base R"]]$price) < 4 * sqrt(r$error^2 + results[["base R"]]$error^2))
}
if (length(devices) == 2L) stopifnot(all.equal(results$cpu$price, results$cuda$price, tolerance = 1e-12))

# base R on the same draws gives the same payoffs
set.seed(1)
z <- draws(devices[length(devices)], 1e5)
same <- evaluate(lapply(z, collect))
stopifnot(all.equal(collect(evaluate(z)$payoff), same$payoff, tolerance = 1e-12))

# ---- out as a DLPack capsule, and back -----------------------------------------------------------------------
payoff <- results[[devices[length(devices)]]]$payoff
capsule <- as_dlpack(payoff)
returned <- from_dlpack(capsule)
stopifnot(identical(sum(returned), sum(payoff)), gpu_device(returned) == gpu_device(payoff))
cat("A DLPack capsule carried", length(returned), "payoffs on", gpu_device(returned), "and back.\n")

# ---- the picture ---------------------------------------------------------------------------------------------
set.seed(2)
walk <- 60
steps <- lapply(weights, function(w) matrix(collect(gpu_rnorm(walk * days, device = "cpu")), walk))
log_paths <- lapply(seq_along(weights), function(k) {
  shock <- Reduce(`+`, lapply(seq_len(k), function(j) factor[k, j] * steps[[j]]))
  t(apply((rate - volatility[k]^2 / 2) / days + volatility[k] / sqrt(days) * shock, 1, cumsum))
})
basket <- Reduce(`+`, Map(function(w, l) w * 100 * exp(l), weights, log_paths))
picture <- file.path(folder, "basket-option.png")
if (!capabilities("png")) quit(save = "no") # an R without graphics: the table and the checks are done
png(picture, width = 1050, height = 450, res = 90)
layout(t(1:2))
par(mar = c(4, 4, 3, 1))
matplot(seq_len(days), t(basket), type = "l", lty = 1, col = adjustcolor("#2a7f72", 0.25), xlab = "trading day",
        ylab = "basket", main = "Paths of the basket")
abline(h = strike, lty = 2)
shown <- collect(head(payoff, 1e5))
hist(shown[shown > 0], breaks = 80, col = "#2a7f72", border = NA, xlab = "discounted payoff",
     main = sprintf("Payoff where positive; price %.3f", results[[devices[length(devices)]]]$price))
invisible(dev.off())
cat("The picture is", normalizePath(picture), "\n")
