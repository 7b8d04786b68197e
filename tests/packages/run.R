# Calls of other packages' functions, made on ordinary vectors and on arrays, and compared: value, type, attributes,
# warnings, messages, errors. calls/PACKAGE.R has a call a line; differences.dcf the calls that are known to differ,
# why, and what to do instead. Fails for a difference that is not there, and for an entry that no longer differs.
#
# usage: Rscript tests/packages/run.R [--page | PACKAGE ...]       verdigris must be in R_LIBS
#   --page     writes docs/packages.md from differences.dcf, and makes no call
#   VERDIGRIS_PART=2/4     the second quarter of the packages

folder <- "tests/packages"
LEAST <- 0.97 # of the calls have to be equal
TIME <- 300 # seconds for a package

read_calls <- function(package) readLines(file.path(folder, "calls", paste0(package, ".R")))

# ---- what is known to differ -----------------------------------------------------------------------

# The entries of the file: a title, the reason, what to do instead, the versions of R if not all, and the calls.
read_differences <- function() {
  entries <- read.dcf(file.path(folder, "differences.dcf"), fields = c("Title", "Reason", "Instead", "R", "Calls"),
    keep.white = "Calls")
  entries <- as.data.frame(entries)
  for (field in c("Title", "Reason", "Instead")) entries[[field]] <- gsub("\\s+", " ", entries[[field]])
  entries
}

# Whether an entry is about the running R: "< 4.3", ">= 4.6", or all.
applies <- function(versions) vapply(versions, function(text) {
  if (is.na(text)) return(TRUE)
  parts <- strsplit(text, " ")[[1L]]
  do.call(parts[[1L]], list(getRversion(), numeric_version(parts[[2L]])))
}, NA, USE.NAMES = FALSE)

listed_calls <- function(entries) {
  calls <- lapply(strsplit(entries$Calls, "\n"), function(lines) trimws(lines[nzchar(trimws(lines))]))
  data.frame(entry = rep(seq_along(calls), lengths(calls)), package = sub(": .*", "", unlist(calls)),
    call = sub("^[^:]*: ", "", unlist(calls)))
}

PAGE <- "docs/packages.md"

# The page that users read.
page <- function(entries) {
  listed <- listed_calls(entries)
  wrapped <- function(text) c(strwrap(text, 118L), "")
  sections <- lapply(seq_len(nrow(entries)), function(k) {
    calls <- listed[listed$entry == k, ]
    c(sprintf("## %s", entries$Title[[k]]), "", wrapped(entries$Reason[[k]]),
      if (!is.na(entries$R[[k]])) wrapped(sprintf("Only with R %s.", entries$R[[k]])),
      wrapped(paste("**Instead:**", entries$Instead[[k]])),
      sprintf("- %s: `%s`", calls$package, calls$call), "")
  })
  packages <- sub("[.]R$", "", list.files(file.path(folder, "calls")))
  last <- function(lines) lines[seq_len(length(lines) - 1L)] # the page ends without an empty line
  last(c("# Arrays in other packages", "",
    wrapped(paste("`make packages` makes calls of other packages' functions on ordinary vectors and on arrays, and",
      "compares them. This page lists the calls whose results differ, with reasons and alternatives; in a call,",
      "`U(x)` is the array. `tests/packages/run.R --page` writes it from `tests/packages/differences.dcf`.")),
    wrapped(sprintf("%d calls of %d packages are made: %s.", sum(lengths(lapply(packages, read_calls))),
      length(packages), paste(packages, collapse = ", "))),
    unlist(sections)))
}

# ---- comparing -------------------------------------------------------------------------------------

# Where two outcomes differ, in words, or NULL.
difference <- function(got, want, path = "value") {
  say <- function(...) paste0(path, ": ", ...)
  short <- function(v) substr(paste(deparse(v, nlines = 1L), collapse = ""), 1L, 60L)
  if (typeof(got) != typeof(want)) return(say(short(got), " is not ", short(want)))
  if (length(got) != length(want)) return(say("length ", length(got), " is not ", length(want), ", ", short(got)))
  if (is.list(want)) {
    if (!identical(names(got), names(want)))
      return(say("has ", paste(names(got), collapse = " "), ", not ", paste(names(want), collapse = " ")))
    for (k in seq_along(want)) {
      part <- if (is.null(names(want))) k else names(want)[[k]]
      said <- difference(got[[k]], want[[k]], paste0(path, "$", part))
      if (!is.null(said)) return(said)
    }
    return(NULL)
  }
  same <- identical(got, want)
  # sums in another order differ in the last digits, and what iterates with them in some more
  if (!same && (is.double(want) || is.complex(want))) {
    finite <- is.finite(want)
    same <- identical(is.finite(got), finite) && identical(got[!finite], want[!finite]) &&
      all(Mod(got[finite] - want[finite]) <= 1e-6 * max(1e-300, Mod(want[finite])))
  }
  if (!same) say(short(got), " is not ", short(want))
}

# ---- running ---------------------------------------------------------------------------------------

