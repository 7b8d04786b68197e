# Draws what README and the site show, into man/figures: ratios.png (twenty cases of bench/results.md against the best
# peer) and fused.png (an expression, and the kernel that gpu_explain() says it becomes).
# man/figures/basket-option.png is what examples/basket-option.R writes, reduced by `pngquant 8`.
#
# usage: Rscript tools/doc/pictures.R [FOLDER]     verdigris must be in R_LIBS

suppressPackageStartupMessages(library(verdigris))
folder <- c(commandArgs(TRUE), "man/figures")[1L]
lines <- readLines("bench/results.md")
cells <- strsplit(grep("^[|] [a-z]", lines, value = TRUE), " | ", fixed = TRUE)
results <- data.frame(
  name = sub("^[|] ", "", vapply(cells, `[`, "", 1L)), ms = suppressWarnings(as.numeric(vapply(cells, `[`, "", 3L))),
  peer = vapply(cells, `[`, "", 4L), peer_ms = suppressWarnings(as.numeric(vapply(cells, `[`, "", 5L)))
)
rownames(results) <- results$name

# ---- speed -----------------------------------------------------------------------------------------------------
shown <- c(
  axpy_f64 = "2.5 * x + y", chain_f64 = "chain of ten operations", transpose_f64 = "t(m)", sum_f64 = "sum(x)",
  var_f64 = "var(x)", colsums_f64 = "colSums(m)", softmax_contiguous_f32 = "softmax, float32", cumsum_f64 = "cumsum(x)",
  sort_f64 = "sort(x)", order_f64 = "order(x)", gather_f64 = "x[i]", mask_f64 = "x[x > 0]",
  rowsum_f64 = "rowsum(x, g)", quantile_f64 = "quantile(x)", rnorm_f64 = "normals", matmul_f64_8192 = "A %*% B, 8192",
  solve_f64_4096 = "solve(A, B), 4096", svd_f64_2048 = "svd(A), 2048", small_add = "x + y, ten elements"
)
transfers <- (results$ms / results$peer_ms)[grepl("^(h2d|d2h)_", results$name)]
rows <- rbind(
  data.frame(label = unname(shown), results[names(shown), c("ms", "peer", "peer_ms")]),
  data.frame(label = sprintf("transfers (median of %d)", length(transfers)), ms = stats::median(transfers), peer = "",
    peer_ms = 1)
)
stopifnot(nrow(rows) == 20L, !anyNA(rows$ms / rows$peer_ms))
rows$ratio <- rows$ms / rows$peer_ms
rows <- rows[order(-rows$ratio), ]
grDevices::png(file.path(folder, "ratios.png"), 1200, 750, res = 150, pointsize = 10)
graphics::par(mar = c(4, 13, 3.2, 6), las = 1)
at <- graphics::barplot(rows$ratio, horiz = TRUE, names.arg = rows$label, border = NA, xlim = c(0, 2), axes = FALSE,
  col = ifelse(rows$ratio > 1.03, "#b5452c", "#2a7f62"), xlab = "time, best of CuPy, PyTorch and JAX = 1")
graphics::axis(1)
graphics::abline(v = 1, lty = 2)
graphics::title("verdigris against the fastest Python library, NVIDIA H100", line = 1.6, cex.main = 1.15)
graphics::mtext("1e8 doubles unless stated; bench/results.md, 2026-11-28", line = 0.5, cex = 0.85)
who <- sub("^torch$", "PyTorch", sub("^cupy.*", "CuPy", sub("^jax", "JAX", rows$peer)))
graphics::mtext(who, side = 4, at = at, line = 0.3, cex = 0.75, col = "grey40")
graphics::legend("bottomright", c("as fast or faster (within 3%)", "slower"), fill = c("#2a7f62", "#b5452c"),
  border = NA, bty = "n", inset = c(0, 0.55))
invisible(grDevices::dev.off())

# ---- fusion ----------------------------------------------------------------------------------------------------
gpu_use("cpu")
set.seed(1)
x <- gpu_compute(gpu_runif(1e6))
y <- gpu_compute(gpu_runif(1e6))
told <- utils::capture.output(gpu_explain(sqrt(x^2 + y^2) < 1))
stopifnot(grepl("one kernel", told[1L]))
grDevices::png(file.path(folder, "fused.png"), 1200, 450, res = 150, pointsize = 12)
graphics::par(mar = rep(0, 4))
graphics::plot.new()
graphics::plot.window(c(0, 8), c(0, 3))
box <- function(from, to, low, high, fill) graphics::rect(from, low, to, high, col = fill, border = "grey60")
box(0.1, 2.9, 0.3, 2.5, "#f4f4f4")
graphics::text(1.5, 2.75, "R code", font = 2)
graphics::text(0.3, seq(2.1, by = -0.4, length.out = 4), c("a <- x^2 + y^2", "r <- sqrt(a)", "inside <- r < 1",
  "# one kernel, one pass"), adj = 0, family = "mono", cex = 0.9)
graphics::arrows(3, 1.4, 3.5, 1.4, length = 0.1, lwd = 2)
box(3.6, 7.9, 0.3, 2.5, "#cfe8dd")
graphics::text(5.75, 2.75, "what gpu_explain() shows", font = 2)
graphics::text(3.7, seq(2.3, by = -0.235, length.out = length(told)), told, adj = 0, family = "mono", cex = 0.68)
invisible(grDevices::dev.off())

# 16 colours are enough, for an eighth of the bytes: the pictures are in the tarball.
for (name in c("ratios.png", "fused.png")) {
  picture <- file.path(folder, name)
  if (Sys.which("pngquant") == "") stop("pngquant is missing: apt-get install pngquant")
  system2("pngquant", c("--strip", "--speed", "1", "--force", "--output", picture, "16", picture))
}
