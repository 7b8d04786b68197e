# Runs an R function that base R's apply(), sapply(), tapply() and similar functions would call for each part as one
# kernel. The function must be accepted by gpu_compile(), return one or several numbers, and have no side effects. Other
# functions, and small arrays, are left to base R on the host.

# Number of elements from which a kernel is worth its compilation, by kind of device.
WORTH_COMPILING <- c(cpu = 2^13, cuda = 2^17)

is_worth_compiling <- function(x) settings$force_device_path ||
  length(x) >= WORTH_COMPILING[[if (gpu_device(x) == "cpu") "cpu" else "cuda"]]

# Functions with side effects among those that can be compiled, and those whose warnings name a value. The compiler
# detects random draws itself.
IMPURE <- c("stop", "stopifnot", "<<-", "choose", "lchoose")

# Functions whose result for an empty vector has length 0 or raises a warning in base R, and is NA or infinite on a
# device.
EXTREMES <- list(is.na = c("which.max", "which.min", "which"), is.infinite = c("max", "min", "range"))

# Cache of recent functions: environments with `code`, `way` (how the function is called), and, if it can be compiled,
# `self`, the compiled wrapper, and `around`, the environment of its variables. Without `self` base R calls the
# function. The cache keeps no environment of a user's function alive.
known_pure <- new.env(parent = emptyenv())
known_pure$found <- list()

# The result of `f` for each part as an ordinary vector or matrix, or NULL if base R must compute it. The kernel is
# compiled from a function with these parameters and this body, which calls `f` and refers to these variables.
# `one(k)` is base R's result for the k-th part. With `each` the parts' results are not combined to one vector. `named`
# says whether elements of the parts have names, which c(a = x) makes part of its own.
run_pure <- function(f, way, parameters, body, variables, arguments, device, one, each = FALSE, named = FALSE) {
  entry <- pure_entry(f, way, parameters, body, variables)
  if (is.null(entry$self)) return(NULL)
  variables$f <- f
  for (name in names(variables)) assign(name, variables[[name]], envir = entry$around)
  # The recorded kernel holds the values from here on.
  on.exit(for (name in names(variables)) assign(name, NULL, envir = entry$around))
  seed <- get0(".Random.seed", globalenv(), inherits = FALSE)
  # After an error base R runs the call and raises its own condition. After a compile error base R runs all further
  # calls of this function too.
  run <- function() tryCatch(
    {
      out <- call_routine(entry$self, entry$self$f, arguments, device, NULL)
      variant <- entry$self$last
      if (variant$draws) restore_seed(seed)
      envs <- scopes_for(variant$names_in_scopes, entry$self$f)
      captured <- if (!is.null(envs)) captured_values(variant, envs)
      # each part's own type counts where the parts are not combined
      one_type <- !each || !variant$result_varies && !variant$missing_varies
      captures_names <- any(vapply(captured, has_names, NA))
      is_usable <- !variant$draws && !variant$varies_within && (is.null(variant$names) || variant$is_vector) &&
        !(variant$makes_names && (named || captures_names)) && !is_widened(out, entry, arguments, variables) &&
        !any(vapply(captured, has_methods, NA))
      if (!one_type) FALSE else if (is_usable) {
        if (!is.null(variant$names)) out <- if (ncol(out) == 1L) strip(out) else t(out)
        out <- computed(out, entry, device)
        if (is_gpu(out) && differs_in_form(out, variant, variant$makes_names || captures_names, one)) FALSE else out
      }
    },
    verdigris_error = function(e) if (!inherits(e, "verdigris_error_compile")) FALSE
  )
  if ("sum" %in% entry$names) {
    # Base R's sum of integers is a double where it exceeds them, so base R repeats a call that warns of an overflow.
    # The inputs are computed first: their warnings are raised once.
    for (part in c(variables, arguments)) if (is_gpu(part)) gpu_compute(part)
    out <- tryCatch(run(), warning = function(w) FALSE)
  } else {
    out <- run()
  }
  if (is.null(out)) entry$self <- NULL
  if (is.null(out) || isFALSE(out)) return(NULL)
  y <- .Call(C_as_vector, out, NULL, NULL)
  if (length(dim(out)) == 2L) dim(y) <- dim(out)
  y
}

# The array after evaluation, or FALSE if an extreme of an empty part may be in it, which base R handles.
computed <- function(out, entry, device) {
  gpu_compute(out)
  if (device != "cpu") gpu_sync(device)
  for (is_none in names(EXTREMES)) {
    if (any(EXTREMES[[is_none]] %in% entry$names) && any(get(is_none, baseenv())(out))) return(FALSE)
  }
  out
}

