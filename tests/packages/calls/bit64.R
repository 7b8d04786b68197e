as.integer64(U(x))
as.integer64(1:12) + U(x)
U(k) * as.integer64(2)
