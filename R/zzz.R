.onLoad <- function(libname, pkgname) {
  # From 64 elements on base R puts an ALTREP wrapper around a shared object whose attributes change, instead of copying
  # it. The library must recognise such wrappers, and learns their classes from these.
  classed <- lapply(list(logical(64), integer(64), double(64), complex(64)), function(x) {
    class(x) <- "shared"
    x
  })
  .Call(C_attach, topenv(), lapply(classed, unclass))
  # Records the C functions of R that call entries: they also call C code of other packages, which may keep addresses
  # (src/holders.c).
  .Call(C_learn_call)
  .External2(C_learn_external)
  register_remote_methods()
  register_methods()
  when_loaded("parallel", function() registerS3method("sendData", "verdigris_node", send_in_one_write,
    envir = asNamespace("parallel")))
  register_reader_methods()
  .Call(C_search_paths, cuda_packages(), torch_folders())
  .Call(C_cache_default, path.expand(tools::R_user_dir("verdigris", "cache")))
  start_problem() # reported by .onAttach() and at the first use of a GPU
  register_package_methods()
  # At the end of loading, when S4 knows this package's classes.
  at_end <- function(package, register) {
    force(register)
    event <- packageEvent(if (isNamespaceLoaded(package)) pkgname else package, "onLoad")
    setHook(event, function(...) get(register, asNamespace("verdigris"))())
  }
  at_end("Matrix", "register_matrix_methods")
  at_end("DelayedArray", "register_delayed_methods")
  at_end("DelayedArray", "register_sparse_seed")
  at_end("DelayedArray", "register_sparse_delayed")
  at_end("SparseArray", "register_sparse_array")
  at_end("MatrixGenerics", "register_sparse_statistics")
  at_end("raster", "register_raster_methods")
  # The background compiler must stop before the process ends.
  reg.finalizer(topenv(), function(namespace) .Call(C_end), onexit = TRUE)
}

.onAttach <- function(libname, pkgname) {
  package <- as.environment(paste0("package:", pkgname))
  bind_masks(package)
  # Masks pass on calls without arrays, so library() need not report them as conflicts. It does report other conflicts.
  others <- setdiff(ls(package), names(MASKED))
  behind <- parent.env(package)
  of_matrix <- function(name) name %in% OF_MATRIX && identical(topenv(environment(get(name, behind,
    mode = "function"))), asNamespace("Matrix"))
  known <- function(name) !exists(name, envir = behind, mode = "function") || isNamespaceLoaded("Matrix") &&
    of_matrix(name)
  if (all(vapply(others, known, NA)))
    assign(".conflicts.OK", TRUE, envir = package)
  setHook(packageEvent("Matrix", "attach"), matrix_is_in_front)
  packageStartupMessage(attach_message())
  for (problem in c(start_problem(), cache_message())) packageStartupMessage(problem)
}

# Functions of package Matrix that are not generic. This package's functions of these names call them for Matrix's own
# objects.
OF_MATRIX <- c("Diagonal", "drop0", "dimScale", "rowScale", "colScale", "condest")

# A hook: Matrix was attached after this package, and its functions are found first.
matrix_is_in_front <- function(...) {
  attached <- match(c("package:Matrix", "package:verdigris"), search())
  if (anyNA(attached) || attached[1L] > attached[2L]) return(invisible())
  names <- intersect(OF_MATRIX, getNamespaceExports("Matrix"))
  packageStartupMessage(sprintf(
    "%s() of Matrix do not take arrays. Attach verdigris after Matrix, or write `verdigris::%s()`.",
    paste(names, collapse = "(), "), names[1L]))
}

# Registers a method for a generic of a package that may be loaded later or not at all.
register_late <- function(generic, package, method, class = "gpu_array") {
  force(method)
  force(class)
  when_loaded(package, function() registerS3method(generic, class, method, envir = asNamespace(package)))
}

# Runs `action` now if the package is loaded, and whenever it is loaded.
when_loaded <- function(package, action) {
  if (isNamespaceLoaded(package)) action()
  setHook(packageEvent(package, "onLoad"), function(...) action())
}

# Fills the enclosure of stats' methods for models.
list2env(model_masks(), MODEL_MASKS)

# The exported functions that mask others on the search path, with the package whose function each of them replaces (""
# for S4 generics and collect(); base-masks.R).
PLAIN <- c("Vectorize", "storage.mode<-", "%*%") # ordinary functions of this package
MASKED <- local({
  here <- topenv()
  home <- function(name) {
    f <- get(name, envir = here)
    if (name %in% PLAIN) return("base")
    if (is_interposed(f)) return(environmentName(parent.env(environment(f))))
    # S4 generics get a mask of base R's function too: the generic itself would word errors of failing arguments
    # differently.
    if (name == "collect" || methods::is(f, "standardGeneric")) "" else NA_character_
  }
  names <- Filter(function(name) is.function(get(name, envir = here)), ls(here))
  homes <- vapply(names, home, "")
  homes[!is.na(homes)]
})
