# With torch for R itself, where it is installed and started: what test-interop-torch.R asks of the stand-in, and the
# vignette's calls.
# usage: R_LIBS=build/library Rscript tests/torch/real.R [cuda]         prints what each way costs, and "ok"
library(torch)
library(verdigris)
device <- if (length(commandArgs(TRUE))) commandArgs(TRUE)[[1]] else "cpu"
gpu_use(device)
address <- function(x) .Call(verdigris:::C_dlpack_describe, as_dlpack(x))$address
here <- function(t) if (device == "cpu") t else t$cuda()
run_finalizers <- function() for (k in 1:3) { gc(); as_gpu(1) }

m <- matrix(as.numeric(1:6), 2)
x <- as_gpu(m)
t <- as_torch(x)
stopifnot(identical(as.array(t$cpu()), m), t$shape == c(2, 3), unlist(t$stride()) == c(1, 2),
  address(as_gpu(t)) == address(x))
t$mul_(10)
stopifnot(identical(as.matrix(x + 0), m * 10), identical(as.matrix(as_gpu(t$t())), t(m) * 10))
z <- here(torch_tensor(m))
a <- as_gpu(z)
stopifnot(gpu_dtype(a) == "float32", identical(as.matrix(a), m))
z$fill_(3)
stopifnot(identical(collect(a * 1), matrix(3, 2, 3)))
for (d in c("float64", "float32", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool8",
  "complex64", "complex128")) {
  stopifnot(gpu_dtype(as_gpu(as_torch(as_gpu(c(1, 0, 1), d)))) == d)
}

refused <- function(expr, pattern, kind = "argument") {
  e <- tryCatch(expr, error = identity)
  stopifnot(inherits(e, paste0("verdigris_error_", kind)), grepl(pattern, conditionMessage(e)))
}
w <- here(torch_tensor(c(1, 2)))$requires_grad_()
refused(as_gpu(w), "gradient")
refused(as_gpu(w * 2), "gradient")
stopifnot(identical(collect(as_gpu(w, detach = TRUE)), c(1, 2)))
(w * as_torch(as_gpu(c(3, 4), "float32")))$sum()$backward()
stopifnot(identical(collect(as_gpu(w$grad)), c(3, 4)))
refused(as_gpu(torch_tensor(1i)$conj()), "conjugated")
refused(as_gpu(torch_eye(3)$to_sparse()), "sparse")
refused(as_gpu(unserialize(serialize(z, NULL))), "empty")
refused(as_torch(as_gpu(c(TRUE, NA))), "NA", "dtype")

run_finalizers()
live <- gpu_memory()[["live"]]
for (k in 1:20000) as_gpu(as_torch(x))
run_finalizers()
stopifnot(gpu_memory()[["live"]] <= live)
big <- as_torch(as_gpu(as.numeric(1:1e6)))
part <- big$view(c(1000, 1000))
rm(big)
run_finalizers()
stopifnot(as.array(part[1000, 1000]$cpu()) == 1e6, gpu_memory()[["live"]] >= live + 8e6)
rm(part)
run_finalizers()
stopifnot(gpu_memory()[["live"]] <= live)

micro <- function(f) {
  times <- vapply(1:20, function(k) {
    gc()
    start <- Sys.time()
    for (i in 1:500) f()
    as.numeric(Sys.time() - start, units = "secs") / 500 * 1e6
  }, 0)
  sprintf("%.2f us (least %.2f)", stats::median(times), min(times))
}
cat("torch", format(utils::packageVersion("torch")), "on", device, "\nas_torch(x)    ", micro(function() as_torch(x)),
  "\nas_gpu(tensor) ", micro(function() as_gpu(t)),
  "\nt$detach()     ", micro(function() t$detach()), "\nok\n")
