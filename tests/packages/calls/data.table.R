data.table(a = U(x), g = k)[, sum(a), by = g]
data.table(a = U(x), g = k)[, .(m = mean(a), n = .N), by = g]
data.table(a = U(x), b = U(y))[a > 2]
data.table(a = U(x), b = U(y))[order(a)]
setorder(data.table(a = U(x), b = 1:12), a)[1:3]
data.table(a = U(x))[, b := a * 2][1:3]
data.table(a = U(k), b = U(x))[, lapply(.SD, sum), by = a]
setkey(data.table(a = U(k), b = U(x)), a)[J(2L)]
merge(data.table(a = U(1:3), b = U(named)), data.table(a = 2:4, c = 1), by = "a")
as.data.table(U(dm))
as.data.table(U(x))
rbindlist(list(data.table(a = U(x)), data.table(a = U(y))))
melt(data.table(i = 1:3, a = U(named), b = U(named)), id.vars = "i")
dcast(data.table(i = U(c(1, 1, 2)), j = c("a", "b", "a"), v = U(named)), i ~ j, value.var = "v")
fifelse(U(l), 1, 0)
fifelse(l, U(x), 0)
fcoalesce(U(n), 0)
fcase(U(x) > 3, "high", default = "low")
shift(U(x), 1)
frank(U(x))
frollmean(U(x), 3)
froll <- frollsum(U(x), 2)
between(U(x), 1, 3)
U(x) %between% c(1, 3)
inrange(U(x), c(1, 4), c(2, 5))
nafill(U(n), fill = 0)
uniqueN(U(k))
rleid(U(k))
rowid(U(k))
first(U(x))
last(U(x))
transpose(list(U(x[1:2]), U(y[1:2])))
CJ(U(1:2), 3:4)
fsetdiff(data.table(a = U(1:3)), data.table(a = U(2:4)))
fwrite(data.table(a = U(x[1:3])))
data.table(a = U(x))[, .(s = shift(a)), ][1:2]
unique(data.table(a = U(k)))
data.table(a = U(k))[, .N, keyby = a]
setDT(list(a = U(x), b = U(y)))[2:3]
