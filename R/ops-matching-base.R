# Support for arrays in base R's own match(), on which merge() and the set functions are based. It compares numbers and
# strings, and does not know int64.

# Two arguments of base R's matching and set functions as ordinary vectors. int64 is compared with strings by its
# decimal digits.
plain_pair <- function(x, y) list(plain_beside(x, y), plain_beside(y, x))

plain_beside <- function(x, other) {
  if (is_gpu(x) && is_int64(x) && is_words(other)) as.character(x) else plain_vector(x)
}

# An array as an ordinary vector for base R's match(), which treats objects as strings.
plain_vector <- function(x) if (is_gpu(x)) as.vector(ordinary_copy(x)) else host_copy(x)

# plain_vector() of a key. int64, which doubles may not represent, becomes the factor that base R would create. The
# missing value of narrow floats becomes NA.
plain_key <- function(x) {
  if (!is_gpu(x) || !is_int64(x)) {
    y <- plain_vector(x)
    return(if (is_gpu(x) && is.double(y) && is_narrow(x)) replace(y, is.nan(y), NA) else y)
  }
  by <- grouping(list(x), gpu_device(x))
  factor(by$levels[[1L]][as.vector(by$codes)], by$levels[[1L]])
}

is_words <- function(x) is.character(x) || is.factor(x)

# From R 4.2 on base::match() calls mtfrm() for each argument that is an object, and compares the results as numbers or,
# if one argument is character or factor, as strings. So int64 is converted to a type in which it can be distinguished
# from the elements of the other argument.
mtfrm.gpu_array <- function(x) {
  if (!is_int64(x)) return(as.vector(host_copy(x)))
  other <- matched_arguments(parent.frame())
  if (is.null(other)) return(as_words_of_doubles(x))
  other <- Filter(function(v) !is_gpu(v) || !is_int64(v), other)
  if (!length(other)) return(as.character(x))
  other <- other[[1L]]
  if (is_words(other)) return(as.character(x))
  if (is_host_int64(other)) return(as_transformed_integer64(x, other))
  if (is_number(other)) return(as_doubles_apart(x, other))
  as_words_of_doubles(x)
}

# The two arguments of match(), from the frame that calls it. This is the frame of match() itself or, since the byte
# compiler inlines it, of `%in%`, is.element(), merge() or a set function. NULL in other frames.
matched_arguments <- function(frame) {
  for (names in list(c("x", "table"), c("el", "table"), c("bx", "by"), c("x", "y"))) {
    if (all(vapply(names, exists, NA, envir = frame, inherits = FALSE))) {
      values <- mget(names, envir = frame)
      if (!any(vapply(values, is.data.frame, NA))) return(unname(values))
    }
  }
}

# As doubles. An element that no double represents becomes a number that `other` does not contain.
as_doubles_apart <- function(x, other) {
  y <- suppressWarnings(as.vector(gpu_cast(x, "float64")))
  lost <- !as.vector(is.na(x) | x == y)
  if (!any(lost)) return(y)
  # one candidate more than `other` has elements
  fractions <- 1 / (1 + seq_len(length(other) + 1))
  y[lost] <- fractions[is.na(base::match(fractions, as.vector(other)))][1L]
  y
}

# Converts x as base R converts an integer64: to strings by bit64's method or, before R 4.3, to doubles with the same
# bits.
as_transformed_integer64 <- function(x, other) {
  refuse <- function(why) stop_verdigris("argument",
    paste0("base::match() cannot distinguish these elements of an int64 array and an integer64: ", why, "."),
    c("`match()`, `%in%` and the set functions that verdigris exports compare them exactly.",
      "For `merge()` make both keys arrays, with `as_gpu()`."), call = NULL)
  y <- collected(x, TRUE)
  if (!isNamespaceLoaded("bit64")) refuse("bit64 is not installed")
  y <- mtfrm(y)
  if (!is.double(y)) return(y)
  # These doubles are NaN for negative and very large numbers, and -0 for NA.
  if (any(x < 0 & x > -2^52 | x > 2^63 - 2^52, na.rm = TRUE)) refuse("it treats negative and very large ones as NaN")
  zero <- function(v) any(as_gpu(v, device = gpu_device(x)) == 0L, na.rm = TRUE)
  if (anyNA(x) && zero(other) || zero(x) && anyNA(as_gpu(other, device = gpu_device(x))))
    refuse("it takes NA for 0")
  y
}

# As the strings that base R makes of doubles, or as decimal digits where a double does not represent the element.
as_words_of_doubles <- function(x) {
  y <- suppressWarnings(as.vector(gpu_cast(x, "float64")))
  exact <- as.vector(is.na(x) | x == y)
  if (all(exact)) return(y)
  texts <- as.character(y)
  at <- base::which(!exact | !is.na(y) & as.double(texts) != y)
  texts[at] <- as.character(x[at])
  texts
}
