.onLoad <- function(libname, pkgname) {
  # from 64 elements on base wraps a shared object whose attributes change instead of copying it: the library
  # must know such a wrapper when it sees one
  classed <- lapply(list(logical(64), integer(64), double(64), complex(64)), function(x) {
    class(x) <- "shared"
    x
  })
  .Call(C_attach, topenv(), lapply(classed, unclass))
  register_methods()
  .Call(C_search_paths, cuda_packages(), torch_folders())
  .Call(C_cache_dir, cache_folder(), cache_size())
  if (!is.null(tier <- getOption("verdigris.tier"))) .Call(C_tier, tier)
  register_late("as.integer64", "bit64", function(x, ...) as_integer64(x))
}

.onAttach <- function(libname, pkgname) {
  packageStartupMessage(attach_message())
}

# Registers a method for a generic of a package that may be loaded later, or never.
register_late <- function(generic, package, method) {
  force(method)
  register <- function(...) registerS3method(generic, "gpu_array", method, envir = asNamespace(package))
  if (isNamespaceLoaded(package)) register()
  setHook(packageEvent(package, "onLoad"), register)
}