# Whether R's results may have another type than the array, or names. Their type is the widest that some part gives,
# whereas the array has the widest of all ways through the function; `named` says whether names may come from the
# function or from captured values. Base R computes some parts to find out.
differs_in_form <- function(out, variant, named, one) {
  if (variant$missing_varies && all(is.na(out))) return(TRUE)
  if (!variant$result_varies && !named) return(FALSE)
  values <- as.vector(out)
  n <- if (is.null(dim(out))) length(out) else ncol(out)
  # extremes tell most
  found <- if (!is.complex(values)) c(which.max(values), which.min(values), base::which(values != trunc(values))[1L])
  if (length(values) > n) found <- (found - 1) %/% (length(values) / n) + 1
  places <- unique(c(found[!is.na(found)], round(seq(1, n, length.out = min(n, PROBED)))))
  known <- !variant$result_varies
  for (k in places) {
    part <- one(k)
    if (named && !is.null(attributes(part))) return(TRUE)
    known <- known || identical(typeof(part), typeof(out))
    if (known && !named) return(FALSE)
  }
  !known
}
PROBED <- 8L

# Whether a captured value has names, which R's elements of it keep.
has_names <- function(value) !is.null(names(value)) || !is.null(dimnames(value))

# Whether a captured value has a class, whose methods R would call.
has_methods <- function(value) is.object(value) && !is_gpu(value) && !is_host_int64(value)

# Restores the state of the generator: base R repeats the call and draws from there.
restore_seed <- function(seed) {
  if (is.null(seed)) rm(".Random.seed", envir = globalenv()) else assign(".Random.seed", seed, envir = globalenv())
}

# Whether the result is double because it is an extreme of integers: on a device an extreme of an empty part is
# infinite.
is_widened <- function(out, entry, arguments, variables) {
  of <- if (is.null(variables$x)) if (is.null(variables$y)) arguments else variables["y"] else variables["x"]
  any(EXTREMES$is.infinite %in% entry$names) && is.double(if (is.list(out)) out[[1L]] else out) &&
    !all(vapply(of, is.double, NA))
}

pure_entry <- function(f, way, parameters, body, variables) {
  for (entry in known_pure$found) {
    if (identical(entry$way, way, num.eq = FALSE) && has_code(f, entry$code) && !is.null(scopes_for(entry$meaning, f))) return(entry)
  }
  entry <- list2env(list(code = code_of(f), way = way, self = NULL), parent = emptyenv())
  meaning <- tryCatch(surroundings(f, "FUN", free_stack()), verdigris_error_compile = function(e) NULL)
  entry$meaning <- meaning$names
  code <- lapply(meaning$functions, function(one) as.call(c(as.name("{"), one$body, given_defaults(one$formals))))
  entry$names <- base::unlist(lapply(code, all.names))
  is_pure <- length(code) && !any(IMPURE %in% entry$names)
  if (is_pure) {
    entry$around <- new.env(parent = baseenv())
    entry$self <- environment(gpu_compile(made_function(parameters, body, entry$around)))
    entry$self$exact <- TRUE
  }
  known_pure$found <- c(list(entry), known_pure$found[seq_len(min(length(known_pure$found), 31L))])
  entry
}

# Whether further arguments can be passed to a kernel: non-empty numbers and arrays.
are_numbers <- function(more) all(vapply(more, function(x) is_number(x) && length(x) > 0L, NA))

# Whether f is a closure without a class, and not compiled already.
is_written <- function(f) is.function(f) && !is.primitive(f) && !is_compiled(f) && !is.object(f)

# apply() of a matrix along one of its margins.
apply_pure <- function(x, margin, f, more) {
  d <- dim(x)
  if (!is_written(f) || length(d) != 2L || length(margin) != 1L || !length(x) || is_int64(x) || is.complex(x) ||
    !is_worth_compiling(x) || !are_numbers(more)) return(NULL)
  labels <- names(more) %||% character(length(more))
  names <- if (length(more)) paste0(".more", seq_along(more))
  piece <- if (margin == 1L) quote(x[k, ]) else quote(x[, k])
  inside <- if (margin == 1L) quote(k >= 1L && k <= nrow(x)) else quote(k >= 1L && k <= ncol(x))
  called <- as.call(c(list(quote(f), piece), stats::setNames(lapply(names, as.name), labels)))
  variables <- c(list(x = `dim<-`(strip(x), d)), stats::setNames(unname(more), names))
  # The condition is always true. It tells the compiler that the row exists, which saves bounds checks of its elements.
  body <- bquote(if (.(inside)) .(called) else stop("no such part"))
  out <- run_pure(f, list(margin, labels, gpu_dtype(x)), "k", body, variables, list(gpu_seq(1L, d[[margin]],
    device = gpu_device(x))), gpu_device(x), function(k) quietly(f, c(list(host_copy(if (margin == 1L) x[k, ] else
    x[, k], silent = TRUE)), more)), named = !is.null(dimnames(x)[[3L - margin]]))
  # If the elements have names, base R's result may have row names.
  if (!is.null(dim(out)) && !is.null(dimnames(x)[[3L - margin]])) return(NULL)
  if (is.null(dim(out))) return(with_part_names(out, dimnames(x)[[margin]]))
  if (!is.null(out)) dimnames(out) <- dimnames_of_parts(dimnames(x), margin)
  out
}

