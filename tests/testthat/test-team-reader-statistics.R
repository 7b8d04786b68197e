# Sums, products and principal components of readers against those of whole matrices.

withr::local_options(verdigris.device = test_device)
set.seed(43)
doubles <- matrix(round(rnorm(60) * 3, 2), 15, dimnames = list(NULL, letters[1:4]))
missing <- doubles
missing[c(3, 17, 40)] <- c(NA, NaN, Inf)

# Readers of the same matrix, with blocks that do and do not divide it.
readers_of <- function(m, env = parent.frame()) {
  p <- ncol(m)
  columns <- raw_file(m, env = env)
  rows <- raw_file(t(m), env = env)
  list(
    gpu_reader(columns, dim = c(NA, p), dimnames = dimnames(m)),
    gpu_reader(columns, dim = c(NA, p), dimnames = dimnames(m), memory = 3 * 8 * nrow(m) * 3),
    gpu_reader(rows, dim = c(NA, p), byrow = TRUE, dimnames = dimnames(m), memory = blocks_of_rows(4, p)),
    gpu_reader(function(rows) m[rows, , drop = FALSE], dim = nrow(m), memory = blocks_of_rows(5, p)),
    gpu_reader(as.data.frame(m), memory = blocks_of_rows(1, p))
  )
}

calls <- alist(colSums(x), colMeans(x), rowSums(x), rowMeans(x), colSums(x, na.rm = TRUE), colMeans(x, na.rm = TRUE),
  rowSums(x, na.rm = TRUE), rowMeans(x, na.rm = TRUE), sum(x), sum(x, na.rm = TRUE), prod(x / 1), min(x), max(x),
  range(x), range(x, na.rm = TRUE), mean(as.matrix(x)), var(x), crossprod(x), dim(x), crossprod(x, v),
  crossprod(x, cbind(v, 2)), x %*% w, x %*% cbind(a = w, b = 1))

test_that("statistics are those of the matrix", {
  v <- as.double(1:15)
  w <- c(2, -1, 0.5, 1)
  for (m in list(doubles, missing)) for (x in readers_of(m)) for (call in calls) {
    if (identical(call, quote(prod(x / 1)))) call <- quote(prod(x))
    if (identical(call[[1L]], quote(mean)) && !x$frame) call <- quote(mean(x))
    want <- eval(call, list(x = m, v = v, w = w))
    got <- collect(eval(call, list(x = x, v = v, w = w)))
    # base R's sums of rows of a data frame have its row names
    if (x$frame && grepl("^row", deparse1(call))) got <- unname(got)
    expect_equal(got, want, tolerance = 1e-12, label = deparse1(call))
  }
})

test_that("types, vectors and no elements are base R's", {
  whole <- matrix(c(NA, 2:40), 10)
  x <- gpu_reader(raw_file(whole, 4L), dim = dim(whole), dtype = "int32", memory = 3 * 4 * 10)
  expect_identical(sum(x), sum(whole))
  expect_identical(sum(x, na.rm = TRUE), sum(whole, na.rm = TRUE))
  expect_identical(range(x, na.rm = TRUE), range(whole, na.rm = TRUE))
  expect_identical(colSums(x, na.rm = TRUE), colSums(whole, na.rm = TRUE))
  big <- gpu_reader(rep(.Machine$integer.max, 2), memory = 12)
  expect_identical(sum(big), 2 * .Machine$integer.max)
  logical <- gpu_reader(c(TRUE, NA, FALSE))
  expect_identical(list(any(logical), all(logical), sum(logical, na.rm = TRUE)), list(TRUE, FALSE, 1L))
  expect_identical(any(gpu_reader(c(FALSE, NA))), NA)
  z <- complex(real = 1:5, imaginary = -(1:5))
  expect_equal(c(sum(gpu_reader(z)), mean(gpu_reader(z))), c(sum(z), mean(z)))
  expect_error(max(gpu_reader(z)), "invalid 'type' (complex)", fixed = TRUE)
  v <- gpu_reader(doubles[, 1], memory = 3 * 8 * 4)
  expect_equal(c(var(v), sd(v), mean(v)), c(var(doubles[, 1]), sd(doubles[, 1]), mean(doubles[, 1])))
  none <- gpu_reader(numeric())
  expect_identical(sum(none), 0)
  expect_warning(expect_identical(max(none), -Inf), "no non-missing arguments")
  empty <- gpu_reader(matrix(0, 0, 3))
  expect_identical(colSums(empty), c(0, 0, 0))
  expect_identical(rowSums(empty), numeric())
  expect_identical(crossprod(empty), matrix(0, 3, 3))
  one <- gpu_reader(matrix(c(1, 2, 3), 1))
  expect_identical(colMeans(one), c(1, 2, 3))
  expect_identical(var(one), var(matrix(c(1, 2, 3), 1)))
  expect_equal(sum(gpu_reader(raw_file(c(0.1, 0.2), 4L), dtype = "float32")), 0.3, tolerance = 1e-7)
})

