# Splits against whole matrices, on a team of this process; what has no method names collect().

team <- gpu_team(rep(test_device, 3))
set.seed(35)
doubles <- matrix(round(rnorm(40) * 3, 2), 10, dimnames = list(NULL, letters[1:4]))

test_that("splits answer as the whole matrix does", {
  v <- seq(-2, 2.5, by = 0.5)
  expect_all_same(compare_splits(team, doubles, v))
  expect_all_same(compare_splits(team, unname(round(doubles))[, 1:4] |> `colnames<-`(letters[1:4]), rev(v)))
  missing <- doubles
  missing[c(3, 17, 40)] <- c(NA, NaN, Inf)
  expect_all_same(compare_splits(team, missing, v))
  integers <- matrix(c(NA, 2:40), 10, dimnames = dimnames(doubles))
  expect_all_same(compare_splits(team, integers, 1:10))
  # fewer rows than members, and none
  expect_all_same(compare_splits(team, doubles[1:2, ], v[1:2]))
  expect_cases(400L)
})

test_that("matrices split by columns, and vectors, answer as the whole", {
  x <- gpu_split(doubles, team, margin = 2)
  expect_equal(collect(x), doubles)
  expect_equal(rowSums(x), rowSums(doubles), tolerance = 1e-13)
  expect_equal(rowMeans(x), rowMeans(doubles), tolerance = 1e-13)
  expect_equal(collect(colSums(x)), colSums(doubles), tolerance = 1e-13)
  expect_equal(collect(x + 1:10 * x), doubles + 1:10 * doubles)
  expect_equal(suppressWarnings(collect(x * 1:7)), suppressWarnings(doubles * 1:7))
  expect_equal(collect(sweep(x, 1, 1:10)), sweep(doubles, 1, 1:10))
  expect_equal(range(t(x) - 1), range(doubles) - 1)
  complex <- complex(real = 1:5, imaginary = -(1:5))
  z <- gpu_split(complex, team)
  expect_equal(c(sum(z), prod(z), mean(z)), c(sum(complex), prod(complex), mean(complex)))
  expect_equal(collect(Mod(z) + z), Mod(complex) + complex)
  expect_identical(collect(gpu_split(c(TRUE, NA, FALSE), team)), c(TRUE, NA, FALSE))
})

test_that("sums of integers are base R's beyond the integers, too", {
  big <- gpu_split(c(.Machine$integer.max, 1L, -5L), gpu_team(rep(test_device, 2)))
  expect_identical(sum(big), .Machine$integer.max - 4L)
  two <- gpu_split(rep(.Machine$integer.max, 2), team)
  expect_identical(sum(two), sum(rep(.Machine$integer.max, 2)))
  none <- gpu_split(integer(), team)
  expect_identical(sum(none), 0L)
  expect_warning(expect_identical(max(none), -Inf), "no non-missing arguments")
})

test_that("wrong operands have base R's errors and warnings", {
  x <- gpu_split(doubles, team)
  expect_warning(collect(x + 1:7), "longer object length is not a multiple")
  expect_error(x + matrix(1, 3, 3), "non-conformable arrays")
  expect_error(x + 1:41, "do not match the length of object [41]", fixed = TRUE)
  expect_error(x[, 5], "subscript out of bounds")
  expect_error(x[, "nope"], "subscript out of bounds")
  expect_error(x %*% 1:3, "non-conformable arguments")
  expect_error(crossprod(x, 1:3), "non-conformable arguments")
  expect_error(x + "a", class = "verdigris_error_split")
  expect_error(x + gpu_split(doubles[1:9, ], team), "do not match", class = "verdigris_error_split")
  expect_error(x + gpu_split(doubles, gpu_team(rep(test_device, 3))), "different teams",
    class = "verdigris_error_split")
  # an operation that a member cannot do fails where its value is asked for, and for good
  y <- exp(gpu_split(data.frame(a = letters[1:4]), team)$a)
  for (k in 1:2) expect_error(sum(y), "non-numeric argument")
  expect_equal(sum(x), sum(doubles))
})

