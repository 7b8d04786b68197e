# Readers split over the members of a team: each reads its own rows, or columns.

# What reads a member's rows: a function of their numbers, which the member calls, or the reader if only this session
# has the data.
reader_for_split <- function(x, margin, call) {
  if (margin == 2 && gives_rows(x))
    abort_argument("margin", "1: this reader gives rows", margin, call)
  if (!x$portable) return(x)
  f <- function(rows) part_of_reader(reader, rows, margin)
  environment(f) <- list2env(list(reader = described(x), margin = margin), parent = topenv())
  f
}

rows_of_split_reader <- function(x, margin) as.double(x$dim[margin])

# In a member: its rows on its device. Threads read them if the source is a raw file.
part_of_reader <- function(x, rows, margin) {
  from <- if (length(rows)) rows[1L] - 1 else 0
  block_take(x, block_start(x, from, length(rows), margin, NULL, .Call(C_device_name, NULL)))
}
# In this session: the same rows as an ordinary value.
local_rows <- function(x, rows, margin) read_block(x, if (length(rows)) rows[1L] - 1 else 0, length(rows), margin)
