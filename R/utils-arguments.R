# Tests whether an argument of a base R function has a form that the device code supports. All other values are passed
# to base R, which interprets or refuses them: methods have no rules of their own for such values.

# A condition: TRUE, FALSE, or one number, not NA.
is_switch <- function(x) (is.logical(x) || is.numeric(x)) && length(x) == 1L && !is.object(x) && !is.na(x)

# Only TRUE or FALSE, for functions whose C code interprets numbers differently than `if`.
is_flag <- function(x) is.logical(x) && length(x) == 1L && !is.object(x) && !is.na(x)

# A count, such as a number of elements, a lag or an extent: at least `least`.
is_count <- function(x, least = 0) is.numeric(x) && length(x) == 1L && !is.object(x) &&
  isTRUE(x[[1L]] >= least && x[[1L]] < 2^52)

# A tolerance or a weight: one finite number, at least 0.
is_size <- function(x) is.numeric(x) && !is.object(x) && length(x) == 1L && isTRUE(x >= 0 && x < Inf)

# Real numbers of any length, as an array or an ordinary vector: digits, bases, probabilities.
is_real <- function(x) !is.complex(x) && (inherits(x, "gpu_array") || !is.object(x) && (is.numeric(x) || is.logical(x)))

# One of several strings, without abbreviation.
is_choice <- function(x, among) is.character(x) && length(x) == 1L && x %in% among

is_labels <- function(x) is.null(x) || is.list(x)

# Strings that are text: valid in their encoding, and not marked as bytes.
is_readable <- function(x) is.character(x) && all(validEnc(x)) && !any(Encoding(x) == "bytes")
