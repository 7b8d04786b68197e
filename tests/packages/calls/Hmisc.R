wtd.mean(U(x), U(w))
wtd.var(U(x), U(w))
wtd.quantile(U(x), U(w))
rcorr(U(big))$r
cut2(U(x), g = 3)
impute(U(n))
describe(U(x))$counts
rcspline.eval(U(x), nk = 3)
smean.cl.normal(U(x))
approxExtrap(U(sort(x)), U(y), c(0, 9))$y
hoeffd(U(big))$D
somers2(U(x), U(event))
Lag(U(x), 1)
varclus(U(big))$sim
