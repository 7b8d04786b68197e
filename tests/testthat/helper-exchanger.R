# The package in `exchanger/`, which exchanges arrays with this one by its C callables. It is installed once into a
# folder of its own.
exchanger <- local({
  found <- NULL
  function() {
    skip_if(test_device != "cpu", "what it does is host memory's, whatever device there is")
    if (is.null(found)) {
      skip_if(Sys.which("make") == "", "make is not there")
      library <- tempfile("exchanger")
      dir.create(library)
      here <- dirname(system.file(package = "verdigris"))
      source <- file.path(library, "source")
      dir.create(source)
      file.copy(test_path("exchanger"), source, recursive = TRUE)
      command <- c(
        "CMD", "INSTALL", "--no-docs", "--no-test-load", "--no-byte-compile", paste0("--library=", library),
          file.path(source, "exchanger")
      )
      paths <- paste0("R_LIBS=", paste(c(here, .libPaths()), collapse = .Platform$path.sep))
      out <- suppressWarnings(system2(file.path(R.home("bin"), "R"), command, stdout = TRUE, stderr = TRUE,
        env = paths))
      if (!dir.exists(file.path(library, "exchanger", "libs"))) stop(paste(out, collapse = "\n"))
      name <- "exchanger" # by a literal name R CMD check takes it for one of the package's dependencies
      found <<- loadNamespace(name, lib.loc = library)
    }
    found
  }
})
