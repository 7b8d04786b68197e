# Errors for base R's functions that have no method for splits, readers and references (class gpu_remote). These are
# environments, so base R's functions would compute with the environment itself; each common function of vectors and
# matrices raises an error that names it instead. Interposed functions refuse by themselves (aaa-interpose.R), generics
# by the methods below.

is_remote <- function(x) is_of(x, REMOTE)

refuse_ref <- function(name, call = parent.frame()) {
  stop_verdigris("argument", sprintf("`%s()` has no method for references.", name), c(
    "`gpu_together(team, f, refs)` runs a function on the members' arrays.",
    "`collect(ref)` copies one to this session, and `as_gpu(ref)` to a device."), call = call)
}

# Raises the error of function `name`, which was called with `values`, of which one or more are splits, readers or
# references.
refuse_remote <- function(name, values, call = parent.frame()) {
  x <- Find(is_remote, values)
  if (is_split(x)) refuse_split(name, call) else if (is_reader(x)) refuse_reader(name, call) else refuse_ref(name, call)
}

# Generics of base R that need elements. Methods of the classes themselves take precedence.
REMOTE_REFUSED <- list(
  base = c("all.equal", "anyDuplicated", "anyNA", "aperm", "as.array", "as.character", "as.complex", "as.data.frame",
    "as.Date", "as.double", "as.integer", "as.list", "as.logical", "as.matrix", "as.POSIXct", "as.POSIXlt", "as.raw",
    "as.single", "as.table", "as.vector", "by", "c", "cbind", "chol", "cut", "determinant", "diff", "dim<-",
    "dimnames<-", "droplevels", "duplicated", "is.finite", "is.infinite", "is.na", "is.na<-", "is.nan", "is.unsorted",
    "isSymmetric", "julian", "kappa", "length<-", "levels", "levels<-", "mean", "merge", "months", "names<-", "plot",
    "pretty", "qr", "quarters", "rbind", "rep", "rep.int", "rep_len", "rev", "round", "row.names",
    "row.names<-", "rowsum", "scale", "seq", "seq.int", "signif", "sequence", "solve", "sort", "sort_by", "split",
    "split<-", "subset", "summary", "t", "transform", "trunc", "unique", "units", "units<-", "unlist", "weekdays",
    "with", "within", "xtfrm", "[", "[<-", "[[", "[[<-", "$", "$<-"),
  stats = c("aggregate", "ansari.test", "as.dist", "as.ts", "bartlett.test", "biplot", "cor.test", "cycle", "density",
    "diffinv", "end", "fligner.test", "friedman.test", "ftable", "kruskal.test", "ks.test", "lag", "mauchly.test",
    "median", "monthplot", "mood.test", "na.contiguous", "na.exclude", "na.fail", "na.omit", "pacf", "ppr", "prcomp",
    "predict", "princomp", "qqnorm", "quade.test", "quantile", "relevel", "reorder", "screeplot", "start", "t.test",
    "time", "var.test", "weighted.mean", "wilcox.test", "window", "window<-"),
  graphics = c("barplot", "boxplot", "hist", "image", "lines", "pairs", "points", "text"),
  utils = c("stack", "unstack", "type.convert")
)

register_remote_methods <- function() {
  for (home in names(REMOTE_REFUSED)) {
    # base R's generics, even if this package exports a function of the same name
    space <- if (home == "base") baseenv() else asNamespace(home)
    for (name in REMOTE_REFUSED[[home]]) if (exists(name, envir = space, inherits = FALSE))
      registerS3method(name, REMOTE, refusing_method(name), envir = space)
  }
  # registered, not defined as `Ops.gpu_split`: R would find that function in the namespace before it looks into base
  # R's table of methods, where ops-dispatch.R has active bindings
  operators <- list(gpu_split = split_operators, gpu_reader = reader_operators, gpu_remote = ref_operators)
  for (class in names(operators)) registerS3method("Ops", class, operators[[class]], baseenv())
  registerS3method("as_gpu", REMOTE, refusing_method("as_gpu"), envir = topenv())
}
refusing_method <- function(name) {
  force(name)
  # any argument of these may be the split, reader or reference
  if (name %in% c("c", "cbind", "rbind")) function(...) refuse_remote(name, list(...), environment()) else
    function(...) refuse_remote(name, list(..1), environment())
}

