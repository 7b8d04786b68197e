adf.test(U(x))$statistic
garch(U(x), trace = FALSE)$order
jarque.bera.test(U(x))$p.value
kpss.test(U(x))$statistic
arma(U(quarters), c(1, 0))$coef
po.test(U(cbind(x, y)))$statistic
pp.test(U(x))$statistic
runs.test(factor(as.vector(U(l))))$p.value
bds.test(U(x), 2)$statistic
maxdrawdown(U(x))
sharpe(U(x))
na.remove(U(n))
terasvirta.test(U(x), U(y))$statistic
