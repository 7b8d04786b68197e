# Arrays as columns: vctrs, and with it tibble and dplyr; data.table.

is_array <- function(x) is_gpu(x) && .Call(verdigris:::C_is_array, x)

test_that("vctrs joins arrays in an array, of the type that it gives ordinary vectors", {
  skip_if_not_installed("vctrs")
  parts <- list(c(3, 1), 1:2, c(TRUE, NA), c(1i, 2))
  for (a in parts) for (b in parts) {
    want <- tryCatch(vctrs::vec_c(a, b), vctrs_error_incompatible_type = function(e) NULL)
    if (is.null(want)) {
      expect_error(vctrs::vec_c(gpu(a), gpu(b)), class = "vctrs_error_incompatible_type")
      next
    }
    for (got in list(vctrs::vec_c(gpu(a), gpu(b)), vctrs::vec_c(gpu(a), b), vctrs::vec_c(a, gpu(b)))) {
      expect_true(is_array(got))
      expect_identical(collect(got), want)
    }
  }
  expect_identical(gpu_dtype(vctrs::vec_c(gpu(1, "float32"), gpu(2, "float32"))), "float32")
  expect_identical(gpu_dtype(vctrs::vec_c(gpu(1, "float32"), 2)), "float32")
  expect_identical(gpu_dtype(vctrs::vec_c(gpu(1, "float32"), gpu(2))), "float64")
  expect_identical(gpu_dtype(vctrs::vec_c(gpu(1L, "int8"), gpu(2L, "int16"))), "int32")
  expect_identical(collect(vctrs::vec_c(gpu(c(a = 1)), c(b = 2))), c(a = 1, b = 2))
  m <- matrix(1:6, 2)
  expect_identical(collect(vctrs::vec_c(gpu(m), gpu(m))), rbind(m, m))
  expect_error(vctrs::vec_c(gpu(1), "a"), class = "vctrs_error_incompatible_type")
})

test_that("casts go by vctrs' rules", {
  skip_if_not_installed("vctrs")
  expect_identical(vctrs::vec_cast(gpu(c(3, 1)), double()), c(3, 1))
  expect_identical(vctrs::vec_cast(gpu(c(3, 1)), integer()), c(3L, 1L))
  expect_error(vctrs::vec_cast(gpu(1.5), integer()), class = "vctrs_error_cast_lossy")
  expect_error(vctrs::vec_cast(1.5, gpu(1L)), class = "vctrs_error_cast_lossy")
  x <- vctrs::vec_cast(1:2, gpu(1, "float32"))
  expect_true(is_array(x))
  expect_identical(gpu_dtype(x), "float32")
})

test_that("slices stay on the device, and writes are copies", {
  skip_if_not_installed("vctrs")
  withr::local_options(verdigris.host_access = "error")
  x <- gpu(c(3, 1, 2))
  part <- vctrs::vec_slice(x, 2:3)
  expect_true(is_array(part))
  expect_false(verdigris:::gpu_info(x)$host)
  withr::local_options(verdigris.host_access = "allow")
  expect_identical(collect(vctrs::vec_assign(x, 1, 9)), c(9, 1, 2))
  expect_identical(collect(x), c(3, 1, 2))
  expect_identical(collect(vctrs::vec_rep(x, 2)), c(3, 1, 2, 3, 1, 2))
  expect_identical(collect(vctrs::vec_sort(x)), c(1, 2, 3))
  expect_identical(collect(vctrs::vec_slice(gpu(matrix(1:6, 2)), 1)), matrix(c(1L, 3L, 5L), 1))
})

test_that("tibbles and dplyr keep arrays", {
  skip_if_not_installed("tibble")
  frame <- tibble::tibble(a = gpu(c(3, 1, 2)), b = c("u", "v", "v"))
  expect_true(is_array(frame$a))
  expect_match(paste(format(frame), collapse = "\n"), "<gpu:float64>", fixed = TRUE)
  expect_true(is_array(frame[2:3, ]$a))
  skip_if_not_installed("dplyr")
  kept <- dplyr::filter(frame, a > 1)
  expect_identical(collect(kept$a), c(3, 2))
  expect_true(is_array(kept$a))
  more <- dplyr::mutate(frame, c = a * 2 + 1)
  expect_true(is_array(more$c))
  expect_identical(collect(more$c), c(7, 3, 5))
  expect_identical(collect(dplyr::arrange(frame, a)$a), c(1, 2, 3))
  both <- dplyr::bind_rows(frame, tibble::tibble(a = 9, b = "w"))
  expect_true(is_array(both$a))
  expect_identical(collect(both$a), c(3, 1, 2, 9))
  sums <- dplyr::summarise(dplyr::group_by(frame, b), s = sum(a))
  expect_identical(sums$s, c(3, 3))
  centred <- dplyr::mutate(dplyr::group_by(frame, b), z = a - mean(a))
  expect_identical(collect(centred$z), c(0, -0.5, 0.5))
})