test_that("what has no method is an error that names collect()", {
  x <- gpu_split(doubles, team)
  d <- gpu_split(data.frame(a = 1:3), team)
  refused <- alist(as.vector(x), as.matrix(x), as.numeric(x), sort(x), order(x), x[1:2, ], x[3], x[[1]],
    cumsum(x), c(x, x), rbind(x, x), cbind(x, 1), apply(x, 2, sum), tcrossprod(x), lapply(x, sum), rank(x), x %*% x,
    1:10 %*% x, crossprod(t(x)), summary(x), sd(x), var(x, x), x[1, 1] <- 2, d + 1, sum(d), exp(d), d[1, ], solve(x), x$a,
    sum(x, x), as.data.frame(x), princomp(x), unique(x), duplicated(x, 1), t(d))
  for (call in refused) {
    said <- tryCatch(eval(call), error = identity)
    expect(inherits(said, "verdigris_error_split") && grepl("collect(x)", conditionMessage(said), fixed = TRUE),
      paste(deparse1(call), "gives", paste(format(said), collapse = " ")))
  }
})

test_that("data frames, functions of rows and kept values are splits", {
  d <- data.frame(a = 1:7, b = (1:7) / 2, s = letters[1:7])
  x <- gpu_split(d, team)
  expect_identical(collect(x), d)
  expect_identical(list(dim(x), names(x), length(x)), list(dim(d), names(d), length(d)))
  expect_equal(sum(x$a * x[["b"]]), sum(d$a * d$b))
  expect_identical(collect(x[, c("b", "a")]), d[, c("b", "a")])
  expect_identical(collect(x["b"]), d["b"])
  expect_equal(max(x[, 2]), max(d[, 2]))
  expect_null(x$nothing)
  expect_error(x[, 9], "undefined columns selected")
  rows <- gpu_split(function(rows) cbind(i = rows, square = rows^2), team, n = 8)
  expect_identical(collect(rows), cbind(i = as.double(1:8), square = (1:8)^2))
  expect_error(gpu_split(function(rows) 1:2, team, n = 9), "must give the rows", class = "verdigris_error_argument")
  expect_error(gpu_split(function(rows) stop("torn tape"), team, n = 9), "torn tape")
  kept <- gpu_together(team, function(x) x$a * 2L, x, keep = TRUE)
  expect_identical(collect(kept), d$a * 2L)
  models <- gpu_together(team, function(x) list(n = nrow(x)), x, keep = TRUE)
  expect_identical(collect(models), list(list(n = 2L), list(n = 2L), list(n = 3L)))
  expect_identical(gpu_together(team, function(x) x$n, models), list(2L, 2L, 3L))
  expect_identical(gpu_all_reduce(gpu_together(team, function() gpu_team_rank() * c(1, 10), keep = TRUE)), c(6, 60))
  expect_error(gpu_all_reduce(kept), "different shapes", class = "verdigris_error_shape")
})

test_that("teams, splits and references print, and functions of one see what they should", {
  expect_output(print(team), "team of 3 members, transport (host|device copies)")
  expect_output(print(gpu_split(doubles, team)), "matrix \\[10 x 4\\] over 3 members, by rows.*7 more rows")
  expect_output(print(gpu_split(doubles, team, margin = 2)), "by columns.*3 more columns")
  refs <- gpu_together(team, function() gpu_ref(as_gpu(1:3 * gpu_team_rank())))
  expect_output(print(refs[[2]]), "vector [3] of member 2", fixed = TRUE)
  expect_identical(gpu_together(team, function(x) sum(x), refs), list(6L, 12L, 18L))
  expect_identical(gpu_together(team, function(x) sum(x), rev(refs)), list(6L, 12L, 18L))
  expect_identical(collect(refs[[3]]), c(3L, 6L, 9L))
  expect_identical(collect(as_gpu(refs[[3]])), c(3L, 6L, 9L))
  expect_identical(gpu_together(team, function(x) gpu_dtype(as_gpu(gpu_ref(x), "float32")), 1:3), rep(list("float32"), 3))
  expect_error(gpu_together(team, sum, refs[1:2]), class = "verdigris_error_argument")
  expect_identical(gpu_together(team, function() c(gpu_team_rank(), gpu_team_size())), list(c(1L, 3L), c(2L, 3L),
    c(3L, 3L)))
  expect_identical(vapply(gpu_together(team, function() gpu_zeros(1)), gpu_device, ""), rep(gpu_device(gpu_zeros(1,
    device = test_device)), 3))
  expect_error(gpu_together(team, function() gpu_barrier()), "one process", class = "verdigris_error_member")
  expect_error(gpu_together(team, function() stop("planted")), "planted")
  # a failure leaves nothing half recorded
  x <- gpu_split(1:6, team)
  y <- x * 2L
  expect_error(gpu_together(team, function() stop("planted")), "planted")
  expect_identical(collect(y), 1:6 * 2L)
  expect_identical(unlist(gpu_together(team, function(x, a) sum(x * a), x, as_gpu(2L, device = test_device))),
    c(6L, 14L, 22L))
  expect_error(gpu_team_rank(), "does not run in a member", class = "verdigris_error_member")
  alone <- gpu_team(test_device)
  collectives <- function(x) list(gpu_all_reduce(x), gpu_all_gather(x), gpu_reduce_scatter(x), gpu_broadcast(x))
  for (x in list(1:3, c(1.5, NA), matrix(1:4 / 2, 2))) for (value in gpu_together(alone, collectives, x)[[1L]])
    expect_identical(value, x)
})

