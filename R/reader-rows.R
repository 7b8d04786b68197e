# Models of readers, block by block: the variables of a formula, the model frame and the design of each block.

# Whether a model's data or variables are readers.
has_readers <- function(formula, data) {
  if (is_reader(data)) return(TRUE)
  if (!inherits(formula, "formula")) return(FALSE)
  any(vapply(setdiff(all.vars(formula), if (is.list(data)) names(data)), function(name) is_reader(get0(name,
    envir = environment(formula))), NA))
}

# What a model reads: `readers`, by name (`data` is ".data"), the number of rows, other variables that are cut into
# blocks, and the call whose arguments model.frame() evaluates in each block.
model_rows <- function(call, formula, data, parts, env, device, frame) {
  names <- all.vars(formula)
  for (part in c("weights", "subset", "offset", "etastart", "mustart"))
    if (part %in% parts) names <- c(names, all.vars(call[[part]]))
  readers <- list()
  own <- character()
  given <- if (is.list(data) && !is_reader(data)) data
  if (is_reader(data)) {
    if (is_vector_reader(data)) abort_argument("data", "a reader of a matrix or of data frames", data, frame)
    readers$.data <- data
    own <- data$dimnames[[2L]] %||% paste0("V", seq_len(data$dim[2L]))
  } else if ("." %in% names && !is.null(given)) {
    formula <- structure(stats::formula(stats::terms(formula, data = given)), .Environment = environment(formula))
    names <- c(all.vars(formula), names)
  }
  names <- unique(names)
  around <- environment(formula)
  value_of <- function(name) if (name %in% names(given)) given[[name]] else get0(name, envir = around)
  others <- lapply(stats::setNames(nm = setdiff(names, c(own, "."))), value_of)
  found <- vapply(others, is_reader, NA)
  readers[names(others)[found]] <- others[found]
  n <- vapply(readers, rows_of_reader, 1)
  if (length(unique(n)) > 1L) stop_verdigris("argument", sprintf("The readers of `formula` have %s rows.",
    paste(format_each(n), collapse = " and ")), "All variables of a model must have a value for each row.",
    call = frame)
  n <- n[[1L]]
  # other variables with a value for each row are cut into blocks, too; constants and functions are used as they are
  others <- Filter(function(value) (is.atomic(value) || is.data.frame(value)) && NROW(value) == n && n > 1,
    others[!found])
  call <- call[c(1L, match(parts, names(call), 0L))]
  if (!is.null(given)) call$data <- NULL
  check_terms(list(readers = readers, n = n, names = own, used = names, others = others, given = given, call = call,
    formula = formula, parts = parts, env = env, device = device, frame = frame))
}

# The blocks of all readers of a model together, in the form that run_chunks() takes.
model_chunks <- function(rows) {
  device <- rows$device
  extents <- vapply(rows$readers, function(x) block_extent(x, NULL, 1, NULL, device, rows$frame), 1)
  chunk <- max(1, floor(min(extents) / length(extents)))
  at <- 0
  start <- function() {
    if (at >= rows$n) return(NULL)
    n <- min(chunk, rows$n - at)
    coming <- lapply(rows$readers, block_start, at, n, 1, NULL, device)
    at <<- at + n
    list(coming = coming, from = at - n, count = n)
  }
  take <- function(coming) {
    blocks <- Map(block_take, rows$readers, coming$coming)
    attr(blocks, "rows") <- coming[c("from", "count")]
    attr(blocks, "own") <- vapply(coming$coming, function(part) is.null(part$given), NA)
    blocks
  }
  width <- sum(vapply(rows$readers, function(x) prod(c(1, as.double(x$dim[-1L]))) * if (x$frame) 8 else
    bytes_in_block(x$type), 1))
  list(start = start, take = take, chunks = ceiling(rows$n / chunk), bytes = min(chunk, rows$n) * width)
}

# Calls f on the model frame of each block, and folds the results.
over_frames <- function(rows, f, fold, levels = NULL) {
  so_far <- NULL
  put <- function(done) {
    so_far <<- if (is.null(so_far)) done$value else fold(so_far, done$value)
    Map(function(block, own) if (own) free_block(block), done$chunk, attr(done$chunk, "own"))
    so_far
  }
  source <- model_chunks(rows)
  run_chunks(list(start = source$start, take = source$take, chunks = source$chunks, bytes = source$bytes),
    function(blocks) f(block_frame(rows, blocks, levels)), put, "The model failed on",
    rows$frame)
  so_far
}

# Base R's model frame of one block. Its attribute `evaluate` evaluates an expression with the block's variables, and
# `shift` is what is added to automatic row names.
block_frame <- function(rows, blocks, levels) {
  place <- attr(blocks, "rows")
  count <- place$count
  i <- place$from + seq_len(count)
  cut <- lapply(rows$others, function(v) if (is_gpu(v) && is.null(dim(v))) vector_rows(v, place$from, count)
    else if (length(dim(v)) == 2L) v[i, , drop = FALSE] else v[i])
  values <- as.list(rows$given)
  values[names(cut)] <- cut
  inner <- list2env(values, parent = environment(rows$formula))
  for (name in setdiff(names(blocks), ".data")) assign(name, blocks[[name]], envir = inner)
  if (identical(get0("relevel", envir = inner, mode = "function"), stats::relevel))
    inner$relevel <- relevel_in_block(rows$frame)
  formula <- rows$formula
  environment(formula) <- inner
  around <- new.env(parent = rows$env)
  call <- rows$call
  if (!is.null(blocks$.data)) {
    around$.block <- variables_of_block(blocks$.data, rows)
    call$data <- quote(.block)
  }
  # weights and the like may be found in the environment of the call: there, too, the variables are those of this block
  for (name in names(rows$others)) assign(name, inner[[name]], envir = around)
  # levels that this block does not use are kept, since other blocks may use them
  frame <- frame_of(call, formula, rows$parts, around, FALSE)
  # automatic row names begin at 1 in each block
  counted <- !is.data.frame(blocks$.data) || identical(as.integer(attr(blocks$.data, "row.names")), seq_len(count))
  frame <- releveled(frame, levels)
  attr(frame, "shift") <- if (counted) place$from else 0
  attr(frame, "evaluate") <- function(e) eval(e, around$.block, inner)
  frame
}