test_that("a tibble prints its first rows without computing the others", {
  skip_if_not_installed("tibble")
  x <- gpu_seq(1, 1e6, device = test_device) + 1
  frame <- tibble::tibble(x = x)
  before <- .Call(verdigris:::C_live)[3]
  shown <- format(frame)
  expect_lte(.Call(verdigris:::C_live)[3] - before, 8000)
  expect_gt(verdigris:::gpu_info(x)$pending, 0)
})

test_that("data.table takes arrays as columns", {
  skip_if_not_installed("data.table")
  frame <- data.table::data.table(a = gpu(c(3, 1, 2)), b = c("u", "v", "v"))
  expect_true(is_gpu(frame$a))
  x <- frame$a
  inside <- function(...) eval(substitute(frame[...]), list(frame = frame), asNamespace("data.table"))
  part <- inside(2:3)
  expect_identical(as.vector(part$a), c(1, 2))
  expect_identical(as.vector(part$a * 2), c(2, 4))
  sums <- inside(, list(s = sum(a)), by = "b")
  expect_identical(as.vector(sums$s), c(3, 3))
  data.table::set(frame, j = "c", value = frame$a + 1)
  expect_identical(as.vector(frame$c), c(4, 2, 3))
  data.table::set(frame, i = 1L, j = "c", value = 100)
  expect_identical(as.vector(frame$c + 0), c(100, 2, 3))
  expect_identical(as.vector(x), c(3, 1, 2))
})

test_that("arrays are subscripts of tibbles, and whole numbers with fractions become doubles", {
  skip_if_not_installed("tibble")
  skip_if_not_installed("dplyr")
  host <- tibble::tibble(g = letters[1:4], x = c(3, 1, NA, 2))
  frame <- tibble::tibble(g = letters[1:4], x = gpu(c(3, 1, NA, 2)))
  expect_identical(frame[order(frame$x), ]$g, host[order(host$x), ]$g)
  expect_identical(frame[which(frame$x > 1), ]$g, c("a", "d"))
  expect_identical(frame[gpu(c(0, 1)), ]$g, "a")
  expect_identical(frame[gpu(2L), ]$g, "b")
  expect_identical(frame[[gpu(1)]], letters[1:4])
  expect_identical(frame[frame$x %in% c(1, 3), ]$g, c("a", "b"))
  expect_identical(vctrs::vec_slice(1:4, gpu(c(4L, 1L))), c(4L, 1L))
  frame[which(is.na(frame$x)), "x"] <- 0
  expect_identical(collect(frame$x), c(3, 1, 0, 2))
  k <- gpu(1:3, "int64")
  expect_identical(collect(vctrs::vec_c(k, c(0.5, 1.7))), c(1, 2, 3, 0.5, 1.7))
  expect_identical(collect(vctrs::vec_c(2.5, k)), c(2.5, 1, 2, 3))
  expect_identical(gpu_dtype(vctrs::vec_c(k, 4L)), "int64")
  expect_identical(collect(dplyr::coalesce(gpu(c(1L, NA), "int64"), 0.5)), c(1, 0.5))
  joined <- dplyr::inner_join(tibble::tibble(k = c(1, 2.7)), tibble::tibble(k = k, w = 1:3), by = "k")
  expect_identical(joined$w, 1L)
  whole <- tibble::tibble(k = k)
  expect_error(whole[2L, "k"] <- 7.5, "loss of precision")
  whole[2L, "k"] <- 7
  expect_identical(as.double(collect(whole$k)), c(1, 7, 3))
  expect_error(vctrs::vec_c(gpu(1L, "uint8"), 300L), class = "vctrs_error_cast_lossy")
})
