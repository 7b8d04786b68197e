#' Record code as a CUDA graph
#'
#' A kernel takes a few microseconds to launch from R; with twenty small kernels most of the time is spent on launches.
#' `gpu_graph()` runs a block of code once while the device records the work that is queued, and returns a function that
#' repeats all of it with one call, for the same or for other inputs.
#'
#' **Inputs** are the arrays among the variables that the block names: `g(x = new)` copies `new` into the graph's own
#' memory for `x` and runs. It must have the dim, dtype and device of the original; host vectors and matrices are
#' uploaded. Inputs that are not given keep their latest values. All other values are fixed when they are recorded:
#' numbers, other arrays (in lists or sparse matrices, or used by functions), and random draws, whose key is recorded
#' too. The graph keeps these other arrays, and uses values that are later written to them in place. A graph does not
#' raise the warnings of its computations ("NaNs produced").
#'
#' **The block** is evaluated once, in an environment of its own whose parent is the caller's. Only the work that it
#' queues on the device is recorded, not the R code around it: loops are unrolled, and branches are fixed. Operations
#' for which R would have to wait cannot be recorded, and raise an error of class `verdigris_error_capture`: a number
#' that R reads (`if (sum(x) > 1)`, `print(x)`), a length that depends on values (`x[x > 0]`), a factorisation. Numbers
#' that stay on the device, such as `x / sum(x)`, can be recorded.
#'
#' The block does not modify its inputs, even by `gpu_compute(out = x)` or kernels. Arrays that it assigns elsewhere
#' (`<<-`) are in the graph's memory.
#'
#' **The memory** that the block allocates belongs to the graph until R collects the graph. Results are copied out of
#' this memory. With `copy = FALSE` they are not copied, and the next run overwrites them.
#'
#' A run is queued on the current stream (see [gpu_stream()]), and waits there for work on its inputs in other streams.
#' The cpu device has nothing to record: each run evaluates the block, so code that a GPU could not record works there
#' too.
#'
#' @param expr A block of code, or a call. Its value is an array, or a list in which some elements are.
#' @param copy Whether results are copies.
#' @param device The device that records; `NULL` is the device of the arrays, or the current device.
#' @returns A function of class `gpu_graph` with an argument for each input. It returns the block's value, in which each
#'   recorded result is a new array, of length 1 for a reduction to one number. Results are queued, not waited for.
#'   `print()` shows inputs, nodes and memory.
#' @section Errors:
#' `verdigris_error_capture` if the block cannot be recorded. The function that `gpu_graph()` returns raises
#' `verdigris_error_argument` for an unknown input, and `verdigris_error_shape`, `verdigris_error_dtype` and
#' `verdigris_error_device` for an input that does not match the original. Nothing has run in these cases.
#' @seealso [gpu_compute()], which runs recorded expressions; a graph records launches.
#' @examples
#' x <- as_gpu(c(1, 2, 3), device = "cpu")
#' g <- gpu_graph({
#'   y <- x / sum(x)
#'   list(share = y, total = sum(x))
#' })
#' g()
#' g(x = c(2, 2, 4))
#' g
#' @export
gpu_graph <- function(expr, copy = TRUE, device = NULL) {
  if (!isTRUE(copy) && !isFALSE(copy)) abort_argument("copy", "TRUE or FALSE", copy)
  code <- substitute(expr)
  caller <- parent.frame()
  # variables are looked at one by one: an element of a list keeps one more reference for good, and R copies a pinned
  # vector with two references when it is written; the graph keeps the sparse matrices that it was recorded with
  named <- Filter(function(name) is_array(get0(name, envir = caller)), all.vars(code))
  inputs <- mget(named, envir = caller, inherits = TRUE)
  if (is.null(device) && length(inputs)) device <- gpu_device(inputs[[1L]])
  device <- .Call(C_device_name, device)
  if (device == "cpu") evaluated_graph(code, caller, inputs) else recorded_graph(code, caller, inputs, copy, device)
}

# Checks an input and uploads host values; errors name the input.
checked_input <- function(name, x, like) {
  if (!is_array(x)) {
    if (!(is.numeric(x) || is.logical(x) || is.complex(x)))
      stop_verdigris("argument", sprintf("`%s` must be an array or a vector, not %s.", name, describe(x)), call = NULL)
    x <- as_gpu(x, dtype = like$dtype, device = like$device)
  }
  shape <- function(d, n) if (is.null(d)) paste("length", format_count(n)) else paste("dim", paste(d, collapse = " x "))
  if (length(x) != like$length || !identical(dim(x), like$dim)) {
    stop_verdigris("shape", sprintf("`%s` must have %s, as when the graph was recorded, not %s.", name,
      shape(like$dim, like$length), shape(dim(x), length(x))),
      "Record another graph for another shape.", call = NULL)
  }
  if (gpu_dtype(x) != like$dtype) {
    stop_verdigris("dtype", sprintf("`%s` must be %s, as when the graph was recorded, not %s.", name, like$dtype,
      gpu_dtype(x)),
      sprintf("Cast it with `gpu_cast(%s, \"%s\")`.", name, like$dtype), call = NULL)
  }
  if (gpu_device(x) != like$device) {
    stop_verdigris("device", sprintf("`%s` must be on %s, as the graph is, not on %s.", name, like$device,
      gpu_device(x)),
      sprintf("Move it with `as_gpu(%s, device = \"%s\")`.", name, like$device), call = NULL)
  }
  x
}

