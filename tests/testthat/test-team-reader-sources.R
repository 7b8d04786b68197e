# Readers of other packages' stores, against the matrices in them; HDF5 writers.

withr::local_options(verdigris.device = test_device)
set.seed(42)
m <- matrix(round(rnorm(60), 2), 12)

same_as <- function(x, m, margins = 1:2) {
  expect_identical(dim(x), dim(m))
  expect_identical(unname(collect(x)), unname(m))
  expect_identical(unname(x[c(3, 1), 2:3]), unname(m[c(3, 1), 2:3]))
  for (margin in margins) for (chunk in c(1, 5, 100)) expect_identical(unname(gpu_chunked(x, function(x) collect(x),
    if (margin == 1) rbind else cbind, margin = margin, chunk = chunk)), unname(m))
  expect_equal(unname(colSums(x)), unname(colSums(m)))
  expect_equal(unname(crossprod(x)), unname(crossprod(m)))
}

test_that("HDF5 datasets are read by hdf5r", {
  skip_if_not_installed("hdf5r")
  skip_if(emulated, "its compiler inherits HDF5's locks")
  path <- withr::local_tempfile(fileext = ".h5")
  file <- hdf5r::H5File$new(path, "w")
  file[["plain"]] <- m
  file$create_dataset("chunks", m, chunk_dims = c(12, 1))
  file[["whole"]] <- matrix(1:12, 4)
  file[["v"]] <- as.double(1:9)
  file[["text"]] <- letters
  file[["cube"]] <- array(1:8, c(2, 2, 2))
  same_as(gpu_reader(file[["plain"]]), m)
  file$close_all()
  same_as(gpu_reader(path, name = "plain"), m)
  same_as(gpu_reader(path, name = "chunks"), m)
  same_as(gpu_reader(path, name = "whole"), matrix(1:12, 4))
  expect_identical(gpu_reader(path, name = "chunks")$margin, 2)
  v <- gpu_reader(path, name = "v")
  expect_identical(v[], as.double(1:9))
  expect_identical(gpu_chunked(v, sum, "+", chunk = 4), 45)
  expect_error(gpu_reader(path, name = "nothing"), "cannot be read", class = "verdigris_error_file")
  expect_error(gpu_reader("nowhere.h5", name = "a"), class = "verdigris_error_file")
  expect_error(gpu_reader(path, name = "text"), class = "verdigris_error_dtype")
  expect_error(gpu_reader(path, name = "cube"), "one or two dimensions", class = "verdigris_error_argument")
  expect_error(gpu_reader(path, name = NA), "`name` must be", class = "verdigris_error_argument")
  # each member opens the file
  team <- gpu_team(worker_cluster(2))
  expect_identical(unname(collect(gpu_split(gpu_reader(path, name = "plain"), team))), m)
})

test_that("HDF5Array's matrices, and delayed operations on them, are read", {
  skip_if_not_installed("HDF5Array")
  skip_if_not_installed("hdf5r")
  path <- withr::local_tempfile(fileext = ".h5")
  file <- hdf5r::H5File$new(path, "w")
  file[["a"]] <- m
  file$close_all()
  same_as(gpu_reader(HDF5Array::HDF5ArraySeed(path, "a")), m)
  h <- HDF5Array::HDF5Array(path, "a")
  same_as(gpu_reader(h), m)
  same_as(gpu_reader(t(h) * 2), t(m) * 2)
  named <- h
  dimnames(named) <- list(letters[1:12], LETTERS[1:5])
  expect_identical(dimnames(gpu_reader(named)), dimnames(named))
  expect_identical(gpu_reader(named)["b", "C"], m[2, 3])
  expect_error(gpu_reader(DelayedArray::DelayedArray(matrix("a"))), class = "verdigris_error_argument")
  expect_error(gpu_reader(DelayedArray::DelayedArray(array(1, c(2, 2, 2)))), class = "verdigris_error_argument")
})

