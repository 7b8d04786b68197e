# Called by configure: finds cargo and rustc, checks rustc's version, and writes src/Makevars
# (src/Makevars.win) from its template. With src/rust/vendor.tar.xz, which only the release tarball
# has, the crates come from there, cargo keeps its files in src/, runs two jobs and leaves nothing
# behind, as CRAN asks. In a checkout the crates come from crates.io and the target folder is kept.

windows <- .Platform$OS.type == "windows"
macos <- Sys.info()[["sysname"]] == "Darwin"
vendored <- file.exists("src/rust/vendor.tar.xz")

requirements <- read.dcf("DESCRIPTION", "SystemRequirements")[[1]]
minimum <- numeric_version(sub(".*rustc >= ([0-9.]*[0-9]).*", "\\1", gsub("\\s+", " ", requirements)))

fail <- function(...) {
  message("\nverdigris cannot be installed: ", ...)
  quit(save = "no", status = 1)
}

# ---- cargo and rustc ------------------------------------------------------------------------------

# The folders where cargo may be; the first on PATH may be a distribution's that is too old.
folders <- function() {
  home <- Sys.getenv("CARGO_HOME", file.path(Sys.getenv(if (windows) "USERPROFILE" else "HOME"), ".cargo"))
  path <- strsplit(Sys.getenv("PATH"), .Platform$path.sep, fixed = TRUE)[[1]]
  unique(c(path[nzchar(path)], file.path(home, "bin")))
}

tool <- function(folder, name) file.path(folder, if (windows) paste0(name, ".exe") else name)

# The version that `folder/name --version` prints, or NULL when it does not run.
version_of <- function(folder, name) {
  said <- tryCatch(
    suppressWarnings(system2(tool(folder, name), "--version", stdout = TRUE, stderr = FALSE)),
    error = function(e) character()
  )
  found <- regmatches(said, regexpr("[0-9]+\\.[0-9]+\\.[0-9]+", said))
  if (length(found)) numeric_version(found[[1]])
}

find_rust <- function() {
  old <- NULL
  for (folder in folders()) {
    if (!file.exists(tool(folder, "cargo")) || !file.exists(tool(folder, "rustc"))) next
    rustc <- version_of(folder, "rustc")
    cargo <- version_of(folder, "cargo")
    if (is.null(rustc) || is.null(cargo)) next
    found <- list(folder = normalizePath(folder, "/"), rustc = rustc, cargo = cargo)
    if (rustc >= minimum && cargo >= minimum) return(found)
    if (is.null(old)) old <- found
  }
  if (is.null(old)) {
    fail(
      "it needs cargo and rustc ", minimum, " or newer, and neither the PATH nor ~/.cargo/bin has them; ",
      "install Rust from https://rustup.rs (on Debian 12: apt-get install cargo-web rustc-web) and try again."
    )
  }
  fail(
    "it needs rustc ", minimum, " or newer, and ", old$folder, " has rustc ", old$rustc, " with cargo ", old$cargo,
    "; run `rustup update stable`, or install Rust from https://rustup.rs ",
    "(on Debian 12: apt-get install cargo-web rustc-web), and try again."
  )
}

rust <- find_rust()
message("using rustc ", rust$rustc, " and cargo ", rust$cargo, " from ", rust$folder)
message("using crates from ", if (vendored) "src/rust/vendor.tar.xz" else "crates.io")

# ---- vendored crates ------------------------------------------------------------------------------

if (vendored) {
  unlink(c("src/rust/vendor", "src/.cargo"), recursive = TRUE)
  if (utils::untar("src/rust/vendor.tar.xz", exdir = "src/rust") != 0)
    fail("src/rust/vendor.tar.xz cannot be unpacked.")
  dir.create("src/.cargo")
  # paths in a config file are relative to the folder above its own
  writeLines(c(
    "[source.crates-io]", "replace-with = \"vendored-sources\"", "",
    "[source.vendored-sources]", "directory = \"rust/vendor\""
  ), "src/.cargo/config.toml")
}

# ---- prebuilt kernels -----------------------------------------------------------------------------

