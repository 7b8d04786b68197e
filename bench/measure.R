# Parts of bench.R, which sources this file: options, the host's inputs, checking, timing and lines of JSON.

source(file.path(folder, "options.R"))
given <- commandArgs(TRUE)
plain <- given[!startsWith(given, "--")]
out <- plain[1L]
prefixes <- plain[-1L]
device <- option("device", "cuda")
scale <- as.numeric(option("scale", "1"))
seconds <- as.numeric(option("seconds", "0.15"))
inputs <- option("inputs", "")
serving <- "--serve" %in% given
options(warn = 1, verdigris.device = device)

all_cases <- utils::read.csv(file.path(folder, "cases.csv"), stringsAsFactors = FALSE)
wanted_cases <- if (length(prefixes)) all_cases[Reduce(`|`, lapply(prefixes, startsWith, x = all_cases$name)), ] else
  all_cases[all_cases$default == 1L, ]

# Every case of the list that is a function of operands has one, and none is left over.
check_names <- function(own) {
  listed <- all_cases$name[!all_cases$group %in% c("transfer", "dtypes", "small", "compile", "cold", "loop")]
  lacking <- listed[vapply(listed, function(n) is.null(case_of(n)), NA)]
  spare <- own[!vapply(own, function(n) any(startsWith(listed, n)), NA)]
  if (length(lacking) || length(spare))
    stop("bench.R and cases.csv differ: ", paste(c(lacking, spare), collapse = ", "))
}

# ---- inputs: normals that float32 holds exactly (multiples of 2^-20), as bench.py writes them --------------------
even_square <- function(n) (2 * floor(sqrt(n) / 2))^2
host <- list()
read_inputs <- function() {
  n <- even_square(1e8 * scale)
  read <- function(name, seed) {
    path <- file.path(inputs, paste0(name, ".f64"))
    if (nzchar(inputs) && file.exists(path)) return(readBin(path, "double", n))
    set.seed(seed)
    round(stats::rnorm(n) * 2^20) / 2^20
  }
  host <<- list(x = read("x", 1L), y = read("y", 2L))
}

# ---- checking ------------------------------------------------------------------------------------------------------
refused <- character()
near <- function(found, wanted, tolerance) {
  found <- as.vector(found)
  wanted <- as.vector(wanted)
  length(found) == length(wanted) && !anyNA(found) &&
    isTRUE(all(Mod(found - wanted) <= tolerance * (Mod(wanted) + mean(Mod(wanted)))))
}
report_wrong <- function(case, why) {
  refused <<- c(refused, case$name)
  message(sprintf("%-26s WRONG: %s", case$name, why))
  line(list(name = case$name, peer = "verdigris", status = "wrong", why = why))
  FALSE
}
report_absent <- function(case) {
  refused <<- c(refused, case$name)
  line(list(name = case$name, peer = "verdigris", status = "absent"))
  FALSE
}

# On few elements, against base R on the host. What the package does not do on the device gives a host vector: absent.
check_small <- function(case, f, small, reference) {
  found <- tryCatch(f(small), error = function(e) e)
  if (inherits(found, "error")) return(report_wrong(case, conditionMessage(found)))
  if (case$kind == "device" && !is_gpu(found) && !(is.list(found) && is_gpu(found[[1L]]))) return(report_absent(case))
  ok <- switch(case$check,
    normal = , uniform = , none = TRUE,
    order = near(sort(as.vector(found)), seq_along(reference$x), 0) && !is.unsorted(reference$x[as.vector(found)]),
    near(found, f(reference), case$tolerance)
  )
  if (!isTRUE(ok)) return(report_wrong(case, "not what base R gives"))
  TRUE
}

