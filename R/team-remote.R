# What has no method for splits, readers and references: base R's functions would look at an environment, so each that
# people call on vectors and matrices is an error that names it. Interposed functions refuse by themselves
# (aaa-interpose.R), generics by the methods below.

is_remote <- function(x) inherits(x, REMOTE)

refuse_ref <- function(name, call = parent.frame()) {
  stop_verdigris("argument", sprintf("`%s()` has no method for references.", name), c(
    "`gpu_together(team, f, refs)` runs a function on the members' arrays.",
    "`collect(ref)` copies one to this session."), call = call)
}

# The error of a function, of which some `values` are splits, readers or references.
refuse_remote <- function(name, values, call = parent.frame()) {
  x <- Find(is_remote, values)
  if (is_split(x)) refuse_split(name, call) else if (is_reader(x)) refuse_reader(name, call) else refuse_ref(name, call)
}

# Generics of base R that need elements. Classes with a method of their own reach that.
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
    # the generics are base R's, also where this package has a function in front
    space <- if (home == "base") baseenv() else asNamespace(home)
    for (name in REMOTE_REFUSED[[home]]) if (exists(name, envir = space, inherits = FALSE))
      registerS3method(name, REMOTE, refusing_method(name), envir = space)
  }
  # registered, not defined as `Ops.gpu_split`: R would find that in the namespace, before the active bindings of
  # ops-dispatch.R in base R's table of methods
  operators <- list(gpu_split = split_operators, gpu_reader = reader_operators, gpu_remote = ref_operators)
  for (class in names(operators)) registerS3method("Ops", class, operators[[class]], baseenv())
  registerS3method("as_gpu", REMOTE, refusing_method("as_gpu"), envir = topenv())
}
refusing_method <- function(name) {
  force(name)
  # of these any argument may be the one
  if (name %in% c("c", "cbind", "rbind")) function(...) refuse_remote(name, list(...), environment()) else
    function(...) refuse_remote(name, list(..1), environment())
}

# A product of which an operand is one: `x %*% y` of splits and readers; what else comes here has no method.
remote_product <- function(x, y, turn_x, turn_y, call) {
  name <- if (turn_x) "crossprod" else if (turn_y) "tcrossprod" else "%*%"
  if (name == "%*%" && (is_split(x) || is_split(y))) return(split_product(x, y, call))
  if (name == "%*%" && (is_reader(x) || is_reader(y))) return(reader_product(x, y, call))
  refuse_remote(name, list(x, y), call)
}
# From R 4.3 on a method of the group; see ops-linear.R for earlier ones.
#' @method %*% gpu_remote
#' @export
`%*%.gpu_remote` <- function(x, y) remote_product(x, y, FALSE, FALSE, environment())

# An operator of one of these and of an array of 64-bit integers, which has no ordinary form with operators of its own.
beside_remote <- function(operator, e1, e2) {
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

# head() and tail() of readers read rows.
#' @export
head.gpu_ref <- function(x, ...) refuse_ref("head", environment())
#' @export
tail.gpu_ref <- function(x, ...) refuse_ref("tail", environment())

# What S4 dispatches on: refused where a class has no method, in both places where the generic looks at two arguments.
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

# The help topics of all S4 methods of these classes, which R CMD check asks for; called by roxygen2.
remote_topics <- function() {
  space <- topenv()
  topics <- lapply(ls(space, all.names = TRUE, pattern = "^[.]__T__"), function(table) {
    of <- grep("gpu_(split|reader|remote)", ls(space[[table]]), value = TRUE)
    sprintf("@aliases %s,%s-method", sub("^[.]__T__(.*):[^:]*$", "\\1", table), gsub("#", ",", of))
  })
  unlist(topics)
}
