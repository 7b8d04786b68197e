# Finds calls of R in the bridge that could jump over Rust's frames, and locks that are held around calls of R. Prints
# the findings; the exit status is 1 if there are any.
# usage: Rscript tools/test/lint-bridge.R [src/rust/src]
#
# - Only r/mod.rs names R's functions: no other file uses extendr_ffi, or declares functions of C.
# - Functions that r/mod.rs re-exports unchanged (`pub use raw::{...}`) never jump: they are in NEVER_JUMP, or are C
#   functions of this package that catch jumps (CONTAINED). Everything else is `protected!`, `of_vectors!` or called in
#   `protect`.
# - A cell or lock is not filled or held by an expression that calls R.

NEVER_JUMP <- c(
  "ALTREP", "CAR", "CDR", "MARK_NOT_MUTABLE", "PRINTNAME", "R_CHAR", "R_ClearExternalPtr", "R_ExternalPtrAddr",
    "R_ExternalPtrProtected", "R_ExternalPtrTag",
  "R_SetExternalPtrAddr", "R_SetExternalPtrTag", "R_altrep_data1", "R_altrep_data2", "R_set_altrep_data1",
    "R_set_altrep_data2", "Rf_GetOption1", "Rf_getCharCE", "Rf_isObject",
  "Rf_protect", "Rf_unprotect", "Rf_xlength", "SETCAR", "SETCDR", "SET_STRING_ELT", "SET_TAG", "SET_VECTOR_ELT", "TAG",
    "TYPEOF"
)
VALUES <- c(
  "cetype_t", "R_CFinalizer_t", "R_CallMethodDef", "R_ClassSymbol", "R_DimNamesSymbol", "R_DimSymbol", "R_MissingArg", "R_NaReal",
    "R_NaString", "R_NamesSymbol", "R_NilValue",
  "R_TspSymbol", "R_xlen_t", "Rboolean", "Rcomplex", "SEXP", "SEXPREC", "SEXPTYPE"
)
CONTAINED <- c(
  "vg_call_text", "vg_collect_garbage", "vg_data_of", "vg_dead_after", "vg_handle_of", "vg_hold_interrupts",
    "vg_in_finalizer", "vg_interrupted", "vg_is_held",
  "vg_is_jumping", "vg_is_ours", "vg_is_shared", "vg_keep_with", "vg_length_of", "vg_next_dead", "vg_processor_seconds",
    "vg_release_interrupts",
  "vg_saved_dtype", "vg_torch_give", "vg_torch_is_there", "vg_torch_take", "vg_torch_trim", "vg_value_of"
)

lint_bridge <- function(folder) {
  found <- character()
  say <- function(file, line, what) found <<- c(found, sprintf("%s:%d: %s", file, line, what))
  files <- list.files(folder, "[.]rs$", recursive = TRUE)
  stopifnot("r/mod.rs" %in% files)
  for (file in files) {
    lines <- sub("//.*", "", readLines(file.path(folder, file)))
    if (file != "r/mod.rs") {
      for (k in grep("extendr_ffi|\\braw::(R|Rf|vg)_|^ *(unsafe )?extern \"C\"( |-unwind\" )*\\{", lines))
        say(file, k, "R's functions are called through r/mod.rs")
    }
    # a lock or borrow that the same statement holds while it calls R
    text <- paste(lines, collapse = "\n")
    statements <- strsplit(text, "[;{}]")[[1]]
    at <- cumsum(c(1L, lengths(regmatches(statements, gregexpr("\n", statements)))))
    calls_r <- "\\br::(Rf_(?!protect|unprotect|xlength|isObject)|R_(Make|Preserve|Register)|string|symbol|reals|translated|known_symbol|vg_new|protect)|values::string\\(|\\bstrings\\("
    for (k in grep("[.]lock\\(\\)|get_or_init|with_borrow_mut|borrow_mut\\(\\)", statements)) {
      if (grepl(calls_r, statements[[k]], perl = TRUE))
        say(file, at[[k]], "R is called while something is locked or borrowed")
    }
  }
  code <- paste(sub("//.*", "", readLines(file.path(folder, "r/mod.rs"))), collapse = "\n")
  passed <- unlist(regmatches(code, gregexpr("pub use raw::\\{[^}]*\\}", code)))
  passed <- unlist(regmatches(passed, gregexpr("\\b(?!pub\\b|use\\b|raw\\b)\\w+", passed, perl = TRUE)))
  for (name in setdiff(passed, c(NEVER_JUMP, VALUES, CONTAINED)))
    say("r/mod.rs", 1L, sprintf("`%s` is passed on, and may jump", name))
  # outside of `protect`, of the macros and of declarations
  body <- sub(".*\n// ---- calls that may jump", "", code)
  body <- gsub("(?s)macro_rules! (protected|of_vectors) \\{.*?\n\\}\n", "", body, perl = TRUE)
  body <- gsub("(?s)protect\\((move )?\\|\\| unsafe \\{.*?\\}\\)", "", body, perl = TRUE)
  raw <- unlist(regmatches(body, gregexpr("raw::\\w+", body)))
  # a jump from the last one leaves an entry whose frame owns nothing
  allowed <- c("raw::vg_unwind_protect", "raw::Rf_getAttrib", "raw::DL_FUNC", "raw::vg_entry_returned")
  for (name in setdiff(raw, c(allowed, paste0("raw::", NEVER_JUMP))))
    say("r/mod.rs", 1L, sprintf("`%s` is called outside of `protect`", name))
  found
}

if (sys.nframe() == 0L) {
  arguments <- commandArgs(TRUE)
  found <- lint_bridge(if (length(arguments)) arguments[[1L]] else "src/rust/src")
  writeLines(found)
  quit(status = as.integer(length(found) > 0L))
}