described_inputs <- function(inputs) {
  lapply(inputs, function(x) list(dtype = gpu_dtype(x), device = gpu_device(x), dim = dim(x), length = length(x)))
}

# The R function of a graph, with an argument for each input. `run` gets a list of those given, by name.
graph_function <- function(inputs, run, info) {
  likes <- described_inputs(inputs)
  call <- function(...) {
    given <- list(...)
    if (length(given)) {
      names <- names(given)
      if (is.null(names) || anyNA(at <- match(names, names(likes))) || anyDuplicated(names)) {
        known <- if (length(likes)) paste0("`", names(likes), "`", collapse = ", ") else "none"
        stop_verdigris("argument",
          sprintf("the graph takes each of its inputs once, by name. The inputs are: %s.", known), call = NULL)
      }
      for (k in seq_along(given)) given[[k]] <- checked_input(names[[k]], given[[k]], likes[[at[[k]]]])
    }
    run(given)
  }
  structure(call, class = "gpu_graph")
}

# A new array with the values of `x`, which it keeps when `x` is written to or freed, and with the attributes of `like`.
own_values <- function(x, like = x) {
  y <- .Call(C_frozen, x)
  attributes(y) <- attributes(like)
  y
}

evaluated_graph <- function(code, caller, inputs) {
  last <- list2env(lapply(inputs, own_values), parent = caller)
  compute <- function(x) {
    if (is_array(x)) return(gpu_compute(x))
    if (is.list(x) && !is.object(x)) x[] <- lapply(x, compute)
    x
  }
  run <- function(given) {
    list2env(lapply(given, own_values), last)
    # the block gets copies of the inputs, since it may write to them
    compute(eval(code, list2env(Map(own_values, mget(names(inputs), last), inputs), parent = last)))
  }
  run(list())
  graph_function(inputs, run, function() list(device = "cpu"))
}

recorded_graph <- function(code, caller, inputs, copy, device) {
  frame <- new.env(parent = caller)
  begun <- .Call(C_graph_begin, unname(inputs), device)
  recording <- begun$recording
  on.exit(if (!is.null(recording)) .Call(C_graph_abandon, recording))
  for (k in seq_along(inputs)) assign(names(inputs)[[k]], begun$inputs[[k]], envir = frame)
  value <- eval(code, frame)
  places <- array_places(value)
  outputs <- lapply(places, function(place) if (length(place)) value[[place]] else value)
  pointer <- .Call(C_graph_end, recording, outputs)
  recording <- NULL
  rm(frame, begun)
  none <- stats::setNames(vector("list", length(inputs)), names(inputs))
  run <- function(given) {
    all <- none
    all[names(given)] <- given
    results <- .Call(C_graph_run, pointer, all, outputs, copy)
    if (length(places) == 1L && !length(places[[1L]])) return(results[[1L]])
    for (k in seq_along(places)) value[[places[[k]]]] <- results[[k]]
    value
  }
  graph_function(inputs, run, function() c(list(device = device), .Call(C_graph_info, pointer)))
}

# The paths of arrays in a value: index vectors for `[[`, an empty one for the value itself.
array_places <- function(value, at = integer()) {
  if (is_array(value) || .Call(C_is_pending_number, value)) return(list(at))
  if (!is.list(value)) return(list())
  unlist(lapply(seq_along(value), function(k) array_places(value[[k]], c(at, k))), recursive = FALSE)
}

#' @export
print.gpu_graph <- function(x, ...) {
  made <- environment(x)
  info <- made$info()
  cat(sprintf("<gpu_graph> on %s", info$device))
  if (!is.null(info$nodes)) cat(sprintf(": %d nodes, %s", info$nodes, format_bytes(info$bytes)))
  cat("\n")
  for (name in names(made$likes)) {
    like <- made$likes[[name]]
    cat(sprintf("  %s: %s[%s]\n", name, like$dtype, paste(if (is.null(like$dim)) like$length else like$dim,
      collapse = ", ")))
  }
  invisible(x)
}