# The dimnames of what apply() returns if each part gives several numbers without names: an axis for these, and the
# axes `kept` of the array. Base R names the first axis after the axis of the parts if neither has labels.
dimnames_of_parts <- function(names, kept) {
  first <- list(NULL)
  rest <- names[-kept][1L]
  if (length(rest) && isTRUE(nzchar(base::names(rest))) && length(rest[[1L]]) == 0L)
    base::names(first) <- base::names(rest)
  names <- c(first, names[kept] %||% vector("list", length(kept)))
  if (!is.null(base::names(names)) || !all(vapply(names, is.null, NA))) names
}

# sapply(), mapply() and similar functions. `parts` are iterated over together; their lengths are equal.
map_pure <- function(f, parts, more = NULL, each = FALSE) {
  sizes <- lengths(parts)
  usable <- is_written(f) && length(parts) && all(vapply(parts, function(x) is_number(x) && !is.complex(x) &&
    !(is_gpu(x) && is_int64(x)), NA)) && all(sizes == max(sizes[1L], 1L)) && any(vapply(parts, is_gpu, NA))
  if (!usable) return(NULL)
  first <- Find(is_gpu, parts)
  if (!is_worth_compiling(first) || !are_numbers(more)) return(NULL)
  labels <- names(parts) %||% character(length(parts))
  parameters <- paste0(".part", seq_along(parts))
  kept <- if (length(more)) paste0(".more", seq_along(more))
  called <- as.call(c(list(quote(f)), stats::setNames(lapply(c(parameters, kept), as.name), c(labels, names(more) %||%
    character(length(more))))))
  run_pure(f, list(labels, names(more), length(more), lapply(parts, of_type)), parameters, called,
    stats::setNames(unname(more), kept), unname(lapply(parts, strip)), gpu_device(first), function(k)
      quietly(f, c(lapply(parts, function(part) host_copy(part[k], silent = TRUE)[[1L]]), more)), each)
}

# f's value, without warnings: base R has already computed what the call warns of.
quietly <- function(f, args) tryCatch(suppressWarnings(do.call(f, args)), error = function(e) NULL)

# On a GPU each group is a thread: at least this many groups, with at most this many elements each.
MANY_GROUPS <- 512
LONG_GROUP <- 4096

# tapply(). All `keys` have the length of x.
tapply_pure <- function(x, keys, f, more) {
  if (!is_written(f) || is_int64(x) || is.complex(x) || !is_worth_compiling(x) || !are_numbers(more)) return(NULL)
  by <- grouping(keys, gpu_device(x))
  groups <- prod(by$extent)
  counts <- if (groups > 0) group_sizes(by)
  few <- gpu_device(x) != "cpu" && !settings$force_device_path && (groups < MANY_GROUPS || max(counts) > LONG_GROUP)
  if (groups == 0 || few) return(NULL)
  labels <- names(more) %||% character(length(more))
  names <- if (length(more)) paste0(".more", seq_along(more))
  called <- as.call(c(list(quote(f), quote(y[from:to])), stats::setNames(lapply(names, as.name), labels)))
  variables <- c(list(y = strip(x)[.Call(C_order, by$codes, FALSE)]), stats::setNames(unname(more), names))
  some <- all(counts > 0)
  last <- cumsum(counts)
  parts <- lapply(list(last - counts + 1, last), as_gpu, device = gpu_device(x))
  out <- run_pure(f, list("groups", some, labels, gpu_dtype(x)), c("from", "to"), if (some) called else
    bquote(if (from <= to) .(called) else NA), variables, parts, gpu_device(x), function(k) if (counts[k] > 0)
      quietly(f, c(list(host_copy(variables$y[(last[k] - counts[k] + 1):last[k]], silent = TRUE)),
      more)) else NA, named = !is.null(names(x)))
  if (is.null(out) || !is.null(dim(out))) return(NULL)
  dim(out) <- by$extent
  dimnames(out) <- by$levels
  out
}

of_type <- function(x) if (is_gpu(x)) gpu_dtype(x) else typeof(x)

# Sets the names that apply(), sapply() and mapply() derive from the names of rows or elements.
with_part_names <- function(out, names) {
  if (is.null(out) || is.null(names)) return(out)
  if (is.null(dim(out))) names(out) <- names else dimnames(out) <- list(NULL, names)
  out
}