# On all elements, where that is cheap on the host: a sample of an elementwise result, a reduction's value, the moments
# of random numbers.
full_answers <- new.env()
check_full <- function(case, f, o) {
  if (!case$check %in% c("sample", "full", "normal", "uniform")) return(TRUE)
  found <- f(o)
  ok <- switch(case$check,
    sample = {
      n <- length(host$x)
      at <- unique(c(1:1000, floor(seq(1, n, length.out = 1e5)), n - 0:999))
      near(as.vector(found[at]), f(list(x = host$x[at], y = host$y[at])), case$tolerance)
    },
    full = {
      key <- sub("_f(32|64)$", "", case$name)
      if (is.null(full_answers[[key]])) {
        reference <- list(x = host$x, y = host$y)
        if (grepl("sums", key)) reference$m <- shape(host$x, side_of(host$x), side_of(host$x))
        full_answers[[key]] <- f(reference)
      }
      wanted <- full_answers[[key]]
      # sums of numbers of both signs: the error is of the size of what was added, not of what is left
      if (grepl("sum", key)) max(abs(as.vector(found) - wanted)) <= case$tolerance * length(host$x) /
        length(wanted) else near(found, wanted, case$tolerance)
    },
    {
      few <- as.vector(found[seq_len(min(1e6, length(found)))])
      moments <- c(mean(few), stats::var(few))
      right <- if (case$check == "normal") c(0, 1) else c(1 / 2, 1 / 12)
      all(abs(moments - right) < 8 / sqrt(length(few))) && !is_gpu(few)
    }
  )
  if (!isTRUE(ok)) return(report_wrong(case, "not what base R gives on all elements"))
  TRUE
}

# ---- timing --------------------------------------------------------------------------------------------------------
now <- function() as.numeric(Sys.time())
counters <- function()
  stats::setNames(.Call(verdigris:::C_counters), c("launches", "up", "down", "compiled", "cache_hits", "peak",
  "relaunches"))
computed <- function(value) {
  if (is_gpu(value)) gpu_compute(value) else if (is.list(value)) for (v in value) if (is_gpu(v)) gpu_compute(v)
  value
}
# At least `least` repeats, and more while the time lasts.
repeats <- function(once, least = 7L, most = 100L, collect = TRUE) {
  from <- now()
  rows <- list()
  while (length(rows) < least || (now() - from < seconds && length(rows) < most)) {
    rows[[length(rows) + 1L]] <- once()
    # what results hold: a full collection takes longer than most batches, and what it found is freed at the next call
    # of ours
    if (collect) {
      gc(FALSE)
      gpu_sync(device)
    }
  }
  do.call(rbind, rows)
}

# Until the kernels of what was called are compiled: the peers' compilers are waited for, too.
compiled <- function() if (device != "cpu") .Call(verdigris:::C_tier_counts, device, 60)

# Batches of calls that are computed, ending in a synchronisation.
measure_device <- function(case, round, f) {
  call <- function() computed(f())
  r <- call()
  compiled()
  r <- call()
  gpu_sync(device)
  # the least of some calls: in the first ones the memory pool grows
  once <- function() {
    from <- now()
    r <- call()
    gpu_sync(device)
    now() - from
  }
  inner <- max(1L, min(20L, as.integer(8e-3 / min(vapply(1:4, function(k) once(), 0)))))
  for (k in seq_len(inner)) r <- call()
  gpu_sync(device)
  r <- NULL
  gc(FALSE)
  before <- counters()
  times <- repeats(function() {
    # the GPU has slept while R collected
    r <- call()
    gpu_sync(device)
    from <- now()
    for (k in seq_len(inner)) r <- call()
    returned <- now()
    gpu_sync(device)
    c(now() - from, returned - from) / inner
  })
  used <- counters() - before
  emit(case$name, round, times[, 1L] * 1e3, host_us = stats::median(times[, 2L]) * 1e6,
    launches = used[["launches"]] / (inner + 1) / nrow(times), peak = used[["peak"]] + before[["peak"]])
}

