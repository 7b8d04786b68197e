# Sorting of readers, an external merge sort. The first pass sorts each block on the device, and writes these runs one
# after the other to a temporary file. Samples of the runs then divide all values into segments that fit into a block.
# Each segment is read from all runs, sorted on the device, and appended to the result. If a value has more elements
# than a block holds, they are a segment of their own, which is in order already.

# A temporary file to which blocks are appended: `put(value)`; `end()` returns a reader of it. Its name is removed as
# soon as it is open, if the system allows that, so that a killed process leaves nothing behind.
run_file <- function(folder, call) {
  path <- tempfile("verdigris-sort-", folder)
  sink <- new_sink(gpu_writer(path), 2, call)
  opened <- FALSE
  end <- function() {
    reader <- sink$end()
    opened <<- TRUE
    if (.Platform$OS.type == "unix") unlink(path)
    reader
  }
  list(put = sink$put, end = end, undo = function() {
    if (!opened) sink$undo()
    unlink(path)
  })
}

check_sortable <- function(block, name, call) if (is.complex(block)) refuse_reader(name, call,
  "Only real numbers are supported.")

# A block's elements in order, missing ones last, and if `places` their positions in the block.
sorted_block <- function(block, places, name, call) {
  check_sortable(block, name, call)
  found <- .Call(C_sort, strip(block), FALSE, places)
  n <- length(block)
  known <- n - missing_last(found[[1L]])
  list(sorted = found[[1L]], at = if (places) found[[2L]], known = known, missing = n - known)
}

# Sorts all blocks and writes them to files. `values` and, if asked for, the positions `at` are readers of these. For
# each run the list has where it begins, how many elements are known and missing, and its samples.
sorted_runs <- function(x, places, folder, name, call) {
  files <- list(values = run_file(folder, call), at = if (places) run_file(folder, call))
  files <- Filter(Negate(is.null), files)
  done <- FALSE
  on.exit(if (!done) for (file in files) file$undo())
  margin <- margin_for(x, NULL, NULL, .Call(C_device_name, NULL))
  source <- reader_blocks(x, NULL, margin, NULL, .Call(C_device_name, NULL), call)
  # enough samples a run that the elements between two neighbouring samples of all runs fit into a block
  kept <- max(PLACES_OF_BLOCK, 4 * source$chunks)
  runs <- list()
  before <- 0
  f <- function(block) {
    found <- sorted_block(block, places, name, call)
    n <- found$known
    at <- if (n > 0) unique(round(seq(1, n, length.out = min(n, kept)))) else numeric()
    found$places <- at
    found$values <- order_values(found$sorted, at)
    if (places) {
      size <- length(block)
      # positions in the whole, which integers may not hold
      found$at <- gpu_compute(if (rows_of_reader(x) > .Machine$integer.max) as_float64(found$at) + before else
        found$at + as.integer(before))
      before <<- before + size
    }
    found
  }
  first <- 0
  put <- function(run) {
    run <- run$value
    files$values$put(run$sorted)
    if (places) files$at$put(run$at)
    free_all(run$sorted, run$at)
    runs[[length(runs) + 1L]] <<- c(list(first = first), run[c("known", "missing", "places", "values")])
    first <<- first + run$known + run$missing
    NULL
  }
  run_chunks(source, f, put, "The computation failed on", call)
  readers <- lapply(files, function(file) file$end())
  done <- TRUE
  of_runs <- function(field) vapply(runs, `[[`, 1, field)
  samples <- lapply(runs, `[`, c("places", "values"))
  value <- NULL
  if (is_int64_reader(readers$values)) {
    # 64-bit integers are compared by their positions among all samples
    coded <- coded_int64(lapply(runs, `[[`, "values"))
    value <- coded$value
    samples <- Map(function(run, codes) replace(run, "values", list(codes)), samples, coded$codes)
  }
  list(values = readers$values, at = readers$at, first = of_runs("first"), known = of_runs("known"),
    missing = of_runs("missing"), samples = samples, value = value,
    undo = function() for (file in files) file$undo())
}