test_that("parts are freed when their split is garbage", {
  local <- gpu_team(rep(test_device, 2))
  before <- alive()[["handles"]]
  x <- gpu_split(c(1, 2, 3), local)
  for (k in 1:20) sum(x + k)
  expect_lte(alive()[["handles"]], before + 2)
  rm(x)
  expect_lte(alive()[["handles"]], before)
})

test_that("values of references are freed although a part could not be made", {
  local <- gpu_team(rep(test_device, 2))
  failed <- gpu_split(data.frame(s = c("a", "b")), local)$s + 1
  refs <- gpu_together(local, function() gpu_ref(1))
  stored <- function() lengths(lapply(local$engine$members, function(member) grep("^ref", ls(member$store))))
  expect_identical(stored(), c(1L, 1L))
  rm(refs)
  gc()
  expect_error(sum(failed), "could not be made: non-numeric argument")
  expect_identical(stored(), c(0L, 0L))
})

test_that("wrong arguments are refused by name", {
  refused <- function(code, pattern) expect_error(code, pattern, class = "verdigris_error_argument")
  for (odd in list(NULL, 1, "team", list())) {
    refused(gpu_split(1:3, odd), "`team` must be a team")
    refused(gpu_together(odd, sum), "`team` must be a team")
    refused(gpu_repair(odd), "`team` must be a team")
  }
  for (odd in list(NA, 1, list(), sum, c("cpu", NA))) refused(gpu_team(odd), "`members` must be")
  for (odd in list(NULL, NA, 0, -1, "a", c(1, 2), Inf)) refused(gpu_team("cpu", timeout = odd), "`timeout` must be")
  for (odd in list(0, 3, NA, "a", c(1, 2))) refused(gpu_split(matrix(1), team, margin = odd), "`margin` must be")
  for (odd in list(NULL, "a", list(1), array(1, c(1, 1, 1)), globalenv())) refused(gpu_split(odd, team), "`x` must be")
  refused(gpu_split(function(rows) rows, team), "`n` must be")
  refused(gpu_team("cpu", "mpi"), "`transport` must be one of")
  refused(gpu_together(team, 1), "`f` must be a function")
  refused(gpu_together(team, sum, keep = NA), "`keep` must be TRUE or FALSE")
  alone <- gpu_team("cpu")
  for (odd in list("sum", NA, 1)) refused(gpu_together(alone, function() gpu_all_reduce(1, odd)), "`op` must be one of")
  for (odd in list("a", NULL, list(1), sum)) refused(gpu_together(alone, function() gpu_all_reduce(odd)), "`x` must be")
  for (odd in list(0, 2, NA, "a")) refused(gpu_together(alone, function() gpu_broadcast(1, odd)), "`root` must be")
  expect_error(gpu_team("cpu", "nccl"), class = "verdigris_error_library")
  expect_error(gpu_team(c("cpu", "tpu")), class = "verdigris_error_device")
  skip_if_not_installed("parallel")
  if (!requireNamespace("mirai", quietly = TRUE)) expect_error(gpu_team("workers"), "mirai",
    class = "verdigris_error_library")
})
