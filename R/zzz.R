.onLoad <- function(libname, pkgname) {
  # from 64 elements on base R wraps a shared object whose attributes change instead of copying it: the library must
  # recognise such a wrapper
  classed <- lapply(list(logical(64), integer(64), double(64), complex(64)), function(x) {
    class(x) <- "shared"
    x
  })
  .Call(C_attach, topenv(), lapply(classed, unclass))
  # what of R calls them calls other packages' C too, which may keep addresses (src/holders.c)
  .Call(C_learn_call)
  .External2(C_learn_external)
  register_remote_methods()
  register_methods()
  when_loaded("parallel", function() registerS3method("sendData", "verdigris_node", send_at_once,
    envir = asNamespace("parallel")))
  register_reader_methods()
  .Call(C_search_paths, cuda_packages(), torch_folders())
  .Call(C_cache_default, path.expand(tools::R_user_dir("verdigris", "cache")))
  start_problem() # .onAttach and the first use of a GPU say it
  register_package_methods()
  # after S4 has heard of our classes: at the end of loading, not here
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
  # before the process ends, its compiler must
  reg.finalizer(topenv(), function(namespace) .Call(C_end), onexit = TRUE)
}

.onAttach <- function(libname, pkgname) {
  package <- as.environment(paste0("package:", pkgname))
  bind_masks(package)
  # these pass on calls without arrays, so library() need not report them; it does report others
  others <- setdiff(ls(package), names(MASKED))
  behind <- parent.env(package)
  # of Matrix these are, for which ours call it
  of_matrix <- function(name) name %in% c("Diagonal", "drop0", "dimScale", "rowScale", "colScale", "condest") &&
    identical(topenv(environment(get(name, behind, mode = "function"))), asNamespace("Matrix"))
  known <- function(name) !exists(name, envir = behind, mode = "function") || isNamespaceLoaded("Matrix") &&
    of_matrix(name)
  if (all(vapply(others, known, NA)))
    assign(".conflicts.OK", TRUE, envir = package)
  packageStartupMessage(attach_message())
  for (problem in c(start_problem(), cache_message())) packageStartupMessage(problem)
}

# Registers a method for a generic of a package that may be loaded later, or never.
register_late <- function(generic, package, method, class = "gpu_array") {
  force(method)
  force(class)
  when_loaded(package, function() registerS3method(generic, class, method, envir = asNamespace(package)))
}

# Runs `action` now where the package is loaded, and each time that it is.
when_loaded <- function(package, action) {
  if (isNamespaceLoaded(package)) action()
  setHook(packageEvent(package, "onLoad"), function(...) action())
}

# The enclosure of base R's methods for models.
list2env(model_masks(), MODEL_MASKS)

# The names that stand before others on the search path, and the package of base R whose function this package's
# stands for (base-masks.R).
PLAIN <- c("Vectorize", "storage.mode<-", "%*%") # ordinary functions of ours
MASKED <- local({
  here <- topenv()
  home <- function(name) {
    f <- get(name, envir = here)
    if (name %in% PLAIN) return("base")
    if (is_interposed(f)) return(environmentName(parent.env(environment(f))))
    # of these base R's function has a mask too: an S4 generic would say other words of an argument that fails
    if (name == "collect" || methods::is(f, "standardGeneric")) "" else NA_character_
  }
  names <- Filter(function(name) is.function(get(name, envir = here)), ls(here))
  homes <- vapply(names, home, "")
  homes[!is.na(homes)]
})