# A product with a remote operand. Only `x %*% y` of splits and readers has a method.
remote_product <- function(x, y, turn_x, turn_y, call) {
  name <- if (turn_x) "crossprod" else if (turn_y) "tcrossprod" else "%*%"
  if (name == "%*%" && (is_split(x) || is_split(y))) return(split_product(x, y, call))
  if (name == "%*%" && (is_reader(x) || is_reader(y))) return(reader_product(x, y, call))
  refuse_remote(name, list(x, y), call)
}
# R dispatches `%*%` on S3 classes from 4.3 on (group matrixOps); ops-linear.R handles earlier versions.
#' @method %*% gpu_remote
#' @export
`%*%.gpu_remote` <- function(x, y) remote_product(x, y, FALSE, FALSE, environment())

# An operator of a split, reader or reference and an array of 64-bit integers. An ordinary form of that array would have
# class integer64 and its own operators, so the method is called directly.
int64_operator_of_remote <- function(operator, e1, e2) {
  x <- if (is_remote(e1)) e1 else e2
  method <- if (is_split(x)) split_operators else if (is_reader(x)) reader_operators else ref_operators
  environment(method) <- list2env(list(.Generic = operator), parent = environment(method))
  method(e1, e2)
}

ref_operators <- function(e1, e2) refuse_remote(.Generic, c(list(e1), if (!missing(e2)) list(e2)), environment())
#' @export
Math.gpu_remote <- function(x, ...) refuse_remote(.Generic, list(x), environment())
#' @export
Complex.gpu_remote <- function(z) refuse_remote(.Generic, list(z), environment())
#' @export
Summary.gpu_remote <- function(..., na.rm = FALSE) refuse_remote(.Generic, list(...), environment())

# For references only: head() and tail() of splits and readers have methods.
#' @export
head.gpu_ref <- function(x, ...) refuse_ref("head", environment())
#' @export
tail.gpu_ref <- function(x, ...) refuse_ref("tail", environment())

# S4 generics: classes without a method of their own are refused, at either argument if the generic dispatches on two.
for (name in c("atan2", "beta", "choose", "colMeans", "colSums", "dnorm", "ifelse", "lbeta", "lchoose", "pnorm",
  "qnorm", "rank", "rle", "rowMeans", "rowSums", "sd", "var", "which", "which.max", "which.min")) {
  generic <- get(name)
  looks_at <- generic@signature[seq_len(environment(generic)$.SigLength)]
  method <- as.function(c(formals(generic), bquote(refuse_remote(.(name), .(given_of(looks_at)), environment()))),
    envir = topenv())
  kinds <- if (length(looks_at) == 1L) list(REMOTE) else list(c(REMOTE, "ANY"), c("ANY", REMOTE), c(REMOTE, REMOTE),
    c(REMOTE, "gpu_array"), c("gpu_array", REMOTE))
  for (kind in kinds) setMethod(name, kind, method)
}
rm(name, generic, looks_at, method, kinds, kind)

# Roxygen tags for the help topics of all S4 methods of these classes, which R CMD check requires. Called by @eval.
remote_topics <- function() {
  space <- topenv()
  topics <- lapply(ls(space, all.names = TRUE, pattern = "^[.]__T__"), function(table) {
    of <- grep("gpu_(split|reader|remote)", ls(space[[table]]), value = TRUE)
    sprintf("@aliases %s,%s-method", sub("^[.]__T__(.*):[^:]*$", "\\1", table), gsub("#", ",", of))
  })
  unlist(topics)
}