# The columns of a matrix block that the formula uses, as a data frame.
variables_of_block <- function(block, rows) {
  if (is.data.frame(block)) return(block)
  n <- nrow(block)
  used <- if ("." %in% rows$used) seq_along(rows$names) else match(intersect(rows$names, rows$used), rows$names)
  flat <- strip(block)
  columns <- lapply(used, function(j) if (length(flat) == n) flat else strided(flat, length(flat), 1, n,
    start = n * (j - 1)))
  structure(stats::setNames(columns, rows$names[used]), class = "data.frame", row.names = .set_row_names(n))
}

# Gives factors the levels of all blocks.
releveled <- function(frame, levels) {
  for (name in names(levels)) {
    x <- frame[[name]]
    kept <- attr(x, "contrasts")
    frame[[name]] <- factor(as.character(x), levels[[name]], ordered = is.ordered(x))
    if (is.matrix(kept) && nrow(kept) != length(levels[[name]])) kept <- NULL
    if (!is.null(kept)) attr(frame[[name]], "contrasts") <- kept
  }
  frame
}

# What all blocks of a model share: the terms, from the first block; and the levels of factors, for which all blocks are
# read.
model_facts <- function(rows) {
  facts <- new.env(parent = emptyenv())
  blocks <- first_block(rows)
  first <- block_frame(rows, blocks, NULL)
  evaluate <- attr(first, "evaluate")
  facts$terms <- attr(first, "terms")
  if ("subset" %in% names(rows$call)) check_condition(evaluate(rows$call$subset), rows, attr(blocks, "rows")$count)
  variables <- as.list(attr(facts$terms, "variables"))[-1L]
  coded <- base::which(vapply(as.list(first)[seq_along(variables)], function(v) is.factor(v) || is.character(v), NA))
  # a response of strings is no factor, and base R refuses it
  response <- attr(facts$terms, "response")
  if (response > 0L && is.character(first[[response]])) coded <- setdiff(coded, response)
  # columns that are factors, and of which an expression uses the codes
  inside <- Filter(function(name) is.factor(tryCatch(evaluate(as.name(name)), error = function(e) NULL)), rows$by_code)
  if (!length(coded) && !length(inside)) return(facts)
  found <- over_frames(rows, function(frame) {
    evaluate <- attr(frame, "evaluate")
    list(coded = lapply(stats::setNames(coded, names(first)[coded]), function(k) levels_of_block(frame[[k]],
      variables[[k]], evaluate)), inside = lapply(stats::setNames(nm = inside), function(name) list(orders = list(
      levels(evaluate(as.name(name)))))))
  }, function(a, b) list(coded = Map(joined_levels, a$coded, b$coded), inside = Map(joined_levels, a$inside,
    b$inside)))
  for (name in inside) if (length(found$inside[[name]]$orders) > 1L) other_levels(name, found$inside[[name]]$orders,
    rows$frame)
  if (length(coded)) facts$levels <- Map(function(name, v) levels_of_all(name, v, rows$frame), names(found$coded),
    found$coded)
  facts
}

first_block <- function(rows) {
  n <- min(rows$n, max(1, floor(2^20 / max(1, length(rows$names)))))
  blocks <- lapply(rows$readers, function(x) block_take(x, block_start(x, 0, n, 1, NULL, rows$device)))
  attr(blocks, "rows") <- list(from = 0, count = n)
  blocks
}

# A block's design on the device; NULL if it has no rows. The columns of the first block are those that all others must
# have.
block_design <- function(rows, facts, frame) {
  if (NROW(frame[[1L]]) == 0L) return(NULL)
  d <- design_of(facts$terms, frame, facts$contrasts, rows$device)
  if (is.null(facts$names)) {
    facts$names <- d$names
    facts$assign <- d$assign
    facts$used_contrasts <- d$contrasts
  } else if (!identical(facts$names, d$names)) {
    stop_verdigris("argument", sprintf("The model matrix of a block has other columns: %s.", paste(setdiff(d$names,
      facts$names), collapse = ", ")), "All blocks must have the same variables, of the same types.", call = rows$frame)
  }
  d
}

# The omitted rows of a block, and how many rows it had; the same of two blocks; and the form of base R's na.omit().
omitted <- function(frame) {
  out <- attr(frame, "na.action")
  names <- names(out)
  shift <- attr(frame, "shift")
  if (length(out) && shift > 0) names <- format_each(as.numeric(names) + shift)
  list(at = as.numeric(out), names = names, class = class(out), rows = NROW(frame[[1L]]) + length(out))
}
joined_omitted <- function(a, b) list(at = c(a$at, a$rows + b$at), names = c(a$names, b$names),
  class = if (length(a$at)) a$class else b$class, rows = a$rows + b$rows)
action_of_omitted <- function(x) {
  if (!length(x$at)) return(NULL)
  structure(if (max(x$at) <= .Machine$integer.max) as.integer(x$at) else x$at, names = x$names, class = x$class)
}