# Calls that end with a number in R.
measure_calls <- function(case, round, f) {
  f()
  compiled()
  for (k in 1:3) f()
  before <- counters()
  times <- repeats(function() {
    from <- now()
    # a number may be on its way still: it is looked at
    for (k in 1:5) f()[[1L]] + 0
    (now() - from) / 5
  }, collect = FALSE)
  used <- counters() - before
  emit(case$name, round, times[, 1L] * 1e3, launches = used[["launches"]] / 5 / nrow(times), peak = used[["peak"]] +
    before[["peak"]])
}

# Thousands of small calls.
measure_many <- function(case, round, f, calls = 2000L) {
  f()
  compiled()
  for (k in 1:200) f()
  gpu_sync(device)
  before <- counters()
  times <- repeats(function() {
    from <- now()
    for (k in seq_len(calls)) f()
    returned <- now()
    gpu_sync(device)
    c(now() - from, returned - from) / calls
  }, 5L)
  used <- counters() - before
  emit(case$name, round, times[, 1L] * 1e3, host_us = stats::median(times[, 2L]) * 1e6,
    launches = used[["launches"]] / calls / nrow(times))
}

# Transfers: one call a repeat; what `before` gives is made outside the time, and the results of the repeat before are
# collected.
measure_host <- function(case, round, f, before = NULL, sync = FALSE, once = FALSE) {
  one <- function() {
    given <- if (is.null(before)) list() else list(before())
    gpu_sync(device)
    from <- now()
    r <- do.call(f, given)
    if (sync) gpu_sync(device)
    now() - from
  }
  if (!once) one()
  gc(FALSE)
  counters()
  times <- repeats(one, if (once) 1L else 3L, if (once) 1L else 100L)
  emit(case$name, round, times[, 1L] * 1e3, peak = counters()[["peak"]])
}

# ---- JSON, a flat object a line -------------------------------------------------------------------------------------
json <- function(value) {
  if (is.character(value)) return(encodeString(value, quote = "\""))
  text <- ifelse(is.finite(value), formatC(value, digits = 7, format = "g"), "null")
  if (length(value) == 1L) text else sprintf("[%s]", paste(text, collapse = ", "))
}
line <- function(row) {
  cat(sprintf("{%s}\n", paste(sprintf("\"%s\": %s", names(row), vapply(row, json, "")), collapse = ", ")), file = out,
    append = TRUE)
}
emit <- function(name, round, ms, host_us = NA, launches = NA, peak = NA, extra = list()) {
  # two figures at least, so that the reader finds an array
  line(c(list(name = name, peer = "verdigris", round = round, status = "ok", ms = c(ms, if (length(ms) == 1L) ms),
    host_us = host_us, launches = launches, peak_bytes = peak), extra))
  message(sprintf("%-26s %12.5f ms %10s us %6s launches", name, stats::median(ms), format(host_us, digits = 4),
    format(launches, digits = 3)))
}

main <- function(run_group) {
  if (is.na(out)) stop(
    "usage: Rscript bench/bench.R OUT.jsonl [--device=cuda] [--scale=1] [--inputs=FOLDER] [--seconds=0.15] [--serve] [PREFIX ...]")
  if (!serving) {
    read_inputs()
    for (round in seq_len(as.integer(option("rounds", "1")))) for (group in unique(wanted_cases$group))
      run_group(group, round)
    return(invisible())
  }
  commands <- file("stdin", "r")
  repeat {
    text <- readLines(commands, 1L)
    if (!length(text) || text == "quit") break
    if (text == "inputs") {
      read_inputs()
    } else {
      command <- strsplit(text, " ")[[1L]]
      tryCatch(run_group(command[1L], as.integer(command[2L])), error = function(e) {
        message("group ", command[1L], " stopped: ", conditionMessage(e))
        line(list(name = command[1L], peer = "verdigris", status = "stopped", why = conditionMessage(e)))
      })
    }
    writeLines("done")
    flush(stdout())
  }
}
