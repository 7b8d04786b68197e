# Odd calls and random programs in many child processes, each with seeds of its own: none may end R, hang, panic, or
# give another value than base R. It runs where the installed package is: here, on the emulated GPU, or on a GPU machine
# that has what tools/gpu/gpu-pack.sh packs.
#
# usage: R_LIBS=build/library Rscript tools/test/odd-calls.R [CALLS [PROGRAMS [PROCESSES [DEVICE ...]]]]
#   CALLS, PROGRAMS   how many on each device; default 50000 and 10000
#   PROCESSES         how many at a time; default one a core
#   DEVICE            cpu or cuda; default cpu, and cuda where there is one
#   VERDIGRIS_SEED    the first seed; default 1
#   ODD_SECONDS       when it stops, done or not; default 540
#   ODD_HANG          after so many seconds at one seed a process hangs; default 60
# Half of the calls on the cpu device are computed as a GPU does. On a GPU every second process has expressions
# interpreted; the others have kernels compiled in the background, as R does. Files are in build/odd-calls, the seeds
# that fail in the last lines; the status is 0 where there are none. One seed again:
#   VERDIGRIS_TEST_DEVICE=cpu Rscript tools/test/odd-worker.R call SEED SEED /dev/null /dev/stdout

arguments <- commandArgs(TRUE)
number <- function(k, default) if (length(arguments) >= k) as.double(arguments[[k]]) else default
setting <- function(name, default) as.double(Sys.getenv(name, format(default, scientific = FALSE)))
calls <- number(1L, 50000)
programs <- number(2L, 10000)
processes <- number(3L, parallel::detectCores())
devices <- arguments[-(1:3)]
rscript <- file.path(R.home("bin"), "Rscript")
if (!length(devices)) {
  there <- system2(rscript, c("--vanilla", "-e", shQuote("cat(verdigris::gpu_devices()$device)")), stdout = TRUE)
  devices <- c("cpu", if (any(grepl("cuda", there))) "cuda")
}
first <- setting("VERDIGRIS_SEED", 1)
began <- as.double(Sys.time())
ends <- began + setting("ODD_SECONDS", 540)
hang <- setting("ODD_HANG", 60)
folder <- "build/odd-calls"
unlink(folder, recursive = TRUE)
dir.create(folder, recursive = TRUE)

# ---- what is to be done: pieces of some seconds, of each kind in turn -----------------------------

pieces <- function(kind, device, from, count, size) {
  if (count <= 0) return(NULL)
  starts <- seq(from, from + count - 1, by = size)
  data.frame(kind, device, from = starts, to = pmin(starts + size, from + count) - 1,
    turn = seq_along(starts) / length(starts))
}
all <- do.call(rbind, lapply(seq_along(devices), function(d) {
  device <- devices[[d]]
  seed <- first + (d - 1) * calls
  half <- if (device == "cpu") calls %/% 2 else 0
  rbind(pieces("call", device, seed, calls - half, 250), pieces("composed", device, seed + calls - half, half, 250),
    pieces("program", device, first + (d - 1) * programs, programs, 100))
}))
all <- all[order(all$turn), ]

# ---- one piece: one process after the other, until its seeds are done -----------------------------

run_piece <- function(k) {
  piece <- all[k, ]
  files <- file.path(folder, paste0(k, c(".at", ".found", ".log")))
  tier <- if (piece$device == "cuda" && k %% 2L == 0L) "VERDIGRIS_TIER=interpreted"
  from <- piece$from
  done <- started <- 0
  ended <- character()
  note <- function(how, at, more = NULL) {
    log <- paste(utils::tail(readLines(files[[3L]], warn = FALSE), 3L), collapse = " | ")
    ended <<- c(ended, paste0(how, ": ", piece$kind, " ", at, " on ", piece$device, more, ": ", log))
  }
  while (from <= piece$to) {
    now <- as.double(Sys.time())
    limit <- round(min(ends - now, 3 * hang))
    if (limit < 5) break
    unlink(files[[1L]])
    command <- paste(c("env", paste0("VERDIGRIS_TEST_DEVICE=", piece$device), tier, "timeout --kill-after=5", limit,
      shQuote(rscript), "--vanilla tools/test/odd-worker.R", piece$kind, format(c(from, piece$to), scientific = FALSE),
      files[1:2], ">", files[[3L]], "2>&1; exit $?"), collapse = " ")
    status <- suppressWarnings(system(command))
    started <- started + 1
    at <- if (file.exists(files[[1L]])) readLines(files[[1L]], warn = FALSE)
    at <- if (length(at)) at[[1L]] else format(from, scientific = FALSE)
    if (at == "end") at <- piece$to + 1
    at <- as.double(at)
    done <- done + at - from
    # the end of a process that is done is one of ours, too
    if (status == 0L) break
    from <- at + 1
    if (as.double(Sys.time()) - now >= limit) {
      idle <- as.double(Sys.time()) - as.double(file.mtime(files[[1L]]))
      if (isTRUE(idle >= hang)) note("hang", at) else from <- at
    } else if (status > 128L) {
      note("crash", at, paste0(", signal ", status - 128L))
    } else {
      note("abort", at, paste0(", status ", status))
    }
  }
  found <- if (file.exists(files[[2L]])) readLines(files[[2L]], warn = FALSE)
  list(done = done, started = started, ended = ended, found = found)
}

results <- parallel::mclapply(seq_len(nrow(all)), run_piece, mc.cores = processes, mc.preschedule = FALSE)

# ---- the summary ----------------------------------------------------------------------------------

broken <- !vapply(results, is.list, NA)
results[broken] <- lapply(results[broken], function(r)
  list(done = 0, started = 0, ended = paste("abort: odd-calls.R itself:", paste(r, collapse = " ")), found = NULL))
of <- function(rows, what) unlist(lapply(results[rows], `[[`, what))
lines <- c(of(TRUE, "ended"), paste0("unequal: ", of(TRUE, "found"), recycle0 = TRUE))
writeLines(lines)
asked <- 0
done <- 0
for (kind in unique(all$kind)) for (device in unique(all$device[all$kind == kind])) {
  rows <- which(all$kind == kind & all$device == device)
  asked <- asked + sum(all$to[rows] - all$from[rows] + 1)
  done <- done + sum(of(rows, "done"))
  ended <- of(rows, "ended")
  count <- function(word) sum(startsWith(as.character(ended), word))
  line <- paste0("%-8s on %-4s %6.0f of %6.0f (seeds %.0f to %.0f), %d processes: ",
    "%d crashes, %d hangs, %d aborts, %d unequal\n")
  cat(sprintf(line, kind, device, sum(of(rows, "done")), sum(all$to[rows] - all$from[rows] + 1), min(all$from[rows]),
    max(all$to[rows]), sum(of(rows, "started")), count("crash"), count("hang"), count("abort"),
    length(of(rows, "found"))))
}
cat(sprintf("odd-calls.R: %.0f of %.0f, %d processes at a time, %.0f s, %d failures\n", done, asked, processes,
  as.double(Sys.time()) - began, length(lines)))
quit(save = "no", status = length(lines) > 0L)