# Values that divide all elements into segments of about half of `most` elements, as estimated from the samples.
segment_limits <- function(samples, most) {
  values <- unlist(lapply(samples, `[[`, "values"))
  weights <- unlist(lapply(samples, function(run) diff(c(0, run$places))))
  at <- order(values)
  values <- values[at]
  last <- base::which(!duplicated(values, fromLast = TRUE))
  total <- cumsum(weights[at])[last]
  values <- values[last]
  limits <- integer()
  so_far <- 0
  repeat {
    k <- findInterval(so_far + most / 2, total) + 1L
    if (k > length(total)) break
    limits[length(limits) + 1L] <- k
    so_far <- total[k]
  }
  values[limits]
}

# How many of a run's elements are below a value, and how many are not above it. The samples bound the two positions,
# and only elements between neighbouring samples are read.
rank_in_run <- function(runs, k, value) {
  run <- runs$samples[[k]]
  places <- c(run$places, runs$known[k] + 1)
  within <- function(i, strict) {
    if (i == 0L) return(0)
    from <- places[i]
    count <- places[i + 1L] - from - 1
    if (count <= 0) return(from)
    if (is.null(runs$value)) return(from + findInterval(value, as.double(read_block(runs$values, runs$first[k] + from,
      count, 1)), left.open = strict))
    y <- block_take(runs$values, block_start(runs$values, runs$first[k] + from, count, 1, NULL, "cpu"))
    limit <- on_cpu(runs$value(value))
    from + as.double(sum(if (strict) y < limit else y <= limit))
  }
  c(within(findInterval(value, run$values, left.open = TRUE), TRUE), within(findInterval(value, run$values), FALSE))
}

# The segments, each of which is read, sorted and written at a time: for each run where the segment begins and how many
# elements it has. `ordered` segments need no sorting.
sort_segments <- function(runs, most, decreasing, na.last) {
  n <- length(runs$first)
  limits <- segment_limits(runs$samples, most)
  below <- not_above <- base::matrix(0, n, length(limits))
  for (j in seq_along(limits)) for (k in seq_len(n)) {
    found <- rank_in_run(runs, k, limits[j])
    below[k, j] <- found[1L]
    not_above[k, j] <- found[2L]
  }
  segment <- function(from, to, ordered = FALSE) list(from = runs$first + from, count = to - from, ordered = ordered)
  segments <- list()
  add <- function(one) if (sum(one$count) > 0) segments[[length(segments) + 1L]] <<- one
  at <- numeric(n)
  for (j in seq_along(limits)) {
    if (sum(not_above[, j] - at) <= most) {
      add(segment(at, not_above[, j]))
    } else {
      add(segment(at, below[, j]))
      add(segment(below[, j], not_above[, j], TRUE))
    }
    at <- not_above[, j]
  }
  add(segment(at, runs$known))
  if (decreasing) segments <- rev(segments)
  if (!is.na(na.last)) {
    none <- segment(runs$known, runs$known + runs$missing, TRUE)
    if (sum(none$count) > 0) segments <- if (na.last) c(segments, list(none)) else c(list(none), segments)
  }
  do.call(c, c(list(list()), lapply(segments, segment_parts, most)))
}

# Divides segments that are in order into parts of at most `most` elements.
segment_parts <- function(segment, most) {
  if (!segment$ordered || sum(segment$count) <= most) return(list(segment))
  parts <- list()
  for (k in base::which(segment$count > 0)) for (from in seq(0, segment$count[k] - 1, by = most)) {
    count <- 0 * segment$count
    count[k] <- min(most, segment$count[k] - from)
    parts[[length(parts) + 1L]] <- list(from = segment$from + from, count = count, ordered = TRUE)
  }
  parts
}

