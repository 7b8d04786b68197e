# Results computed from an array that shares its memory keep their values, however the memory is written later. First in
# pairs; then by random programs (helper-shared-memory.R), of which VERDIGRIS_SHARED=10000 makes that many.

# An array of the memory of `x`, for reading.
for_reading <- list(
  dlpack = function(x) from_dlpack(as_dlpack(x)), `dlpack without flags` = function(x)
    from_dlpack(as_dlpack(x, versioned = FALSE)),
  pointer = function(x) gpu_from_pointer(gpu_pointer(x, writable = FALSE)),
  `pointer, said twice` = function(x) gpu_from_pointer(gpu_pointer(x, writable = FALSE), read_only = TRUE),
  address = function(x) { p <- gpu_pointer(x, writable = FALSE)
  gpu_from_pointer(p$address, length(x), p$dtype, device = test_device, owner = p$owner) },
  `address by itself` = function(x) { p <- gpu_pointer(x, writable = FALSE)
  gpu_from_pointer(p$address, length(x), p$dtype, device = test_device, owner = list(p)) },
  `part of it` = function(x) { p <- gpu_pointer(x, writable = FALSE)
  gpu_from_pointer(p$address, 3, p$dtype, device = test_device, owner = p$owner) },
  twice = function(x) from_dlpack(as_dlpack(from_dlpack(as_dlpack(x)))),
  `a view of it` = function(x) gpu_as_strided(from_dlpack(as_dlpack(x)), 3)
)
# What is made of it.
made_before <- list(
  recorded = function(b) b * 2, longer = function(b) (b + 1) / 2 - b, view = function(b) b[2:3], reversed = function(b)
    rev(b), gathered = function(b) b[gpu(c(3L, 1L))],
  matrix = function(b) t(matrix(b, 3)), strides = function(b) aperm(array(b, c(1, 3, 1)), 3:1) + 1, margin = function(b)
    rowSums(matrix(b, 3)), chosen = function(b) ifelse(b > 1, b, 0),
  scan = function(b) cumsum(b), number = function(b)
    b * 0 + sum(b), compiled = local({ f <- gpu_compile(function(v) v * 3 + 1); function(b) f(b) }),
  repeated = function(b) rep(b, 2), joined = function(b) c(b, b), cast = function(b)
    gpu_cast(b, "int32"), masked = function(b) b[b > 1], copy = function(b) from_dlpack(as_dlpack(b), copy = TRUE)
)
# Ways to write to the memory of `x`.
written_later <- list(
  out = function(x) gpu_compute(gpu(c(70, 80, 90)), out = x), `out, of itself` = function(x)
    gpu_compute(x * 10, out = x), copy = function(x) gpu_copy(c(70, 80, 90), x),
  `copy of an array` = function(x) gpu_copy(gpu(c(70, 80, 90)), x),
  `lent to a writer` = function(x) { w <- from_dlpack(as_dlpack(x, writable = TRUE))
  gpu_compute(gpu(c(70, 80, 90)), out = w) },
  `address to a writer` = function(x) { w <- gpu_from_pointer(gpu_pointer(x)); gpu_copy(c(70, 80, 90), w) },
  `a strided view` = function(x) { w <- gpu_as_strided(x, 3, -1, 2); gpu_compute(gpu(c(70, 80, 90)), out = w) },
  freed = function(x) { gpu_free(x); for (k in 1:4) gpu_compute(gpu(c(70, 80, 90)) * k) }
)

test_that("what was made of memory that is lent for reading keeps its values", {
  withr::local_options(verdigris.host_access = "allow")
  found <- character()
  for (lent in names(for_reading)) for (write in names(written_later)) {
    x <- gpu(c(1, 2, 3))
    b <- for_reading[[lent]](x)
    of_b <- lapply(made_before, function(make) make(b))
    of_x <- lapply(made_before, function(make) make(x))
    written_later[[write]](x)
    for (name in names(made_before)) {
      want <- collect(made_before[[name]](gpu(c(1, 2, 3))))
      if (!identical(collect(of_b[[name]]), want)) found <- c(found, paste(lent, write, name))
      if (!identical(collect(of_x[[name]]), want)) found <- c(found, paste(lent, write, name, "of the array itself"))
    }
    # the memory itself is what it was, or what was written
    if (!list(collect(b)) %in% list(c(1, 2, 3), c(70, 80, 90), c(90, 80, 70), c(10, 20, 30)))
      found <- c(found, paste(lent, write, "is torn"))
  }
  expect_identical(found, character())
})