test_that("bigmemory's matrices are read", {
  skip_if_not_installed("bigmemory")
  named <- m
  colnames(named) <- letters[1:5]
  b <- bigmemory::as.big.matrix(named)
  x <- gpu_reader(b)
  same_as(x, m)
  expect_identical(colnames(x), letters[1:5])
  for (type in c("integer", "short", "char", "double", "float")) {
    whole <- matrix(c(NA, 2:12), 4)
    storage.mode(whole) <- if (type %in% c("double", "float")) "double" else "integer"
    # bigmemory warns that it casts
    big <- suppressWarnings(bigmemory::as.big.matrix(whole, type = type))
    expect_identical(collect(gpu_reader(big)), whole, label = type)
  }
  folder <- withr::local_tempdir()
  b <- bigmemory::as.big.matrix(m, backingfile = "b.bin", backingpath = folder, descriptorfile = "b.desc")
  same_as(gpu_reader(bigmemory::attach.big.matrix(file.path(folder, "b.desc"))), m)
  same_as(gpu_reader(bigmemory::as.big.matrix(m, shared = FALSE)), m)
  team <- gpu_team(worker_cluster(2))
  expect_identical(unname(collect(gpu_split(gpu_reader(b), team))), m)
  expect_identical(unname(collect(gpu_split(gpu_reader(bigmemory::as.big.matrix(m, shared = FALSE)), team))), m)
})

test_that("ff vectors and matrices are read", {
  skip_if_not_installed("ff")
  same_as(gpu_reader(ff::as.ff(m)), m)
  same_as(gpu_reader(ff::ff(m, dim = dim(m), dimorder = 2:1)), m)
  v <- ff::as.ff(1:10)
  expect_identical(gpu_reader(v)[3:4], 3:4)
  expect_identical(gpu_chunked(gpu_reader(v), sum, "+", chunk = 3), 55L)
  expect_identical(collect(gpu_reader(ff::ff(c(NA, 1L, 127L), vmode = "byte"))), c(NA, 1L, 127L))
  expect_error(gpu_reader(ff::as.ff(factor("a"))), class = "verdigris_error_dtype")
})

test_that("results are written to HDF5 datasets", {
  skip_if_not_installed("hdf5r")
  skip_if(emulated, "its compiler inherits HDF5's locks")
  folder <- withr::local_tempdir()
  path <- file.path(folder, "out.h5")
  x <- gpu_reader(m)
  for (margin in 1:2) for (chunk in c(1, 5, 100)) {
    name <- sprintf("m%d_%d", margin, chunk)
    y <- gpu_chunked(x, function(x) x * 2, margin = margin, chunk = chunk, to = gpu_writer(path, name = name))
    expect_identical(collect(y), m * 2)
    sums <- gpu_chunked(x, if (margin == 1) rowSums else colSums, margin = margin, chunk = chunk,
      to = gpu_writer(path, "float32", paste0(name, "s")))
    expect_equal(collect(sums), if (margin == 1) rowSums(m) else colSums(m), tolerance = 1e-6)
  }
  whole <- gpu_chunked(1:10, function(x) x + 1L, chunk = 3, to = gpu_writer(path, name = "whole"))
  expect_identical(whole[], 2:11)
  # what is there is kept, and what fails goes
  expect_error(gpu_chunked(x, identity, to = gpu_writer(path, name = "whole")), "already has a dataset whole",
    class = "verdigris_error_argument")
  turn <- 0
  fails <- function(x) if ((turn <<- turn + 1) > 2) stop("halt") else x
  expect_error(gpu_chunked(x, fails, chunk = 1, to = gpu_writer(path, name = "half")), "halt")
  file <- hdf5r::H5File$new(path, "r")
  expect_false(file$exists("half"))
  expect_true(file$exists("whole"))
  file$close_all()
  new <- file.path(folder, "new.h5")
  turn <- 0
  expect_error(gpu_chunked(x, fails, chunk = 1, to = gpu_writer(new, name = "half")), "halt")
  expect_false(file.exists(new))
  expect_error(gpu_chunked(x, identity, to = gpu_writer(file.path(folder, "no", "x.h5"), name = "a")),
    class = "verdigris_error_file")
})