# Merges runs: calls `put(values, at)` with the elements in order, piece by piece.
merge_runs <- function(runs, most, decreasing, na.last, put, call) {
  device <- .Call(C_device_name, NULL)
  segments <- sort_segments(runs, most, decreasing, na.last)
  files <- Filter(Negate(is.null), runs[c("values", "at")])
  at <- 0L
  start <- function() {
    if (at == length(segments)) return(NULL)
    segment <- segments[[at <<- at + 1L]]
    used <- base::which(segment$count > 0)
    list(segment = segment, coming = lapply(files, function(file) lapply(used, function(k) block_start(file,
      segment$from[k], segment$count[k], 1, NULL, device))))
  }
  take <- function(coming) {
    whole <- function(file, parts) {
      parts <- lapply(parts, function(part) block_take(file, part))
      if (length(parts) == 1L) return(parts[[1L]])
      out <- gpu_compute(join(parts))
      for (part in parts) gpu_free(part)
      out
    }
    c(Map(whole, files, coming$coming), list(ordered = coming$segment$ordered))
  }
  f <- function(pieces) {
    if (pieces$ordered) return(pieces[c("values", "at")])
    found <- .Call(C_sort, pieces$values, decreasing, !is.null(pieces$at))
    out <- list(values = gpu_compute(found[[1L]]), at = if (!is.null(pieces$at)) gpu_compute(pieces$at[found[[2L]]]))
    free_all(pieces$values, pieces$at)
    out
  }
  bytes <- most * if (is.null(runs$at)) 8 else 16
  run_chunks(list(start = start, take = take, chunks = length(segments), bytes = bytes), f, function(done) {
    put(done$value$values, done$value$at)
    NULL
  }, "The computation failed on", call)
}

# Raises an error unless a result fits into memory. It takes twice its size while its pieces are joined.
check_sorted_fits <- function(n, bytes, advice, call) {
  device <- .Call(C_device_name, NULL)
  free <- free_memory(device)
  if (2 * n * bytes > free) stop_verdigris("memory", sprintf(
    "The result has %s elements, %s, and %s has %s free, of which half may be used.", format_count(n),
    format_bytes(n * bytes), device, format_bytes(free)), advice, call = call)
}

check_sorting <- function(decreasing, na.last) {
  call <- parent.frame()
  if (!is_flag(decreasing)) abort_argument("decreasing", "TRUE or FALSE", decreasing, call)
  if (!is.logical(na.last) || length(na.last) != 1L) abort_argument("na.last", "TRUE, FALSE or NA", na.last, call)
}

#' @rdname reader-methods
#' @export
sort.gpu_reader <- function(x, decreasing = FALSE, na.last = NA, to = NULL, ...) {
  call <- environment()
  if (...length()) refuse_reader("sort", call, "Only `decreasing`, `na.last` and `to` are supported.")
  if (x$frame) refuse_reader("sort", call, "Only matrices and vectors are supported.")
  check_sorting(decreasing, na.last)
  writer <- if (!is.null(to)) writer_of(to, call)
  names <- if (is_vector_reader(x)) x$dimnames
  if (is.null(writer)) check_sorted_fits(prod(x$dim), bytes_in_block(x$type),
    "`sort(x, to = path)` writes the result to a file, and returns a reader of it.", call)
  sink <- if (!is.null(writer)) new_sink(writer, 2, call)
  done <- FALSE
  on.exit(if (!done && !is.null(sink)) sink$undo())
  parts <- list()
  sort_reader(x, decreasing, na.last, !is.null(names), if (is.null(writer)) tempdir(check = TRUE) else
    dirname(writer$path), "sort", function(values, at) {
    if (!is.null(names)) values <- with_attributes(values, list(names = names[collect(at)]))
    if (is.null(sink)) {
      parts[[length(parts) + 1L]] <<- values
    } else {
      sink$put(values)
      gpu_free(values)
    }
    free_all(at)
  }, call)
  if (!is.null(sink)) {
    if (!length(x)) sink$put(if (is_int64_reader(x)) empty_array(x) else no_elements(x))
    written <- sink$end()
    done <- TRUE
    return(written)
  }
  if (!length(parts)) return(empty_array(x))
  out <- if (length(parts) == 1L) parts[[1L]] else join(parts)
  if (length(parts) > 1L && !is.null(names)) names(out) <- unlist(lapply(parts, base::names))
  gpu_compute(out)
}

