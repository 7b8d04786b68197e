# rank(), duplicated(), match() and rle() of splits against base R's of the whole.

withr::local_options(verdigris.device = test_device)
here <- gpu_team(rep(test_device, 3))
cl <- worker_cluster(3)
workers <- within_seconds(60, gpu_team(cl, timeout = 30))
teams <- list(here, workers, within_seconds(60, gpu_team(cl[1L], timeout = 30)))
set.seed(83)
vectors <- list(doubles = sample(c(round(rnorm(40), 1), NA, NA, NaN, NaN, Inf, -Inf, 0, -0)), integers = sample(c(-3:9,
  NA), 60, TRUE), many = round(rnorm(600), 1), logicals = sample(c(TRUE, FALSE, NA), 16, TRUE), same = rep(2, 11), up =
    1:20, few = 2:1, one = 2.5, alone = NA, gap = c(NA, NaN, NA, NA), none = numeric(), nothing = integer(),
  runs = rep(c(1, 2, NA, 2, 5), c(9, 1, 2, 8, 3)))
expect_base <- expect_split_as_base
ranks <- alist(rank(x), x - rank(x))
for (ties in c("average", "first", "last", "min", "max")) for (last in list(TRUE, FALSE, NA, "keep")) ranks <-
  c(ranks, bquote(rank(x, .(last), .(ties))))
repeats <- alist(duplicated(x), duplicated(x, fromLast = TRUE), anyDuplicated(x), anyDuplicated(x, fromLast = TRUE),
  sum(!duplicated(x)))
places <- alist(match(x, rev(x)), match(x, x), x %in% rev(x), match(x, x, 0), match(c(2, NA, 77), x),
  match(c(2, NA, 77), x, nomatch = 0L), c(2, NaN, NA, 77) %in% x, match(TRUE, x), "2" %in% x, match(character(), x),
  is.element(5, x))

test_that("ranks, repeated elements, places and runs are base R's", {
  for (team in teams) for (name in if (identical(team, teams[[3L]])) c("doubles", "gap", "none") else names(vectors)) {
    x <- gpu_split(vectors[[name]], team)
    for (call in c(ranks, repeats, places, quote(rle(x)))) expect_base(call, vectors[[name]], x, name)
    for (value in list(rank(x), duplicated(x), match(x, x))) expect_s3_class(value, "gpu_split")
  }
})

test_that("random ties are those that base R draws", {
  for (team in teams) for (name in c("integers", "doubles", "same", "none")) for (last in list(TRUE, NA, "keep")) {
    set.seed(4)
    want <- rank(vectors[[name]], last, "random")
    after <- runif(1)
    set.seed(4)
    expect_identical(collect(rank(gpu_split(vectors[[name]], team), last, "random")), want, info = name)
    expect_identical(runif(1), after)
  }
})

test_that("parts may have any length", {
  v <- c(9, 1, 9, NA, 2, 1, 9, 9)
  for (team in list(here, workers)) for (sizes in list(c(0, 8, 0), c(1, 0, 7), c(6, 1, 1))) {
    uneven <- gpu_together(team, function(v, sizes) {
      rank <- gpu_team_rank()
      as_gpu(v[sum(sizes[seq_len(rank - 1)]) + seq_len(sizes[rank])])
    }, v, sizes, keep = TRUE)
    for (call in c(ranks, repeats, places, quote(rle(x)))) expect_base(call, v, uneven, paste(sizes, collapse = " "))
    # the table may be split in another way than x
    whole <- gpu_split(v[1:5], team)
    expect_identical(collect(match(whole, uneven)), match(v[1:5], v))
    expect_identical(collect(uneven %in% whole), v %in% v[1:5])
  }
  # parts of other types
  mixed <- gpu_together(workers, function() switch(gpu_team_rank(), as_gpu(c(3L, 1L, NA)), as_gpu(c(2.5, 1, 3)),
    as_gpu(c(TRUE, NA))), keep = TRUE)
  for (call in c(ranks[-2L], repeats)) expect_base(call, c(3, 1, NA, 2.5, 1, 3, 1, NA), mixed, "mixed")
})