# The release tarball has the packs in two archives, in which what they share is there once. The engine reads zstd: so
# each becomes a frame of that format (RFC 8878) whose blocks are stored, not compressed.
store_as_zstd <- function(from, to) {
  bytes <- readBin(from, "raw", file.size(from))
  little_endian <- function(x, n) as.raw(x %/% 256^(seq_len(n) - 1) %% 256)
  most <- 2^17 # of a block
  out <- file(to, "wb")
  on.exit(close(out))
  # the magic number; a frame of one segment, whose length takes four bytes
  writeBin(c(as.raw(c(0x28, 0xb5, 0x2f, 0xfd, 0xa0)), little_endian(length(bytes), 4)), out)
  for (begin in seq(0, length(bytes) - 1, by = most)) {
    size <- min(most, length(bytes) - begin)
    writeBin(c(little_endian(8 * size + (begin + size == length(bytes)), 3), bytes[begin + seq_len(size)]), out)
  }
}

packs <- "src/rust/crates/engine/ptx"
for (archive in list.files(packs, "[.]tar[.]xz$", full.names = TRUE)) {
  unpacked <- tempfile("packs")
  if (utils::untar(archive, exdir = unpacked) != 0) fail(archive, " cannot be unpacked.")
  for (name in list.files(unpacked)) store_as_zstd(file.path(unpacked, name), file.path(packs, paste0(name, ".zst")))
  unlink(unpacked, recursive = TRUE)
}

# ---- the compiler of the engine's C++ loops -------------------------------------------------------

# The cc crate takes a command with flags, so R's own words do. On Linux and macOS they are passed only
# when R's compiler is not the platform's: a variable that differs between `cargo test` and
# R CMD INSTALL would compile the loops anew each time.
cargo_env <- character()
compiler <- function(variable) {
  r <- file.path(R.home("bin"), if (windows) "R.exe" else "R")
  paste(suppressWarnings(system2(r, c("CMD", "config", variable), stdout = TRUE, stderr = FALSE)), collapse = " ")
}
cxx <- compiler("CXX")
usual <- if (macos) "^clang[+][+]( -std=[^ ]+)?$" else "^([a-z0-9_]+-linux-gnu-)?g[+][+]( -std=[^ ]+)?$"
if (nzchar(cxx) && (windows || !grepl(usual, cxx))) {
  cargo_env <- paste0("CXX='", cxx, "'")
  message("using C++ compiler '", cxx, "' for the engine")
}
# the cc crate would look for one with the target's name before it
if (windows && nzchar(compiler("AR"))) cargo_env <- c(cargo_env, paste0("AR='", compiler("AR"), "'"))
if (vendored) cargo_env <- c("CARGO_HOME=\"$$PWD/.cargo\"", cargo_env)

# ---- Makevars -------------------------------------------------------------------------------------

fill <- function(template, target, values) {
  text <- readLines(template)
  for (name in names(values)) text <- gsub(paste0("@", name, "@"), values[[name]], text, fixed = TRUE)
  writeLines(text, target)
}

# Linux: the symbols of the Rust library stay out of the table of exported ones, and its debug
# information out of the file, which is a quarter of the size then.
link_flags <- if (windows || macos) "" else "-Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,-S -lpthread -ldl -lm"

folder <- rust$folder
if (windows) folder <- sub("^([A-Za-z]):", "/\\L\\1", folder, perl = TRUE) # make's shell there is a POSIX one

# Windows: R's compiler is GNU's (LLVM's on aarch64) and rustc's is often Microsoft's, so the target is named.
triple <- linker <- ""
if (windows) {
  arm <- grepl("aarch64", R.version$arch)
  triple <- if (arm) "aarch64-pc-windows-gnullvm" else "x86_64-pc-windows-gnu"
  library <- system2(tool(rust$folder, "rustc"), c("--print", "target-libdir", "--target", triple), stdout = TRUE)
  if (!any(dir.exists(library))) fail("rustc has no standard library for ", triple, "; run `rustup target add ", triple,
    "` and try again.")
  linker <- paste0(
    "CARGO_TARGET_", toupper(gsub("-", "_", triple)), "_LINKER=",
    if (arm) sub(" .*", "", compiler("CC")) else "x86_64-w64-mingw32.static.posix-gcc.exe"
  )
}

fill(
  if (windows) "src/Makevars.win.in" else "src/Makevars.in",
  if (windows) "src/Makevars.win" else "src/Makevars",
  list(
    CARGO_FOLDER = folder,
    CARGO_ENV = paste(cargo_env, collapse = " "),
    CARGO_FLAGS = if (vendored) "-j 2 --locked --offline" else "",
    LINK_FLAGS = link_flags,
    TRIPLE = triple,
    LINKER = linker,
    LAST = if (vendored) "tidy" else "$(SHLIB)"
  )
)
