# The differential grid: random expressions, computed in one fused pass and by base R.

test_that("random expression trees agree with base R", {
  set.seed(20)
  # values without NaN, so that no operation meets NA and NaN (which of the two it gives is not defined in base R)
  x <- values("double", 80L)
  leaves <- list(a = x[21:65], b = values("double", 65L, 5L)[21:65], i = values("integer", 45L),
    l = values("logical", 45L),
                 r = c(2, -0.5, 3), m = matrix(x[26:70], 9L, dimnames = list(NULL, letters[1:5])),
                   z = matrix(values("double", 80L, 7L)[30:74], 9L))
  on_device <- lapply(leaves, gpu)
  # casts: base R's as.* with the shape kept
  casting <- function(x, type) {
    storage.mode(x) <- type
    x
  }
  host <- list(to_double = function(x) casting(x, "double"), to_integer = function(x) casting(x, "integer"),
               to_logical = function(x) casting(x, "logical"))
  device <- list(to_double = function(x) if (is_gpu(x)) gpu_cast(x, "float64") else host$to_double(x),
                 to_integer = function(x) if (is_gpu(x)) gpu_cast(x, "int32") else host$to_integer(x),
                 to_logical = function(x) if (is_gpu(x)) gpu_cast(x, "bool8") else host$to_logical(x))
  # ifelse() where both branches have one type: the type of the result does not depend on the test then
  host$choose <- function(test, yes, no) {
    force(yes) # base R would not ask for a branch that no element takes, nor hear its warnings
    force(no)
    casting(ifelse(test, host$to_double(yes), host$to_double(no)), "double")
  }
  device$choose <- function(test, yes, no)
    if (is_gpu(test)) ifelse(test, device$to_double(yes), device$to_double(no)) else host$choose(test, yes, no)
  unary <- c("abs", "floor", "-", "sqrt", "is.na", "!", "sign", "ceiling", "is.finite", "to_double", "to_integer",
    "to_logical")
  binary <- c("+", "-", "*", "/", "<", ">=", "==", "&", "|", "%%", "pmin", "pmax")
  roots <- c("sum", "max", "min", "any", "all", "mean", "range")
  grow <- function(depth) {
    if (depth == 0 || runif(1) < 0.15) {
      return(if (runif(1) < 0.2) round(rnorm(1), 2) else as.name(sample(names(leaves), 1L)))
    }
    what <- runif(1)
    if (what < 0.3) return(call(sample(unary, 1L), grow(depth - 1)))
    if (what < 0.4) return(call("choose", call(">", as.name("a"), grow(depth - 2 * (depth > 1) - (depth == 1))),
      grow(depth - 1), grow(depth - 1)))
    call(sample(binary, 1L), grow(depth - 1), grow(depth - 1))
  }
  found <- list()
  for (k in 1:2000) {
    tree <- grow(sample(2:6, 1L))
    root <- NULL
    if (runif(1) < 0.25) {
      root <- sample(roots, 1L)
      tree <- if (root %in% c("any", "all")) call(root, call("to_logical", tree), na.rm = runif(1) < 0.5) else
        call(root, tree, na.rm = runif(1) < 0.5)
    }
    if (!is_ours(k)) next
    want <- outcome(eval(tree, c(leaves, host)))
    got <- outcome(eval(tree, c(on_device, device)))
    cases$n <- cases$n + 1L
    # which zero of two signs is the largest is open
    limit <- if (is.null(root)) 0 else if (root %in% c("sum", "mean")) 8 else 1e-6
    said <- difference(got$value, want$value, ulp = limit, payload = FALSE)
    if (is.null(said) && !setequal(got$warnings, want$warnings)) {
      said <- sprintf("warnings {%s} are not {%s}", toString(got$warnings), toString(want$warnings))
    }
    if (!is.null(said)) found <- c(found, paste0(paste(deparse(tree), collapse = ""), ": ", said))
  }
  expect_all_same(found)
})

test_that("the trees are as many as they were", {
  expect_cases(2000L)
})
