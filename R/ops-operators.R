# Methods of operators and elementwise functions of one argument, which record an operation.

# Calls base R's function with host copies, for operands that are not plain numbers (Date, factor, Matrix, character).
on_host <- function(f, ...) call_base(f, host_copies(list(...)))

# Called from C for the operands of an operator that the device does not take. For two time series base R names columns
# by the expressions.
operands_on_host <- function(f, e1, e2) {
  # Remote objects have methods for ordinary operands.
  if (is_remote(e1) || is_remote(e2)) return(if (is_int64(e1) || is_int64(e2)) int64_operator_of_remote(get("operator",
    envir = parent.frame()), e1, e2) else f(host_copy(e1), host_copy(e2)))
  if (is_sparse(e1) || is_sparse(e2))
    return(sparse_operator(get("operator", envir = parent.frame()), e1, e2, parent.frame()))
  if (is.null(attr(e1, "tsp")) || is.null(attr(e2, "tsp"))) return(on_host(f, e1, e2))
  written <- eval(quote(list(substitute(e1), substitute(e2))), parent.frame())
  names <- vapply(written, function(e) deparse(e)[1L], "")
  eval(as.call(c(f, lapply(names, as.name))), stats::setNames(list(host_copy(e1), host_copy(e2)), names), baseenv())
}

# R's operators: the row of the operation table, and whether the result keeps all attributes or only the shape.
OPERATORS <- list(
  "+" = list("add", TRUE), "-" = list("sub", TRUE), "*" = list("mul", TRUE), "/" = list("div", TRUE),
  "^" = list("pow", TRUE), "%%" = list("mod", TRUE), "%/%" = list("intdiv", TRUE),
  "==" = list("eq", FALSE), "!=" = list("ne", FALSE), "<" = list("lt", FALSE), "<=" = list("le", FALSE),
  ">" = list("gt", FALSE), ">=" = list("ge", FALSE), "&" = list("and", FALSE), "|" = list("or", FALSE)
)

# C takes the operands from the method's frame, records the operation, and queries the call only if the operation may
# warn. Operands that the device does not take go to operands_on_host(f, e1, e2).
binary_operator <- function(operator) {
  force(operator)
  row <- OPERATORS[[operator]][[1L]]
  most <- OPERATORS[[operator]][[2L]]
  f <- get(operator, baseenv())
  switch(operator,
    "+" = function(e1, e2) {
      if (!missing(e2)) .External2(C_binary) else if (isS4(e1)) sparse_sign("+", e1) else
        .External2(C_elementwise, "pos", 2L, e1)
    },
    "-" = function(e1, e2) {
      if (!missing(e2)) .External2(C_binary) else if (isS4(e1)) sparse_sign("-", e1) else
        .External2(C_elementwise, "neg", 2L, e1)
    },
    function(e1, e2) .External2(C_binary)
  )
}

# Registers methods of one argument, created from the operation table when the package is loaded. `is.na` and similar
# functions keep the shape; the others keep all attributes.
register_methods <- function() {
  table <- operation_table()
  one <- table$r != "" & !startsWith(table$rule, "To") & table$arity == 1L & table$group %in% c("Math", "Complex",
    "Generic")
  # `log` and `round` have a second argument and their own methods, which must not be replaced.
  one <- one & !vapply(paste0(table$r, ".gpu_array"), exists, NA, envir = topenv(), inherits = FALSE)
  for (k in which(one)) {
    method <- elementwise_method(table$name[k], if (table$rule[k] == "Test") 1L else 2L)
    registerS3method(table$r[k], "gpu_array", method, baseenv())
  }
  operators <- lapply(stats::setNames(nm = names(OPERATORS)), binary_operator)
  if (getRversion() < "4.3.0") register_operators(operators) else
    for (operator in names(operators)) for (class in ON_DEVICE)
      registerS3method(operator, class, operators[[operator]], baseenv())
  if (exists("mtfrm", baseenv(), inherits = FALSE)) registerS3method("mtfrm", "gpu_array", mtfrm.gpu_array, baseenv())
  if (getRversion() >= "4.3.0") {
    registerS3method("chooseOpsMethod", "gpu_array", chooseOpsMethod.gpu_array, baseenv())
    registerS3method("chooseOpsMethod", REMOTE, chooseOpsMethod.gpu_remote, baseenv())
  }
  register_by_kind()
}

# Registers the methods for R's generics, and this package's, also for the first string of the class. R finds them there
# at once; otherwise it searches the search path first, which takes longer than most methods.
register_by_kind <- function() {
  for (home in list(baseenv(), topenv(), asNamespace("stats"), asNamespace("utils"), asNamespace("graphics"))) {
    table <- get(".__S3MethodsTable__.", envir = home)
    names <- grep("[.]gpu_array$", names(table), value = TRUE)
    # Operators are registered by register_operators().
    if (getRversion() < "4.3.0") names <- setdiff(names, paste0(names(OPERATORS), ".gpu_array"))
    methods <- mget(names, envir = table)
    for (kind in names(KINDS)) list2env(stats::setNames(methods, sub("gpu_array$", kind, names)), table)
  }
}

elementwise_method <- function(row, keep) {
  force(row)
  force(keep)
  function(x, ...) .External2(C_elementwise, row, keep, x)
}

# Method of `!`. As in base R, logicals keep all attributes, numbers only the shape.
#' @export
`!.gpu_array` <- function(x) .External2(C_elementwise, "not", if (is.logical(x)) 2L else 1L, x)

# From R 4.3 on this decides which method is called for operands of two classes: that of arrays, except for a split, a
# reader or a reference.
chooseOpsMethod.gpu_array <- function(x, y, mx, my, cl, reverse) !is_remote(y)
chooseOpsMethod.gpu_remote <- function(x, y, mx, my, cl, reverse) TRUE

#' Table of elementwise operations
#'
#' The table of all elementwise operations, with a row for each. Methods, kernels and tests are generated from this
#' table.
#' @returns A data frame: `name` (of the row), `r` (base R's name, or ""), `group`, `arity`, `rule` (how the type of the
#'   result follows from those of the operands), `ulp` (the largest allowed difference from base R's result, in units in
#'   the last place), `doc`. No device is used.
#' @examples
#' head(gpu_operations())
#' subset(gpu_operations(), group == "Math", c(r, doc))
#' @export
gpu_operations <- function() operation_table()

operation_table <- function() {
  table <- as.data.frame(.Call(C_operation_table), stringsAsFactors = FALSE)
  table$arity <- as.integer(table$arity)
  table$ulp <- as.numeric(table$ulp)
  table
}
