# Checks of arguments of base R's functions that the device supports. Any other value goes to base R, which interprets
# or refuses it: no method has rules of its own for such values.

# A condition: TRUE, FALSE, or a number in their place.
is_switch <- function(x) (is.logical(x) || is.numeric(x)) && length(x) == 1L && !is.object(x) && !is.na(x)

# TRUE or FALSE alone, for functions whose C code reads a number by another rule than `if`.
is_flag <- function(x) is.logical(x) && length(x) == 1L && !is.object(x) && !is.na(x)

# A number of elements, a lag, an extent: `least` or more.
is_count <- function(x, least = 0) is.numeric(x) && length(x) == 1L && !is.object(x) &&
  isTRUE(x[[1L]] >= least && x[[1L]] < 2^52)

# A tolerance, a weight: one finite number, 0 or more.
is_size <- function(x) is.numeric(x) && !is.object(x) && length(x) == 1L && isTRUE(x >= 0 && x < Inf)

# Digits, bases, probabilities: numbers that are not complex, an array or ordinary ones.
is_real <- function(x) !is.complex(x) && (inherits(x, "gpu_array") || !is.object(x) && (is.numeric(x) || is.logical(x)))

# One of several words, written out.
is_choice <- function(x, among) is.character(x) && length(x) == 1L && x %in% among

is_labels <- function(x) is.null(x) || is.list(x)

# Strings that are text: valid in their encoding, and not marked as bytes.
is_readable <- function(x) is.character(x) && all(validEnc(x)) && !any(Encoding(x) == "bytes")