# Sorts a reader, and calls `put(values, at)` with the pieces. A single block is sorted without files.
sort_reader <- function(x, decreasing, na.last, places, folder, name, put, call) {
  # a reader of a function may get its type only with its blocks, which are checked, too
  check_sortable(no_elements(x), name, call)
  margin <- margin_for(x, NULL, NULL, .Call(C_device_name, NULL))
  most <- block_extent(x, NULL, margin, NULL, .Call(C_device_name, NULL), call)
  size <- prod(x$dim)
  if (size == 0) return()
  if (most >= x$dim[margin]) {
    over_blocks(x, function(block) {
      check_sortable(block, name, call)
      at <- if (places) gpu_compute(order(strip(block), na.last = na.last, decreasing = decreasing))
      put(gpu_compute(if (places) strip(block)[at] else sort(strip(block), decreasing, na.last)), at)
      NULL
    }, margin = margin, call = call)
    return()
  }
  if (!is_vector_reader(x)) most <- most * as.double(x$dim[3L - margin])
  runs <- sorted_runs(x, places, folder, name, call)
  on.exit(runs$undo())
  merge_runs(runs, most, decreasing, na.last, put, call)
}

# order() of readers: an array of positions. With several keys, each reader is sorted by itself and replaced by the
# ranks of its elements, which take as much memory as the result.
reader_order <- function(keys, na.last, decreasing, method, call) {
  for (x in Filter(is_reader, keys)) if (!is_vector_reader(x)) refuse_reader("order", call,
    "Only vectors are supported.")
  n <- rows_of_reader(Find(is_reader, keys))
  if (length(keys) > 1L) {
    same <- vapply(keys, function(key) (if (is_reader(key)) rows_of_reader(key) else length(key)) == n, NA)
    if (!all(same)) stop_as_base(gettext("argument lengths differ", domain = "R-base"), call)
    # base R checks the arguments
    call_base(base::order, c(lapply(keys, function(key) 0L), list(na.last = na.last, decreasing = decreasing,
      method = method)))
  } else {
    check_sorting(decreasing, na.last)
  }
  check_sorted_fits(n, length(keys) * (if (n > .Machine$integer.max) 8 else 4),
    "`sort(x, to = path)` sorts the values themselves into a file.", call)
  if (length(keys) > 1L) {
    ranks <- lapply(keys, function(key) if (is_reader(key)) reader_ranks(key, call) else key)
    if (length(decreasing) > 1L) decreasing <- rep_len(decreasing, length(keys))
    return(order_arrays(ranks, na.last, decreasing, method))
  }
  parts <- list()
  sort_reader(keys[[1L]], decreasing, na.last, TRUE, tempdir(check = TRUE), "order", function(values, at) {
    gpu_free(values)
    parts[[length(parts) + 1L]] <<- at
  }, call)
  if (!length(parts)) return(as_gpu(integer()))
  gpu_compute(if (length(parts) == 1L) parts[[1L]] else join(parts))
}

# Each element's position among the distinct values in order: 1 for the smallest, NA for missing elements.
reader_ranks <- function(x, call, name = "order") {
  n <- rows_of_reader(x)
  so_far <- 0
  last <- NULL
  ranks <- list()
  places <- list()
  sort_reader(x, FALSE, NA, TRUE, tempdir(check = TRUE), name, function(values, at) {
    m <- length(values)
    if (m == 0L) return()
    device <- gpu_device(values)
    all <- if (is.null(last)) values else join(list(as_gpu(last, device = device), values))
    steps <- join(c(if (is.null(last)) list(gpu_full(TRUE, 1L, device = device)), differing(all)))
    rank <- gpu_compute(cumsum(steps) + if (n > .Machine$integer.max) so_far else as.integer(so_far))
    so_far <<- as.double(collect(rank[m]))
    last <<- collect_values(values[m])
    gpu_free(values)
    ranks[[length(ranks) + 1L]] <<- rank
    places[[length(places) + 1L]] <<- at
  }, call)
  out <- gpu_full(if (n > .Machine$integer.max) NA_real_ else NA_integer_, n)
  if (length(ranks)) out[join(places)] <- join(ranks)
  out
}
