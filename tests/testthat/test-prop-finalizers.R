# Finalizers of R code that use arrays and other objects that own our memory: R finalizes both after one collection, in
# any order.

# Objects by kind, and what is done with them; in children, since what is wrong here ends R. The finalizer is registered
# before the object is made, so that R runs it after the object's own.
grid <- quote({
  objects <- list(
    computed = function() gpu_compute(as_gpu(c(1, 2, 3)) * 2), recorded = function()
      as_gpu(c(1, 2, 3)) * 2, kept = function() {
      x <- as_gpu(c(1, 2, 3)) * 2
      x[[1]]
      x
    },
    integer = function() as_gpu(c(2L, 4L, 6L)), float32 = function() as_gpu(c(2, 4, 6), "float32"), matrix = function()
      as_gpu(matrix(c(2, 4, 6), 3)),
    vector = function() as.vector(gpu_full(2, 2e5)), pinned = function() {
      p <- gpu_pinned(3)
      p[1:3] <- c(2, 4, 6)
      p
    }
  )
  uses <- list(
    length = length, sum = sum, mean = mean, plus = function(x) as.vector(x + 1), root = function(x)
      as.vector(sqrt(x)), first = function(x) as.vector(x[1]),
    element = function(x) x[[2]], mask = function(x) as.vector(x[x > 2]), assign = function(x) {
      x[1] <- 5
      as.vector(x)
    },
    vector = function(x) as.vector(x) + 0, integer = as.integer, character = function(x)
      paste0(as.character(x)), range = range, order = function(x) as.vector(order(x)), rev = function(x)
      as.vector(rev(x)),
    rep = function(x) as.vector(rep(x, 2)), c = function(x) as.vector(c(x, 1)), identical = function(x)
      identical(x, x), copy = function(x) as.vector(gpu_compute(x + 0)),
    cast = function(x) as.vector(gpu_cast(as_gpu(x), "float32")), dlpack = function(x)
      as.vector(from_dlpack(as_dlpack(as_gpu(x)))), serialize = function(x) as.vector(unserialize(serialize(x, NULL))),
    base = function(x) base::cumsum(x)[3], pointer = function(x) as.vector(gpu_from_pointer(gpu_pointer(as_gpu(x)))),
      show = function(x) length(capture.output(print(x))), str = function(x) length(capture.output(utils::str(x))),
    free = function(x) {
      gpu_free(as_gpu(x) + 0)
      0
    }
  )
  value <- function(use, x) tryCatch(use(x), error = function(e) class(e)[[1]])
  run_finalizers <- function() for (k in 1:3) {
    invisible(gc())
    as.vector(as_gpu(1) + 1)
  }
})

test_that("a finalizer uses what it holds", {
  skip_if(emulated, "the emulator takes minutes for all of them")
  code <- c(deparse(grid), deparse(quote({
    out <- list()
    for (kind in names(objects)) {
      for (name in names(uses)) {
        local({
          kind <- kind
          name <- name
          e <- new.env()
          reg.finalizer(e, function(e) out[[paste(kind, name)]] <<- value(uses[[name]], e$x), onexit = name == "sum")
          e$x <- objects[[kind]]()
        })
      }
    }
    run_finalizers()
    for (kind in names(objects)) {
      for (name in names(uses)) {
        want <- value(uses[[name]], objects[[kind]]())
        same <- tryCatch(identical(out[[paste(kind, name)]], want), error = function(e) NA)
        if (!isTRUE(same)) cat("WRONG", kind, name, same, "\n")
      }
    }
    cat("uses", length(out), "\n")
  })))
  out <- expect_child_ends(code, timeout = if (emulated) 600 else 120)
  expect_identical(grep("WRONG", out, value = TRUE), character())
  expect_true("uses 216 " %in% out)
})

