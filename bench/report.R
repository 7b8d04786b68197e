# Tables and the plot of a run of bench/run.sh.
#
#   Rscript bench/report.R OUT [PICTURE.svg]
#
# Without PICTURE: merges OUT/verdigris.jsonl and OUT/peers.jsonl into OUT/results.json (an object a case and peer,
# medians over all rounds) and OUT/results.md. With it: draws the ratios of OUT/results.json to the best peer (needs
# cairo).
arguments <- commandArgs(TRUE)
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)[1L]))
out <- arguments[1L]
cases <- utils::read.csv(file.path(folder, "cases.csv"), stringsAsFactors = FALSE)
FIELDS <- c("name", "peer", "status", "ms", "low_ms", "high_ms", "host_us", "launches", "peak_bytes", "gc_share",
  "compiled", "gbs", "why")

# ---- flat JSON: an object a line ---------------------------------------------------------------------------------
field <- function(line, name) {
  at <- regexpr(sprintf("\"%s\": (\"([^\"\\\\]|\\\\.)*\"|\\[[^]]*\\]|[^,}]*)", name), line, perl = TRUE)
  if (at < 0) return(NA)
  text <- sub("^\"[^\"]*\": ", "", regmatches(line, at))
  if (startsWith(text, "\"")) return(gsub("\\\\(.)", "\\1", substr(text, 2L, nchar(text) - 1L)))
  if (startsWith(text, "[")) return(as.numeric(strsplit(gsub("[][ ]", "", text), ",")[[1L]]))
  suppressWarnings(as.numeric(text))
}
# Whole objects: the last line of a run that was cut short may be a part of one.
read_lines <- function(file) if (file.exists(file)) grep("^ *\\{.*\\},?$", readLines(file, warn = FALSE), value = TRUE) else
  character()

merge_rounds <- function(lines) {
  key <- paste(vapply(lines, field, "", "name"), vapply(lines, field, "", "peer"), sep = "\r")
  rows <- lapply(split(lines, factor(key, unique(key))), function(l) {
    status <- vapply(l, function(x) as.character(field(x, "status")), "")
    ok <- l[status == "ok"]
    ms <- unlist(lapply(ok, field, "ms"))
    number <- function(name) {
      v <- unlist(lapply(ok, field, name))
      if (length(v) && any(is.finite(v))) stats::median(v, na.rm = TRUE) else NA
    }
    data.frame(name = field(l[1L], "name"), peer = field(l[1L], "peer"), status = if (all(status == "ok")) "ok" else
      status[status != "ok"][1L],
               ms = if (length(ms)) stats::median(ms) else NA, low_ms = if (length(ms)) min(ms) else NA,
                 high_ms = if (length(ms)) max(ms) else NA,
               host_us = number("host_us"), launches = number("launches"), peak_bytes = number("peak_bytes"),
                 gc_share = number("gc_share"),
               compiled = number("compiled"), gbs = number("gbs"), why = as.character(field(l[1L], "why")))
  })
  do.call(rbind, unname(rows))
}

write_json <- function(rows, file) {
  value <- function(v) if (is.na(v)) "null" else if (is.character(v)) encodeString(v, quote = "\"") else
    formatC(v, digits = 7, format = "g")
  lines <- vapply(seq_len(nrow(rows)), function(k) {
    sprintf("  {%s}", paste(sprintf("\"%s\": %s", FIELDS, vapply(FIELDS, function(f) value(rows[[f]][k]), "")),
      collapse = ", "))
  }, "")
  writeLines(c("[", paste0(lines, c(rep(",", length(lines) - 1L), "")), "]"), file)
}
read_json <- function(file) {
  lines <- read_lines(file)
  as.data.frame(sapply(FIELDS, function(f) {
    v <- lapply(lines, field, f)
    if (f %in% c("name", "peer", "status", "why")) vapply(v, as.character, "") else vapply(v, as.numeric, 0)
  }, simplify = FALSE), stringsAsFactors = FALSE)
}

