# Random programs on arrays that share memory: exports, imports, `out =`, copies, assignment, views, graphs and earlier
# recorded operations, beside a model on the host. In the model a name stands for elements `at` of a memory, which is a
# vector in an environment:
#
# * a writable export and a strided view have the same memory as the array that they are made of;
# * a read-only export *follows* a memory: a write there is either seen or not, as long as each value is one that the
#   memory has had;
# * everything else made of an array, a part of a read-only export too, has memory of its own, with the values at the
#   time of the call.

shared_program <- function(seed, steps = 24L, device = test_device) {
  set.seed(seed)
  one_of <- function(x) x[[sample.int(length(x), 1L)]]
  chance <- function(p) stats::runif(1) < p
  log <- character()
  note <- function(...) log[[length(log) + 1L]] <<- paste0(...)
  wrong <- function(...)
    stop(structure(class = c("shared_wrong", "error", "condition"), list(message = paste0(...), call = NULL)))
  wide <- chance(0.2)

  memory <- function(values) {
    made <- new.env()
    made$values <- values
    made
  }
  # ro: not to be written to, NA where that is not known; follows: list(memory, at); may: values that it may have
  # besides
  thing <- function(x, memory, at, ro = FALSE, follows = NULL, may = list()) {
    made <- new.env()
    made$x <- x
    made$memory <- memory
    made$at <- at
    made$ro <- ro
    made$follows <- follows
    made$may <- may
    made$id <- made_so_far <<- made_so_far + 1L
    made
  }
  own <- function(x, values) thing(x, memory(values), seq_along(values))
  made_so_far <- 0L
  all <- list()
  waiting <- list() # capsules
  graphs <- list()
  add <- function(made) {
    all[[length(all) + 1L]] <<- made
    note("  ", name(made))
    made
  }
  expected <- function(t) t$memory$values[t$at]
  name <- function(t) paste0("v", t$id)
  # looks at a value; where several are right the one that is there is taken
  seen <- function(t) {
    got <- as.double(collect(t$x))
    right <- c(list(expected(t)), t$may)
    k <- Position(function(v) identical(as.double(v), got), right)
    if (is.na(k)) wrong(name(t), " is ", toString(got, 60), " and not ", paste(vapply(right, toString, "", 60),
      collapse = " or "))
    if (k > 1L) {
      t$memory <- memory(got)
      t$at <- seq_along(got)
    }
    t$may <- list()
    got
  }
  written <- function(to) {
    for (t in c(all, waiting)) {
      if (is.null(t$follows) || !identical(t$follows$memory, to)) next
      t$may <- c(t$may, list(to$values[t$follows$at]))
      if (!is.null(t$x) && chance(0.5)) seen(t)
    }
  }
  put <- function(t, values) {
    if (t$ro) {
      t$memory <- memory(values)
      t$at <- seq_along(values)
      t$follows <- NULL
      t$may <- list()
      t$ro <- FALSE
    } else {
      t$memory$values[t$at] <- values
      written(t$memory)
    }
  }
  reader <- function(x, of, ro = TRUE) {
    follows <- if (is.null(of$follows)) list(memory = of$memory, at = of$at) else of$follows
    thing(x, memory(expected(of)), seq_along(of$at), ro, follows)
  }
  numbers <- function(n) sample(0:50, n, TRUE) + 0
  leaf <- function() {
    n <- if (wide) 3000L else one_of(c(3L, 4L, 8L))
    values <- numbers(n)
    dtype <- one_of(c("float64", "float64", "float32", "int32"))
    note("leaf ", dtype, " ", n)
    x <- as_gpu(values, dtype, device = device)
    if (chance(0.3)) x <- x + 0L
    add(own(x, values))
  }
  # an expression of an array, and what it is
  made_of <- function(t) {
    v <- seen(t)
    x <- t$x
    n <- length(v)
    if (n == 0L) return(list("nothing", x + 0L, v))
    k <- sample.int(n, 1L)
    other <- Filter(function(o) length(o$at) == n, all)
    switch(sample.int(12L, 1L),
      list("*", (x * 2L) %% 97L, (v * 2) %% 97),
      list("rev", rev(x), rev(v)),
      list("part", x[1:k], v[1:k]),
      list("gather", x[c(k, 1L)], v[c(k, 1L)]),
      list("mask", x[x > 20], v[v > 20]),
      list("cumsum", cumsum(x) %% 97L, cumsum(v) %% 97),
      list("sum", as_gpu(x * 0L) + sum(x) %% 97L, v * 0 + sum(v) %% 97),
      list("matrix", (matrix(x, 1) + 1L)[1, ], v + 1),
      list("t", as.vector(t(matrix(x, n))) + x, v + v),
      list("two", { o <- one_of(other); w <- seen(o); (x + o$x) %% 97L }, (v + w) %% 97),
      list("ifelse", ifelse(x > 10L, x, 7L), ifelse(v > 10, v, 7)),
      list("margin", rowSums(matrix(x, n)) + 1L, v + 1)
    )
  }
  import <- function(t) {
    v <- seen(t)
    kind <- one_of(c("dlpack", "old dlpack", "pointer", "address", "interface", "strided", "window", "copy of it"))
    reads <- chance(0.5)
    if (kind %in% c("interface", "strided", "window")) reads <- FALSE
    # strides and offsets count elements of the memory
    if (kind %in% c("strided", "window") && !identical(gpu_pointer(t$x, writable = FALSE)$strides, 1)) kind <- "dlpack"
    note("import ", name(t), " ", kind, if (reads) " to read")
    x <- t$x
    n <- length(v)
    if (kind == "copy of it") return(add(own(from_dlpack(as_dlpack(x), copy = TRUE), v)))
    if (!reads && t$ro) {
      if (kind %in% c("strided", "window")) return(add(reader(gpu_as_strided(x, n), t)))
      said <- tryCatch({ as_dlpack(x, writable = TRUE); "nothing" }, verdigris_error_argument = function(e) "refused")
      if (said != "refused") wrong(name(t), " is read-only and was lent to a writer")
      return()
    }
    if (reads) {
      y <- switch(kind,
        dlpack = from_dlpack(as_dlpack(x)), `old dlpack` = from_dlpack(as_dlpack(x, versioned = FALSE)),
        pointer = gpu_from_pointer(gpu_pointer(x, writable = FALSE)),
        address = { p <- gpu_pointer(x, writable = FALSE)
        gpu_from_pointer(p$address, n, p$dtype, p$strides, device, owner = list(p)) }
      )
      # whether the older form and a bare address can be written to depends on who else has the memory; here nobody
      # tries
      made <- reader(y, t)
      if (kind %in% c("old dlpack", "address")) made$ro <- NA
      return(add(made))
    }
    at <- t$at
    y <- switch(kind,
      dlpack = from_dlpack(as_dlpack(x, writable = TRUE)),
        `old dlpack` = from_dlpack(as_dlpack(x, versioned = FALSE, writable = TRUE)),
      pointer = gpu_from_pointer(gpu_pointer(x)), interface = gpu_from_array_interface(gpu_array_interface(x)),
      address = { p <- gpu_pointer(x); gpu_from_pointer(p$address, n, p$dtype, p$strides, device, owner = list(p)) },
      strided = { at <- rev(at); gpu_as_strided(x, n, -1, n - 1) },
      window = { at <- at[-1L]; gpu_as_strided(x, n - 1L, offset = 1) }
    )
    add(thing(y, t$memory, at))
  }
  step <- function() {
    all <<- Filter(function(t) !is.null(t$x), all)
    if (length(all) < 2L || chance(0.08)) return(leaf())
    t <- one_of(all)
    what <- stats::runif(1)
    if (what < 0.3) {
      made <- made_of(t)
      note("made ", made[[1L]])
      y <- made[[2L]]
      if (chance(0.15)) gpu_compute(y)
      return(add(own(y, made[[3L]])))
    }
    if (what < 0.5) return(if (!length(t$at) || is.na(t$ro)) NULL else import(t))
    if (what < 0.55) {
      note("capsule ", name(t))
      seen(t)
      made <- reader(NULL, t)
      made$capsule <- as_dlpack(t$x)
      waiting[[length(waiting) + 1L]] <<- made
      return()
    }
    if (what < 0.6 && length(waiting)) {
      made <- waiting[[1L]]
      waiting <<- waiting[-1L]
      made$x <- from_dlpack(made$capsule)
      note("capsule taken")
      return(add(made))
    }
    if (what < 0.75 && !is.na(t$ro)) {
      v <- seen(t)
      note("out ", name(t))
      if (chance(0.5)) {
        new <- (v * 3 + 1) %% 97
        gpu_compute((t$x * 3L + 1L) %% 97L, out = t$x)
      } else {
        new <- numbers(length(v))
        gpu_compute(as_gpu(new, device = device), out = t$x)
      }
      return(put(t, new))
    }
    if (what < 0.82 && !is.na(t$ro)) {
      new <- numbers(length(t$at))
      note("copy to ", name(t))
      seen(t)
      gpu_copy(if (chance(0.5)) new else as_gpu(new, device = device), t$x)
      return(put(t, new))
    }
    if (what < 0.88 && length(t$at)) {
      v <- seen(t)
      k <- sample.int(length(v), 1L)
      note("assign to a copy of ", name(t))
      y <- t$x
      y[k] <- 5L
      return(add(own(y, replace(v, k, 5))))
    }
    if (what < 0.91) {
      note("free ", name(t))
      if (chance(0.5)) gpu_free(t$x)
      t$x <- NULL
      return()
    }
    if (what < 0.95 && device == "cpu" || what < 0.92) {
      v <- seen(t)
      note("graph of ", name(t))
      x <- t$x
      run <- gpu_graph((x + 1L) %% 97L)
      graphs[[length(graphs) + 1L]] <<- list(run = run, last = new.env())
      graphs[[length(graphs)]]$last$v <<- v
      graphs[[length(graphs)]]$like <<- gpu_dtype(x)
      return()
    }
    if (what < 0.98 && length(graphs)) {
      g <- one_of(graphs)
      note("graph run")
      y <- if (chance(0.4)) {
        g$last$v <- numbers(length(g$last$v))
        given <- as_gpu(g$last$v, g$like, device = device)
        all[[length(all) + 1L]] <<- own(given, g$last$v)
        g$run(x = given)
      } else g$run()
      return(add(own(y, (g$last$v + 1) %% 97)))
    }
    note("gc")
    gc(full = FALSE)
  }
  said <- tryCatch({
    for (k in seq_len(steps)) step()
    for (t in all) if (!is.null(t$x)) seen(t)
    NULL
  }, shared_wrong = conditionMessage, error = function(e) paste("an error:", conditionMessage(e)))
  if (is.null(said)) return(NULL)
  paste0("seed ", seed, ": ", said, "\n", paste(log, collapse = "\n"))
}
