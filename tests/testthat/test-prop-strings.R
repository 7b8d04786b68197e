# Strings that are no text: marked as bytes, or invalid in their encoding. Arguments that are such are refused with a
# class of the package, names that are such do what they do in base R.

test_that("strings that are no text are refused by what takes strings, and nothing stays locked", {
  bytes <- "a\xff"
  Encoding(bytes) <- "bytes"
  marked <- "a\xff"
  Encoding(marked) <- "UTF-8"
  x <- gpu(c(1, 2))
  file <- withr::local_tempfile()
  gpu_save(list(a = x), file)
  calls <- list(
    device = function(s) as_gpu(1, device = s), dtype = function(s) as_gpu(1, dtype = s),
    cast = function(s) gpu_cast(x, s), use = function(s) gpu_use(s), save = function(s) gpu_save(list(a = x), s), load = function(s) gpu_load(s),
    names = function(s) gpu_save(stats::setNames(list(x), s), withr::local_tempfile()),
    wanted = function(s) gpu_load(file, names = s),
    metadata = function(s) gpu_save(list(a = x), withr::local_tempfile(), metadata = c(k = s)),
    keys = function(s) gpu_save(list(a = x), withr::local_tempfile(), metadata = stats::setNames("v", s)),
    stream = function(s) gpu_stream(s), kernel = function(s) gpu_kernel(s), module = function(s) gpu_module(s),
    path = function(s) gpu_module(path = s), pinned = function(s) gpu_pinned(3, s),
    chunked = function(s) gpu_chunked(1, s), combine = function(s) gpu_chunked(1, sum, combine = s), draws = function(s) gpu_rnorm(3, device = s),
    typestr = function(s) gpu_from_array_interface(list(shape = 1L, typestr = s, data = list(0, FALSE), version = 3L)),
    address = function(s) gpu_from_pointer(s, 3), group = function(s) gpu_group(x, 1:2, s), whole = function(s)
      gpu_compile(function(a) a + 1, whole = s)
  )
  options <- c("cuda_path", "device", "memory_limit", "host_access")
  for (option in options) calls[[option]] <- local({
    name <- paste0("verdigris.", option)
    function(s) withr::with_options(stats::setNames(list(s), name), {
      gpu_devices()
      gpu_memory(test_device)
      as_gpu(1)
      apply(gpu(matrix(1:4, 2)), 1, function(r) r[1])
    })
  })
  for (name in names(calls)) for (text in list(bytes, marked)) {
    if (name == "device" && test_device != "cpu") next
    before <- gpu_use(NULL)
    if (name == "device" || name == "draws") gpu_use(NULL)
    expect_error(calls[[name]](text), class = "verdigris_error", info = paste(name, Encoding(text)))
    gpu_use(before)
    # a lock that was left would be waited for
    expect_gte(nrow(gpu_devices()), 1L)
  }
})

test_that("names that are no text work as in base R", {
  bytes <- "a\xff"
  Encoding(bytes) <- "bytes"
  marked <- "a\xff"
  Encoding(marked) <- "UTF-8"
  latin <- "a\xe9"
  Encoding(latin) <- "latin1"
  withr::local_options(verdigris.host_access = "allow")
  calls <- expression(names(v + 1), v[s], { v[s] <- 3; v }, { v["q"] <- 3; v }, rev(v), sort(v), c(v, v), m[s, ],
    m[, s], t(m), m %*% m, rbind(m, m), cbind(m, m), apply(m, 1, sum), rowSums(m), { m[s, ] <- 0; m }, outer(v, v),
    unlist(list(v, v)), ifelse(v > 1, v, 0), round(v), v[c(s, "b")], tapply(c(1, 2) + 0 * v, c(s, "b"), sum),
    match(v, s))
  for (s in list(bytes, marked, latin)) for (k in seq_along(calls)) {
    run <- function(make) {
      v <- make(stats::setNames(c(1, 2), c(s, "b")))
      m <- make(matrix(c(4, 1, 1, 3), 2, dimnames = list(c(s, "b"), c("u", s))))
      outcome({
        out <- eval(calls[[k]], list2env(list(v = v, m = m, s = s), parent = globalenv()))
        if (is_gpu(out)) collect(out) else out
      })
    }
    want <- run(identity)
    got <- run(gpu)
    label <- paste(deparse1(calls[[k]]), Encoding(s))
    # some of base R's functions refuse bytes
    if (inherits(want$value, "failed")) next
    expect_false(inherits(got$value, "failed"), info = label)
    expect_identical(as.vector(got$value), as.vector(want$value), info = label)
    expect_identical(names(got$value), names(want$value), info = label)
    expect_identical(dimnames(got$value), dimnames(want$value), info = label)
  }
})
