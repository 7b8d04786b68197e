# The values that the calls of calls.tsv name. All are ordinary vectors: a call says U(x) where it means an array.
x <- c(2.5, 0.3, 4.1, 1.7, 3.3, 2.2, 5.9, 0.8, 4.6, 3.9, 1.1, 6.4)
y <- c(1.2, 0.9, 4.4, 2.1, 2.8, 2.6, 5.1, 1.4, 4.9, 3.1, 0.7, 5.8)
w <- c(1, 2, 1, 3, 1, 2, 2, 1, 1, 2, 3, 1)
n <- c(1.5, NA, 3, 2, NA, 0.5) # with missing values
k <- c(3L, 1L, 2L, 3L, 1L, 2L, 2L, 1L, 3L, 3L, 2L, 1L)
l <- k > 1L # logical
named <- c(a = 1, b = 2, c = 3)
counts <- c(4, 7, 1, 9, 3, 2, 8, 5, 6, 2, 1, 7)
event <- c(1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0)
group <- factor(c("u", "v")[c(1, 2, 1, 2, 1, 2, 1, 1, 2, 2, 1, 2)])
m <- matrix(c(2, 1, 4, 3, 7, 5, 8, 6, 1, 9, 2, 4), 4, dimnames = NULL)
dm <- matrix(c(2, 1, 4, 3, 7, 5), 3, dimnames = list(c("r1", "r2", "r3"), c("a", "b")))
s <- crossprod(matrix(c(1, 2, 3, 4, 2, 1, 0, 1, 3, 1, 2, 2, 0, 4, 1, 1), 4)) + diag(4) # positive definite
big <- outer(1:30, 1:4, function(i, j) sin(i * j) + j + ifelse(i > 15, 3, 0)) # two clusters
wide <- `colnames<-`(big, c("a", "b", "c", "d"))
two <- rep(1:2, each = 15)
community <- matrix(c(3L, 0L, 5L, 1L, 2L, 8L, 1L, 0L, 4L, 2L, 0L, 6L, 2L, 7L, 1L, 3L, 5L, 2L, 9L, 1L), 5)
a3 <- array(1:24 + 0, c(2, 3, 4))
quarters <- ts(c(5, 7, 9, 6, 6, 8, 11, 7, 7, 9, 12, 8, 8, 10, 13, 9, 9, 12, 14, 10), start = 2001, frequency = 4)
day <- as.Date("2024-01-01") + 0:11
instant <- as.POSIXct("2024-01-01", tz = "UTC") + 3600 * 0:11
# a sparse matrix, which loads Matrix where a call names it
delayedAssign("sp", Matrix::sparseMatrix(i = c(1, 3, 2, 3, 1), j = c(1, 1, 2, 4, 4), x = c(1, -2, 4, 3, 5), dims = 3:4,
  dimnames = list(c("u", "v", "w"), NULL)))
