# A matrix of rows x columns doubles 0, 1, 2 ... row after row, in memory of this package, as an array.
give <- function(rows, columns, versioned = TRUE, copy = 0L) .Call(C_give, rows, columns, versioned, copy)

# The sum of all elements of an array or vector of doubles, read where they lie.
sums <- function(x, versioned = TRUE) .Call(C_sums, x, versioned)

# Doubles the elements of an array of doubles where they lie.
double_it <- function(x) invisible(.Call(C_double_it, x))

# The array of a tensor that was exported and imported again, `times` times.
take_back <- function(x, times = 1L) .Call(C_take_back, x, times)

# A capsule of a tensor of x, made here.
through_capsule <- function(x, versioned = TRUE) .Call(C_through_capsule, x, versioned)

# Whether a capsule's tensor can be taken; it is deleted then.
takes <- function(capsule, versioned = TRUE) .Call(C_takes, capsule, versioned)

# A capsule of a tensor of eight doubles of which the named fields are others.
forge <- function(fields = list(), versioned = TRUE) .Call(C_forge, fields, versioned)

# How often this package's deleters were called since the last time this was asked.
deleted <- function() .Call(C_deleted)

# The elements of the last forged tensor's memory, and the address of an element of it that is written.
elements <- function() .Call(C_elements)
write_element <- function(k, value) invisible(.Call(C_write_element, k, value))

# The address of a page that may not be read (0 where the system has no mmap), as a double.
reserved <- function() .Call(C_reserved)

# c(what verdigris_message() says of a failure, whether a raise after a success returns)
raise_twice <- function() .Call(C_raise_twice)