# ---- one row a case: ours, the best peer, the floor -----------------------------------------------------------------
compare <- function(rows) {
  limit <- function(name) rows$gbs[rows$name == paste0("limit_", name) & rows$peer == "limit"]
  launch <- rows$ms[rows$name == "limit_launch"]
  table <- lapply(seq_len(nrow(cases)), function(k) {
    case <- cases[k, ]
    own <- rows[rows$name == case$name & rows$peer == "verdigris", ]
    peers <- rows[rows$name == case$name & !rows$peer %in% c("verdigris", "cupy pinned") & rows$status == "ok", ]
    if (!nrow(own) && !nrow(peers)) return(NULL)
    rate <- if (case$floor %in% c("copy", "read", "h2d", "d2h")) limit(case$floor)
    # the run's own scale does not show here: floors are for the sizes of cases.csv
    floor <- if (length(rate)) case$n * case$bytes / rate / 1e6 else if (case$floor == "launch" && length(launch))
      launch else NA
    # who is faster than the memory allows has not been waited for (JAX's quantile)
    if (case$floor %in% c("copy", "read") && is.finite(floor)) peers <- peers[peers$ms > 0.8 * floor, ]
    best <- peers[which.min(peers$ms), ]
    one <- function(v) if (length(v)) v[1L] else NA
    data.frame(name = case$name, what = case$what, status = if (nrow(own)) own$status else "not run", ms = one(own$ms),
      low_ms = one(own$low_ms),
               peer = if (nrow(best)) best$peer else NA, peer_ms = one(best$ms), ratio = one(own$ms) / one(best$ms),
                 floor_ms = floor, floor_ratio = one(own$ms) / floor,
               host_us = one(own$host_us), launches = one(own$launches), peak_bytes = one(own$peak_bytes),
                 peer_peak = one(best$peak_bytes), gc_share = one(own$gc_share))
  })
  do.call(rbind, table)
}

write_table <- function(table, rows, file) {
  number <- function(v, digits = 3) ifelse(is.na(v), "", trimws(formatC(v, digits = digits, format = "fg")))
  bytes <- function(v) ifelse(is.na(v), "", ifelse(v < 1e9, sprintf("%.0f MB", v / 1e6), sprintf("%.2f GB", v / 1e9)))
  ours <- ifelse(table$status == "ok", number(table$ms, 4), table$status)
  bold <- function(text, yes) ifelse(!is.na(yes) & yes, paste0("**", text, "**"), text)
  lines <- c(
    paste("Versions:", paste(rows$status[rows$peer == "versions"], collapse = "; ")), "",
    paste("Limits:", paste(sprintf("%s %s", rows$name[rows$peer == "limit"],
      ifelse(is.na(rows$gbs[rows$peer == "limit"]), paste(number(rows$ms[rows$peer == "limit"] * 1e3), "us"),
      paste(number(rows$gbs[rows$peer == "limit"], 4), "GB/s"))), collapse = ", ")), "",
    "Medians over all rounds, milliseconds. Ratios: time over the best peer's (above 1.03 in bold), and over what the GPU's or the bus' limit of the same run allows.", "",
    "| case | what | ms | best peer | its ms | ratio | over the floor | host us | launches | peak | peer's peak |",
      "|---|---|---|---|---|---|---|---|---|---|---|",
    sprintf("| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |", table$name,
      gsub("|", "\\|", table$what, fixed = TRUE), ours, ifelse(is.na(table$peer), "", table$peer),
      number(table$peer_ms, 4),
            bold(number(table$ratio), table$ratio > 1.03), number(table$floor_ratio), number(table$host_us),
              number(table$launches), bytes(table$peak_bytes), bytes(table$peer_peak))
  )
  loops <- !is.na(table$gc_share)
  if (any(loops)) lines <- c(lines, "", sprintf("%s: R's gc takes %.1f%% of the time.", table$name[loops],
    100 * table$gc_share[loops]))
  bad <- rows[rows$status %in% c("wrong", "failed", "stopped"), ]
  if (nrow(bad)) lines <- c(lines, "", "Not timed:", "", sprintf("* %s, %s: %s, %s", bad$name, bad$peer, bad$status,
    bad$why))
  writeLines(lines, file)
}