# The outcomes of a package's calls; a call that ended R is "R ended".
outcomes <- function(mode, package) {
  total <- length(read_calls(package))
  found <- list()
  while (length(found) < total) {
    file <- tempfile()
    log <- tempfile()
    arguments <- c("--kill-after=5", TIME, shQuote(file.path(R.home("bin"), "Rscript")), "--vanilla",
      file.path(folder, "child.R"), mode, package, length(found) + 1L, file)
    status <- suppressWarnings(system2("timeout", arguments, stdout = log, stderr = log))
    new <- read_all(file)
    found <- c(found, new)
    if (status != 0L && length(found) < total) {
      if (!length(new) && !length(found)) return(list(NULL, utils::tail(readLines(log), 5L)))
      found <- c(found, list(list(value = list(error = sprintf("R ended with status %d", status)))))
    }
  }
  found
}

read_all <- function(file) {
  if (!file.exists(file)) return(list())
  connection <- file(file, "rb")
  on.exit(close(connection))
  found <- list()
  repeat {
    one <- tryCatch(unserialize(connection), error = function(e) NULL)
    if (is.null(one)) return(found)
    found <- c(found, list(one))
  }
}

# A row for each call of a package: what differs, "" if nothing does.
compare_package <- function(package) {
  if (!requireNamespace(package, quietly = TRUE)) return(NULL)
  calls <- read_calls(package)
  want <- outcomes("host", package)
  got <- outcomes("arrays", package)
  if (is.null(want[[1L]]) || is.null(got[[1L]])) stop(package, " was not loaded: ", c(want, got)[2L])
  said <- mapply(function(got, want) {
    said <- difference(got$value, want$value)
    for (kind in c("warnings", "messages")) if (is.null(said) && !setequal(got[[kind]], want[[kind]]))
      said <- sprintf("%s: {%s} are not {%s}", kind, paste(got[[kind]], collapse = "; "),
        paste(want[[kind]], collapse = "; "))
    if (is.null(said)) "" else said
  }, got, want)
  failed <- vapply(want, function(o) is.list(o$value) && !is.null(o$value$error), NA)
  data.frame(package = package, call = calls, said = unname(said), failed = failed,
    ended = grepl("R ended", said, fixed = TRUE))
}

arguments <- commandArgs(TRUE)
entries <- read_differences()
if ("--page" %in% arguments) {
  writeLines(page(entries), PAGE)
  quit(save = "no")
}
packages <- sub("[.]R$", "", list.files(file.path(folder, "calls")))
if (length(arguments)) packages <- arguments
part <- as.integer(strsplit(Sys.getenv("VERDIGRIS_PART", "1/1"), "/")[[1L]])
packages <- packages[seq_along(packages) %% part[2L] == part[1L] %% part[2L]]
started <- proc.time()[["elapsed"]]
tables <- parallel::mclapply(packages, function(package) tryCatch(compare_package(package), error = conditionMessage),
  mc.cores = 2L, mc.preschedule = FALSE)
broken <- packages[vapply(tables, is.character, NA)]
for (k in which(vapply(tables, is.character, NA))) cat(packages[[k]], ": ", tables[[k]], "\n", sep = "")
missing <- packages[vapply(tables, is.null, NA)]
all <- do.call(rbind, tables[vapply(tables, is.data.frame, NA)])

listed <- listed_calls(entries)
listed$applies <- applies(entries$R)[listed$entry]
now <- listed[listed$applies & listed$package %in% all$package, ]
all$known <- paste(all$package, all$call) %in% paste(now$package, now$call)
differs <- nzchar(all$said)
all$status <- ifelse(differs, ifelse(all$known, "known", "NEW"), ifelse(all$known, "no longer", "equal"))

cat(sprintf("%-22s %6s %6s %6s %6s\n", "package", "calls", "equal", "known", "new"))
for (package in unique(all$package)) {
  here <- all[all$package == package, ]
  cat(sprintf("%-22s %6d %6d %6d %6d\n", package, nrow(here), sum(!nzchar(here$said)), sum(here$status == "known"),
    sum(here$status == "NEW")))
}
show <- function(rows, title) if (nrow(rows)) cat("\n", title, "\n", sprintf("  %s: %s\n    %s\n", rows$package,
  rows$call, gsub("\n", " ", rows$said)), sep = "")
show(all[all$status == "known", ], "Known to differ:")
show(all[all$status == "NEW", ], "Differ, and are not in differences.dcf:")
show(all[all$status == "no longer", ], "Are in differences.dcf, and are equal:")
gone <- listed[listed$package %in% all$package & !paste(listed$package, listed$call) %in%
  paste(all$package, all$call), ]
if (nrow(gone)) cat("\nAre in differences.dcf, and are no calls:\n", sprintf("  %s: %s\n", gone$package, gone$call),
  sep = "")
stale <- !file.exists(PAGE) || !identical(readLines(PAGE), page(entries))
if (stale) cat("\n", PAGE, " is not what differences.dcf says: Rscript tests/packages/run.R --page\n", sep = "")
if (length(missing)) cat("\nNot installed:", missing, "\n")
errors <- sum(all$failed)
cat(sprintf(paste0("\nR %s: %d of %d calls equal (%.1f%%), %d known, %d new, %d no longer; %d packages; ",
  "%d ended R; %d are errors on the host; %.0f s\n"), getRversion(), sum(!differs), nrow(all), 100 * mean(!differs),
  sum(all$status == "known"), sum(all$status == "NEW"), sum(all$status == "no longer"),
  length(unique(all$package)), sum(all$ended), errors, proc.time()[["elapsed"]] - started))
good <- !any(all$status %in% c("NEW", "no longer")) && !nrow(gone) && !stale && !length(broken) &&
  mean(!differs) >= LEAST
quit(save = "no", status = if (good) 0L else 1L)
