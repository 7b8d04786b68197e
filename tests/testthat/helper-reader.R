# Files for readers, and what is compared of them.

# A file of these bytes or numbers, which goes with the test.
raw_file <- function(x, size = NA_integer_, endian = .Platform$endian, header = raw(), env = parent.frame()) {
  path <- withr::local_tempfile(fileext = ".bin", .local_envir = env)
  con <- file(path, "wb")
  on.exit(close(con))
  if (length(header)) writeBin(header, con)
  if (is.complex(x) || is.raw(x)) writeBin(x, con, endian = endian) else writeBin(as.vector(x), con, size = size,
    endian = endian)
  path
}

# Blocks of so many rows of p doubles at a time.
blocks_of_rows <- function(rows, p) 3 * 8 * rows * p

on_test_device <- function(env = parent.frame()) withr::local_options(verdigris.device = test_device,
  .local_envir = env)