test_that("columns of all classes have ranks and repeated elements", {
  n <- 40
  d <- data.frame(days = as.Date("2020-01-01") + sample(c(NA, 1:9), n, TRUE), times = as.POSIXct("2020-01-01", tz =
    "UTC") + sample(20, n, TRUE), group = factor(sample(c("u", "v", NA), n, TRUE), c("v", "u")), text = sample(c("b",
    "\u00e4", NA, "", "cc"), n, TRUE), truth = sample(c(TRUE, FALSE), n, TRUE), number = sample(3, n, TRUE))
  for (team in list(here, workers)) {
    s <- gpu_split(d, team)
    for (name in names(d)) {
      for (call in repeats) expect_base(call, d[[name]], s[[name]], name)
      if (name != "text") for (call in ranks[c(1L, 7L, 14L)]) expect_base(call, d[[name]], s[[name]], name)
      if (name != "group") expect_base(quote(match(x, rev(x))), d[[name]], s[[name]], name)
      expect_base(bquote(match(.(d[[name]][c(7, 3, 3)]), x)), d[[name]], s[[name]], name)
    }
    expect_base(quote(rle(x)), d$text, s$text, "text")
    for (columns in list(1:6, c("group", "text"), "text")) for (call in repeats)
      expect_base(call, d[, columns, drop = FALSE], s[, columns, drop = FALSE], paste(columns, collapse = " "))
    expect_error(rank(s$text), "collect", class = "verdigris_error_split")
    expect_error(rle(s$days), "'x' must be a vector of an atomic type")
  }
})

test_that("duplicated() of a matrix is by rows", {
  m <- matrix(sample(c(1:2, NA, NaN), 120, TRUE), 40)
  for (team in teams) for (x in list(m, m > 1, m * 1i, m[, 1, drop = FALSE])) {
    s <- gpu_split(x, team)
    for (last in c(FALSE, TRUE)) {
      expect_identical(collect(duplicated(s, fromLast = last)), as.vector(duplicated(x, fromLast = last)))
      expect_identical(anyDuplicated(s, fromLast = last), anyDuplicated(x, fromLast = last))
      expect_identical(collect(duplicated(gpu_split(t(x), team, 2), MARGIN = 2, fromLast = last)),
        as.vector(duplicated(x, fromLast = last)))
    }
  }
  z <- complex(real = c(1, 1, NA, 1), imaginary = c(2, 2, 1, 3))
  expect_identical(collect(duplicated(gpu_split(z, workers))), duplicated(z))
})

test_that("64-bit integers are exact", {
  far <- gpu_cast(as_gpu(c(1:9, NA, 3, 9, 9, NA)), "int64") + gpu_cast(as_gpu(2^60), "int64")
  for (team in list(here, workers)) {
    s <- gpu_split(collect(far), team)
    for (ties in c("average", "first", "max")) expect_identical(collect(rank(s, ties.method = ties)), collect(rank(far,
      ties.method = ties)))
    expect_identical(collect(duplicated(s)), collect(duplicated(far)))
    expect_identical(anyDuplicated(s), anyDuplicated(far))
    expect_identical(collect(match(s, rev(s))), collect(match(far, rev(far))))
    expect_identical(match(collect(far)[c(9, 10)], s), c(9L, 10L))
    expect_identical(rle(s), rle(far))
  }
})

test_that("calls without a meaning are refused", {
  s <- gpu_split(c(2, 1, 3), here)
  m <- gpu_split(diag(3), here)
  expect_error(rank(s, ties.method = "none"), "should be one of")
  expect_error(rank(s, na.last = c(TRUE, FALSE)), "length(na.last) == 1L is not TRUE", fixed = TRUE)
  expect_error(duplicated(s, fromLast = NA), "'fromLast' must be TRUE or FALSE")
  expect_error(rle(m), "'x' must be a vector of an atomic type")
  for (call in alist(rank(m), rank(gpu_split(1i, here)), duplicated(s, 1), anyDuplicated(s, incomparables = 2),
    duplicated(m, MARGIN = 2), duplicated(gpu_split(diag(3), here, 2)), match(m, s), match(s, m), match(1, s,
      incomparables = 1), match(s, gpu_split(1:3, workers)), match(gpu_reader(1:3), s), match(s, gpu_split(data.frame(
        d = Sys.Date()), here)$d), rle(gpu_split(1i, here)))) expect_error(eval(call), class = "verdigris_error_split",
          label = deparse1(call))
})
