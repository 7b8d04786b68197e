melt(U(m))
melt(U(a3))[1:3, ]
melt(U(x))
melt(data.frame(i = 1:3, a = U(named), b = U(named)), id.vars = "i")
melt(list(a = U(x), b = U(y)))
dcast(data.frame(i = c(1, 1, 2), k = c("a", "b", "a"), v = U(x[1:3])), i ~ k, value.var = "v")
acast(data.frame(i = c(1, 1, 2), k = c("a", "b", "a"), v = U(x[1:3])), i ~ k, value.var = "v")
add_margins(data.frame(a = U(k)), "a")[1:2, ]