test_that("two readers are multiplied by their rows", {
  x <- readers_of(doubles)
  y <- gpu_reader(doubles[, 1:2] + 1)
  for (r in x) expect_equal(crossprod(r, y), crossprod(doubles, doubles[, 1:2] + 1))
  expect_equal(unname(crossprod(doubles[, 1], x[[1]])), unname(crossprod(doubles[, 1], doubles)))
  expect_error(crossprod(x[[1]], 1:3), "non-conformable arguments")
  expect_error(x[[1]] %*% 1:3, "non-conformable arguments")
  expect_error(1:15 %*% x[[1]], class = "verdigris_error_reader")
})

test_that("what has no method is an error that says what has", {
  x <- readers_of(doubles)[[1]]
  for (call in alist(x + x, cumsum(x), t(x), order(x), summary(x), as.vector(x), unique(x), sd(x), var(x, x), table(x),
    duplicated(x), rev(x), is.unsorted(x), sum(x, x), c(x, x))) {
    said <- tryCatch(eval(call), error = identity)
    expect(inherits(said, "verdigris_error_reader") && grepl("gpu_chunked", conditionMessage(said)),
      paste(deparse1(call), "gives", paste(format(said), collapse = " ")))
  }
  expect_error(colSums(gpu_reader(data.frame(a = "b"))), "'x' must be numeric")
})

test_that("principal components are those of the matrix", {
  for (x in readers_of(doubles)) for (scaled in c(FALSE, TRUE)) for (centered in c(TRUE, FALSE)) {
    want <- prcomp(doubles, center = centered, scale. = scaled)
    got <- prcomp(x, center = centered, scale. = scaled)
    expect_s3_class(got, "prcomp")
    expect_equal(got$sdev, want$sdev)
    expect_equal(got[c("center", "scale")], want[c("center", "scale")])
    expect_equal(abs(got$rotation), abs(want$rotation))
    expect_equal(abs(collect(got$x)), abs(want$x))
    expect_equal(abs(got$x[2:1, 1]), abs(want$x[2:1, 1]))
    expect_equal(summary(got)$importance, summary(want)$importance)
  }
  few <- prcomp(gpu_reader(doubles), rank. = 2, retx = FALSE)
  expect_null(few$x)
  expect_identical(dim(few$rotation), c(4L, 2L))
  # standard deviations that products lose, and more columns than rows
  thin <- cbind(doubles, doubles[, 1] + 1e-6 * rnorm(15))
  expect_equal(prcomp(gpu_reader(thin, memory = blocks_of_rows(4, 5)))$sdev, prcomp(thin)$sdev, tolerance = 1e-9)
  wide <- t(doubles)
  expect_equal(prcomp(gpu_reader(wide, memory = blocks_of_rows(2, 15)))$sdev[1:3], prcomp(wide)$sdev[1:3])
  # randomised
  large <- matrix(rnorm(200 * 60), 200) %*% diag(0.7^(0:59))
  want <- prcomp(large, rank. = 3)
  got <- prcomp(gpu_reader(large, memory = blocks_of_rows(70, 60)), rank. = 3, exact = FALSE)
  expect_equal(got$sdev[1:3], want$sdev[1:3], tolerance = 1e-6)
  expect_equal(abs(got$rotation), abs(want$rotation), tolerance = 1e-4)
  expect_equal(abs(collect(got$x)), abs(want$x), tolerance = 1e-4, ignore_attr = TRUE)
  expect_error(prcomp(gpu_reader(missing)), "infinite or missing values")
  expect_error(prcomp(gpu_reader(cbind(1, 1:4)), scale. = TRUE), "constant/zero column")
  expect_error(prcomp(gpu_reader(doubles), rank. = 0), "`rank.` must be", class = "verdigris_error_argument")
})

test_that("functions without a method do not see what a reader is made of", {
  frame <- data.frame(a = c(1, NA, 3), type = c(4, 5, 6))
  for (x in list(gpu_reader(frame), gpu_reader(c(1, NA, 3)))) for (call in alist(x$a, x$ar,
    x$nothing, x[["a"]], lapply(x, length), vapply(x, length, 1L), unlist(x), base::cbind(x, 1), base::rbind(x, 1),
    as.list(x), with(x, a), subset(x, a > 1)))
    expect_error(eval(call), "has no method for readers", class = "verdigris_error_reader", label = deparse1(call))
  outside <- eval(quote(function(x) x$type), globalenv())
  environment(outside) <- globalenv()
  expect_error(outside(gpu_reader(frame)), "reads a column", class = "verdigris_error_reader")
  expect_identical(dim(gpu_reader(frame)), c(3L, 2L))
})
