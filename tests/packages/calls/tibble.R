tibble(a = U(x), b = a * 2)
as_tibble(data.frame(a = U(x)))
as_tibble(U(dm))
tibble(a = U(x))[2:3, ]
tibble(a = U(x))$a
add_row(tibble(a = U(x)), a = 1)
add_column(tibble(a = U(x)), b = U(y))
enframe(U(named))
deframe(tibble(n = c("a", "b"), v = U(x[1:2])))
rowid_to_column(tibble(a = U(x)))
dim(tibble(a = U(x), m = U(matrix(1:24, 12))))
lst(a = U(x), b = a + 1)