test_that("what a finalizer brings back has its values, or is an error", {
  skip_if(emulated, "the emulator takes minutes for all of them")
  code <- c(deparse(grid), deparse(quote({
    back <- list()
    for (kind in names(objects)) {
      for (touched in c(TRUE, FALSE)) {
        local({
          kind <- paste(kind, touched)
          touched <- touched
          e <- new.env()
          reg.finalizer(e, function(e) {
            if (touched) e$x[[1]]
            back[[kind]] <<- e$x
          })
          e$x <- objects[[sub(" .*", "", kind)]]()
        })
      }
    }
    run_finalizers()
    for (kind in names(back)) {
      lost <- FALSE
      for (name in names(uses)) {
        want <- value(uses[[name]], objects[[sub(" .*", "", kind)]]())
        got <- value(uses[[name]], back[[kind]])
        # R's deferred strings are computed when they are looked at
        got <- value(function(x) if (is.character(x)) paste0(x) else x, got)
        refused <- identical(got, "verdigris_error_consumed")
        lost <- lost || refused
        if (!refused && !identical(got, want) && !(lost && name %in% c("identical", "free", "show", "str")))
          cat("WRONG", kind, name, format(got), "\n")
        if (refused && grepl("TRUE", kind)) cat("WRONG lost", kind, name, "\n")
      }
      if (!lost && grepl("FALSE", kind)) cat("kept", kind, "\n")
      try(gpu_free(back[[kind]]), silent = TRUE)
      copy <- back[[kind]]
      try(capture.output(invisible(.Internal(inspect(copy)))), silent = TRUE)
    }
    rm(back)
    run_finalizers()
    cat("left", .Call(verdigris:::C_live)[[1]], "\n")
  })))
  out <- expect_child_ends(code, timeout = if (emulated) 600 else 120)
  expect_identical(grep("WRONG", out, value = TRUE), character())
})

test_that("an object whose `finalize` frees, saves or computes is finalized", {
  skip_if_not_installed("R6")
  code <- quote({
    seen <- list()
    Model <- R6::R6Class("Model", public = list(
      w = NULL,
      initialize = function() self$w <- as_gpu(c(1, 2, 3)),
      step = function() self$w <- gpu_compute(self$w * 2),
      finalize = function() {
        seen[[1]] <<- as.vector(self$w + 1)
        gpu_free(self$w)
        seen[[2]] <<- tryCatch(sum(self$w), error = function(e) class(e)[[1]])
      }
    ))
    m <- Model$new()
    m$step()
    rm(m)
    gc()
    as_gpu(1) + 1
    stopifnot(identical(seen, list(c(3, 5, 7), "verdigris_error_consumed")))
  })
  expect_child_ends(code)
})

test_that("pointers, capsules, streams, events, graphs and compiled functions in finalizers", {
  code <- c(deparse(grid), deparse(quote({
    made <- list(
      pointer = list(function() gpu_pointer(gpu_full(7, 1000)), function(x) as.vector(gpu_from_pointer(x))[1:2]),
      address = list(function() gpu_pointer(gpu_full(7, 1000))$owner,
        function(x) as.vector(gpu_from_pointer(x, 2, "float64"))),
      interface = list(function() gpu_array_interface(gpu_full(7, 1000)),
        function(x) as.vector(gpu_from_array_interface(x))[1:2]),
      capsule = list(function() as_dlpack(gpu_full(7, 2)), function(x) as.vector(from_dlpack(x))),
      event = list(function() { e <- gpu_event(); gpu_event_record(e); e }, function(x) gpu_event_elapsed(x, x)),
      stream = list(function() gpu_stream(), function(x) { gpu_sync(x); 1 }),
      graph = list(function() {
        a <- gpu_compute(gpu_full(1, 2))
        gpu_graph(a * 2)
      }, function(x) as.vector(x(gpu_full(3, 2)))),
      compiled = list(function() gpu_compile(function(a) a * 2), function(x) as.vector(x(gpu_full(3, 2))))
    )
    out <- back <- list()
    for (kind in names(made)) {
      local({
        kind <- kind
        e <- new.env()
        reg.finalizer(e, function(e) {
          out[[kind]] <<- value(made[[kind]][[2]], e$x)
          back[[kind]] <<- e$x
        })
        e$x <- made[[kind]][[1]]()
      })
    }
    run_finalizers()
    z <- lapply(1:1000, function(i) numeric(100))
    for (kind in names(made)) {
      want <- value(made[[kind]][[2]], made[[kind]][[1]]())
      for (got in list(out[[kind]], if (kind != "capsule") value(made[[kind]][[2]], back[[kind]]))) {
        if (!is.null(got) && !identical(got, want) &&
          !(kind == "capsule" && identical(got, "verdigris_error_consumed"))) cat("WRONG", kind, format(got), "\n")
      }
    }
    cat("kinds", length(out), "\n")
  })))
  out <- expect_child_ends(code, timeout = if (emulated) 600 else 120)
  expect_identical(grep("WRONG", out, value = TRUE), character())
  expect_true("kinds 8 " %in% out)
})

test_that("finalizers at the end of R use arrays", {
  code <- quote({
    e <- new.env()
    reg.finalizer(e, function(e) cat("sum", sum(e$x), mean(e$v), "\n"), onexit = TRUE)
    e$x <- gpu_compute(as_gpu(c(1, 2, 3)) * 2)
    e$v <- as.vector(gpu_full(2, 2e5))
  })
  out <- in_child(code)
  expect_identical(attr(out, "status"), 0L)
  expect_true("sum 12 2 " %in% out)
})
