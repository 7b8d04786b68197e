# k-means (Lloyd, IEEE Trans. Inf. Theory 28, 1982): 1e6 points of 20 coordinates, 10 centres, 20 turns.
inputs <- function() {
  X <- matrix(det(N(1e6) * 20), ncol = 20L)
  list(X = up(X, "float32"), start = X[1:10, ])
}
program <- function(X, start) {
  C <- up(start, "float32")
  for (turn in 1:20) {
    D <- outer(rowSums(X^2), rowSums(C^2), "+") - 2 * tcrossprod(X, C)
    group <- max.col(-D, ties.method = "first")
    C <- rowsum(X, group) / as.vector(table(group))
  }
  sum(C)
}