# ---- whole programs (bench/programs): seconds of the first run and of the later ones ---------------------------------
write_programs <- function(from, file, append = TRUE) {
  lines <- read_lines(from)
  if (!length(lines)) return(invisible())
  get <- function(name) vapply(lines, function(l) as.character(field(l, name)), "", USE.NAMES = FALSE)
  rows <- data.frame(program = get("program"), who = get("who"), status = get("status"),
    first = as.numeric(get("first_s")), later = as.numeric(get("later_s")))
  who <- unique(rows$who)
  seconds <- function(x) if (is.na(x)) "-" else formatC(x, digits = 3, format = "g")
  # of several runs the last one
  cell <- function(program, one) {
    row <- utils::tail(rows[rows$program == program & rows$who == one, ], 1L)
    if (!nrow(row)) "" else if (row$status != "ok") row$status else paste(seconds(row$first), seconds(row$later), sep = " / ")
  }
  text <- c("", "Whole programs (`bench/programs`): seconds of the first run in a fresh process / median of the later runs.", "",
    paste0("| program | ", paste(who, collapse = " | "), " |"), paste0("|", strrep("---|", length(who) + 1L)),
    vapply(unique(rows$program), function(p) sprintf("| %s | %s |", p, paste(vapply(who, cell, "", program = p),
      collapse = " | ")), ""))
  cat(text, sep = "\n", file = file, append = append)
}

# ---- the picture: a bar a case, its ratio to the best peer on a scale of powers of two --------------------------------
draw <- function(table, file) {
  table <- table[is.finite(table$ratio) & table$status == "ok", ]
  table <- table[rev(seq_len(nrow(table))), ]
  grDevices::svg(file, width = 9.75, height = 1 + 0.17 * nrow(table))
  on.exit(grDevices::dev.off())
  graphics::par(mar = c(3, 13, 2, 10.75), mgp = c(1.8, 0.5, 0), las = 1, cex = 0.8)
  reach <- range(log2(table$ratio), -1, 1)
  y <- seq_len(nrow(table))
  graphics::plot.new()
  graphics::plot.window(reach, c(0.5, nrow(table) + 0.5), yaxs = "i")
  ticks <- seq(ceiling(reach[1L]), floor(reach[2L]))
  graphics::abline(v = ticks, col = "grey88")
  ahead <- table$ratio <= 1.03
  graphics::rect(pmin(0, log2(table$ratio)), y - 0.35, pmax(0, log2(table$ratio)), y + 0.35,
    col = ifelse(ahead, "#2a7f62", "#c0603a"), border = NA)
  graphics::abline(v = 0)
  graphics::axis(1, ticks, ifelse(ticks < 0, paste0("1/", 2^-ticks), 2^ticks), lwd = 0)
  graphics::axis(2, y, table$name, lwd = 0, cex.axis = 0.8)
  graphics::axis(4, y, sprintf("%.2f  %s", table$ratio, table$peer), lwd = 0, cex.axis = 0.8)
  graphics::title(xlab = "time over that of the best peer (to the left: ahead)")
}

results <- file.path(out, "results.json")
if (length(arguments) == 1L) {
  lines <- c(read_lines(file.path(out, "verdigris.jsonl")), read_lines(file.path(out, "peers.jsonl")))
  if (!length(lines) && length(read_lines(file.path(out, "programs.jsonl")))) {
    write_programs(file.path(out, "programs.jsonl"), file.path(out, "results.md"), append = FALSE)
    quit("no")
  }
  if (!length(lines)) stop("there is nothing in ", out)
  rows <- merge_rounds(lines)
  write_json(rows, results)
  table <- compare(rows)
  write_table(table, rows, file.path(out, "results.md"))
  write_programs(file.path(out, "programs.jsonl"), file.path(out, "results.md"))
  rated <- table[is.finite(table$ratio), ]
  cat(sprintf("%d cases, %d with a peer, %d of them within 3%% of the best or ahead; %d wrong\n", nrow(table),
    nrow(rated), sum(rated$ratio <= 1.03), sum(table$status == "wrong")))
  print(data.frame(case = rated$name, ms = signif(rated$ms, 4), peer = rated$peer, peer_ms = signif(rated$peer_ms, 4),
    ratio = round(rated$ratio, 2), floor = round(rated$floor_ratio, 2))[order(-rated$ratio), ], row.names = FALSE)
} else {
  draw(compare(read_json(results)), arguments[2L])
}
