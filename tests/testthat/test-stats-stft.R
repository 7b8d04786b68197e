# Short-time Fourier transforms: the frames' spectra, one by one.

test_that("each column is the transform of a weighted frame", {
  set.seed(1)
  x <- stats::rnorm(300)
  for (width in c(2, 8, 15, 32)) for (step in c(1, 3, 8, 40)) for (window in list("hann", "rectangular", "hamming")) {
    for (v in list(x, x + 1i * rev(x))) {
      s <- gpu_stft(gpu(v), width, step, window)
      weights <- collect(gpu_window(width, window, device = test_device))
      begins <- seq(0, 300 - width, by = step)
      kept <- if (is.complex(v)) width else width %/% 2 + 1
      want <- vapply(begins, function(b) fft(v[b + seq_len(width)] * weights)[seq_len(kept)], complex(kept))
      expect_equal(collect(s$values), matrix(want, kept), tolerance = 1e-13)
      expect_equal(s$time, begins + (width + 1) / 2)
      expect_equal(s$frequency, (seq_len(kept) - 1) / width)
    }
  }
})

test_that("a series gives its units, and an array its precision", {
  s <- gpu_stft(gpu(ts(1:64, start = 10, frequency = 8)), 16)
  expect_equal(s$frequency[9], 4)
  expect_equal(s$time[1:2], 10 + 7.5 / 8 + c(0, 4 / 8))
  expect_identical(gpu_dtype(gpu_stft(gpu(1:64, "float32"), 16)$values), "complex64")
  expect_output(print(s), "9 frequencies x 13 frames")
})

test_that("windows are those of their definitions", {
  expect_equal(collect(gpu_window(4, device = "cpu")), c(0, 0.5, 1, 0.5))
  expect_equal(collect(gpu_window(5, "hann", periodic = FALSE, device = "cpu")), c(0, 0.5, 1, 0.5, 0))
  expect_equal(collect(gpu_window(4, "bartlett", device = "cpu")), c(0, 0.5, 1, 0.5))
  expect_equal(sum(collect(gpu_window(64, "blackman", device = "cpu"))), 0.42 * 64)
  expect_equal(collect(gpu_window(1, "hamming", device = "cpu")), 1)
})

test_that("a spectrogram shows at most some thousand lines, and the largest of those left out", {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  s <- gpu_stft(gpu(sin(seq_len(5000))), 3000, 1000, "rectangular")
  expect_identical(plot(s), s)
  power <- Mod(s$values)
  every <- 2
  largest <- collect(verdigris:::largest_of(power, every, dim(power)))
  whole <- collect(power)
  expect_identical(largest[1:750, ], pmax(whole[seq(1, 1500, 2), ], whole[seq(2, 1500, 2), ]))
  expect_s3_class(plot(gpu_stft(gpu(numeric(64)), 8)), "gpu_stft")
})

test_that("wrong arguments are classed errors", {
  x <- gpu(1:10)
  expect_error(gpu_stft(1:10), class = "verdigris_error_argument")
  expect_error(gpu_stft(x, 1), class = "verdigris_error_argument", "2 or more")
  expect_error(gpu_stft(x, 11), class = "verdigris_error_argument", "at most the length")
  expect_error(gpu_stft(x, 4, 0), class = "verdigris_error_argument", "`step`")
  expect_error(gpu_stft(x, 4, window = 1:3), class = "verdigris_error_argument", "4 weights")
  expect_error(gpu_stft(x, 4, window = "han"), class = "verdigris_error_argument", "one of")
  expect_error(gpu_window(0), class = "verdigris_error_argument")
  expect_error(plot(gpu_stft(x, 4), range = 0), class = "verdigris_error_argument", "decibels")
})