test_that("who was given memory for reading does not write to it", {
  for (lent in names(for_reading)) {
    x <- gpu(c(1, 2, 3))
    b <- for_reading[[lent]](x)
    y <- x * 2
    expect_error(as_dlpack(b, writable = TRUE), class = "verdigris_error_argument")
    expect_error(gpu_pointer(b), class = "verdigris_error_argument")
    gpu_compute(b * 0, out = b)
    gpu_copy(c(5, 5, 5), b)
    expect_identical(collect(x), c(1, 2, 3), label = lent)
    expect_identical(collect(y), c(2, 4, 6), label = lent)
    expect_identical(collect(b), c(5, 5, 5), label = lent)
  }
  # R's own vectors, and pinned ones, which gpu_copy() writes
  skip_if(test_device != "cpu")
  v <- c(1, 2, 3)
  for (versioned in c(TRUE, FALSE)) {
    b <- from_dlpack(as_dlpack(v, versioned = versioned))
    gpu_compute(b * 0, out = b)
    expect_identical(v, c(1, 2, 3))
  }
  pinned <- as_pinned(c(1, 2, 3), device = "cpu")
  b <- from_dlpack(as_dlpack(pinned))
  doubled <- b * 2
  part <- b[2:3]
  gpu_copy(gpu(c(7, 8, 9)), pinned)
  expect_identical(list(collect(doubled), collect(part), collect(b)), list(c(2, 4, 6), c(2, 3), c(7, 8, 9)))
})

test_that("who borrowed an array's memory does not see what another array on it becomes", {
  x <- gpu(c(1, 2, 3))
  v <- x[2:3]
  b <- from_dlpack(as_dlpack(v))
  rm(v)
  collect_garbage()
  gpu_compute(gpu(c(7, 8, 9)), out = x)
  expect_identical(list(collect(b), collect(x)), list(c(2, 3), c(7, 8, 9)))
  x <- gpu(c(1, 2, 3))
  v <- t(x)
  b <- from_dlpack(as_dlpack(x))
  w <- from_dlpack(as_dlpack(x, writable = TRUE)) # x has moved
  gpu_compute(gpu(c(7, 8, 9)), out = v)
  gpu_compute(gpu(c(4, 5, 6)), out = w)
  expect_identical(lapply(list(b, v, x), as.vector), list(c(1, 2, 3), c(7, 8, 9), c(4, 5, 6)))
  # the array that lent it, again and again
  x <- gpu(c(1, 2, 3))
  b <- from_dlpack(as_dlpack(x))
  for (k in 1:3) {
    gpu_compute(x + 1, out = x)
    collect_garbage()
    expect_identical(collect(b), c(1, 2, 3) + k)
  }
})

test_that("a part of read-only memory is a copy, and has memory of its own once it is lent to be written to", {
  parts <- list(view = function(b) b[1:3], matrix = function(b) matrix(b, 2)[, 1], row = function(b) matrix(b, 2)[1, ],
    reversed = function(b) rev(b), repeated = function(b) rep(b, 2)[3:6])
  for_writing <- list(
    strided = function(p) gpu_as_strided(p, 2), dlpack = function(p) from_dlpack(as_dlpack(p, writable = TRUE)),
    pointer = function(p) gpu_from_pointer(gpu_pointer(p))
  )
  for (owner in c("lives", "freed")) for (part in names(parts)) {
    x <- gpu(c(1, 2, 3, 4))
    b <- from_dlpack(as_dlpack(x))
    if (owner == "freed") gpu_free(x)
    for (lent in names(for_writing)) {
      p <- parts[[part]](b)
      want <- parts[[part]](c(1, 2, 3, 4))
      w <- for_writing[[lent]](p)
      gpu_copy(c(37, 38, want[-(1:2)])[seq_along(collect(w))], w)
      expect_identical(collect(p), c(37, 38, want[-(1:2)]), label = paste(owner, part, lent))
    }
    # the memory that came in is still what its owner gave
    expect_error(as_dlpack(b, writable = TRUE), class = "verdigris_error_argument")
    expect_identical(collect(b), c(1, 2, 3, 4))
  }
})

test_that("once nobody can write, what is lent for reading is recorded again", {
  x <- gpu(c(1, 2, 3))
  b <- from_dlpack(as_dlpack(x))
  expect_identical(verdigris:::gpu_info(b * 2)$pending, 0)
  rm(x)
  collect_garbage()
  expect_identical(verdigris:::gpu_info(b * 2)$pending, 1)
  expect_identical(collect(b * 2), c(2, 4, 6))
})

test_that("bools that their owner has made something else are refused", {
  skip_if(test_device != "cpu", "it writes to the memory as to integers")
  bytes <- gpu(c(1L, 0L, 1L), "uint8")
  b <- gpu_from_pointer(gpu_pointer(bytes), dtype = "bool8")
  expect_identical(collect(b), c(TRUE, FALSE, TRUE))
  kept <- !b
  gpu_copy(c(1L, 7L, 2L), bytes)
  for (use in list(collect, sum, function(b) b & TRUE, function(b) b[[2]], function(b) base::sum(as.vector(b)),
    function(b) b[1:2], rev, as_dlpack, which)) {
    expect_error(use(b), "contains? the byte 7", class = "verdigris_error_dtype")
  }
  expect_identical(collect(kept), c(FALSE, TRUE, FALSE))
  gpu_copy(c(0L, 0L, 1L), bytes)
  expect_identical(collect(b), c(FALSE, FALSE, TRUE))
})

test_that("what was made of an array keeps its values, whoever writes to the memory", {
  withr::local_options(verdigris.host_access = "allow")
  count <- as.integer(Sys.getenv("VERDIGRIS_SHARED", if (emulated) "20" else "100"))
  found <- unlist(lapply(seq_len(count), shared_program))
  expect(length(found) == 0L, paste(c(sprintf("%d of %d programs differ:", length(found), count),
    utils::head(found, 5L)), collapse = "\n"))
})
