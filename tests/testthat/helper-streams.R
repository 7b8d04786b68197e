# A random program on some arrays, the same for a seed whatever streams it runs on; its results are compared by bits.
# `streams` is a list of streams (NULL is the initial one), of which each step takes one at random.
random_program <- function(seed, steps, streams = list(NULL), n = 257L, device = test_device) {
  draw <- local({
    state <- seed
    # Lehmer's generator, so that R's is left alone
    function(k) {
      state <<- (state * 48271) %% 2147483647
      1L + as.integer(state %% k)
    }
  })
  choose <- local({
    state <- seed + 17
    function() {
      state <<- (state * 16807) %% 2147483647
      streams[[1L + as.integer(state %% length(streams))]]
    }
  })
  count <- 6L
  set.seed(seed)
  host <- lapply(seq_len(count), function(k) round(stats::runif(n), 6))
  x <- lapply(host, as_gpu, device = device)
  staged <- as_pinned(host[[1L]], device = device)
  held <- NULL
  halve <- function(v) v * 0.5 + 0.125
  steps_known <- list(
    function(i, j, k) x[[k]] <<- gpu_compute(halve(x[[i]]) + x[[j]] * 0.25),
    function(i, j, k) x[[k]] <<- halve(x[[i]]),
    function(i, j, k) gpu_compute(halve(x[[i]]) - halve(x[[j]]), out = x[[k]]),
    function(i, j, k) x[[k]] <<- gpu_compute(halve(x[[i]] - sum(x[[j]]) / n)),
    function(i, j, k) gpu_copy(x[[i]], x[[k]]),
    function(i, j, k) gpu_copy(host[[i]], x[[k]]),
    function(i, j, k) gpu_copy(staged, x[[k]]),
    function(i, j, k) x[[k]] <<- sort(x[[i]]),
    function(i, j, k) x[[k]] <<- gpu_compute(halve(cumsum(x[[i]]) / n)),
    function(i, j, k) x[[k]][c(1L, n, 7L)] <<- x[[i]][1:3],
    function(i, j, k) x[[k]] <<- gpu_compute(rev(x[[i]])),
    function(i, j, k) held <<- x[[i]],
    # memory that is freed while one stream still reads it is asked for on another at once
    function(i, j, k) {
      y <- gpu_compute(halve(x[[i]]))
      z <- gpu_compute(halve(y) + x[[j]] * 0.25)
      with_gpu_stream(choose(), {
        gpu_free(y)
        x[[j]] <<- gpu_compute(x[[k]] * 0.75)
      })
      x[[k]] <<- z
    },
    function(i, j, k) if (!is.null(held)) x[[k]] <<- gpu_compute(held + 0.5 * x[[j]] - 0.25),
    function(i, j, k) x[[k]] <<- gpu_compute(x[[i]][order(x[[j]])]),
    function(i, j, k) x[[k]] <<- as_gpu(host[[j]], device = device)
  )
  if (grepl("^cuda", device)) steps_known <- c(steps_known, kernel_steps(host, choose))
  for (step in seq_len(steps)) {
    what <- steps_known[[draw(length(steps_known))]]
    i <- draw(count); j <- draw(count); k <- draw(count)
    with_gpu_stream(choose(), what(i, j, k))
  }
  gpu_sync(device)
  lapply(x, as.vector)
}

# Steps of `random_program()` with kernels of a module that has variables: called on a stream by `stream =`, in place
# and with new arrays.
kernel_steps <- function(host, choose) {
  module <- gpu_module('
    __device__ double weights[4];
    __device__ double latest[4];
    __global__ void blend(const double* x, double* y, double a, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = 0.5 * y[i] + a * x[i];
    }
    __global__ void weigh(const double* x, double* z, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) z[i] = 0.5 * x[i] + weights[i % 4];
    }
    __global__ void note(const double* x) { latest[threadIdx.x] = x[threadIdx.x]; }')
  weigh <- gpu_kernel(module, "weigh", returns = "z")
  gpu_global(module, "weights") <- rep(0.125, 4)
  gpu_global(module, "latest") <- rep(0, 4)
  frame <- parent.frame()
  list(
    function(i, j, k) if (i != k)
      module$blend(frame$x[[i]], frame$x[[k]], 0.375, length(frame$x[[i]]), stream = choose()),
    function(i, j, k) frame$x[[k]] <- weigh(frame$x[[i]], length(frame$x[[i]]), stream = choose()),
    function(i, j, k) gpu_global(module, "weights") <- host[[i]][1:4] * 0.25,
    function(i, j, k) gpu_global(module, "weights") <- frame$x[[i]][4:7] * 0.25,
    # two kernels that write a variable are not ordered by it, but what is read in between is
    function(i, j, k) {
      module$note(frame$x[[i]], grid = 1, block = 4, stream = choose())
      frame$x[[k]][1:4] <- with_gpu_stream(choose(), gpu_global(module, "latest"))
    }
  )
}
