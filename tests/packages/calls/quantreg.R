rq(y ~ x, data = data.frame(x = U(x), y = U(y)))$coefficients
rq.fit(U(cbind(1, x)), U(y))$coefficients
rq.fit.fnb(U(cbind(1, x)), U(y))$coefficients
summary(rq(y ~ x, data = data.frame(x = U(x), y = U(y))), se = "iid")$coefficients
rqss(y ~ qss(x, lambda = 1), data = data.frame(x = U(x), y = U(y)))$fidelity
akj(U(x), c(1, 2))$dens
nlrq(y ~ a + b * x, data.frame(x = U(x), y = U(y)), start = list(a = 0, b = 1))$m$getPars()
kuantile(U(x), 0.5)
predict(rq(y ~ x, data = data.frame(x = U(x), y = U(y))), data.frame(x = U(c(1, 2))))
anova(rq(y ~ x, data = data.frame(x = U(x), y = U(y))), rq(y ~ 1, data = data.frame(y = U(y))))$table
rq.fit.br(U(cbind(1, x)), U(y))$coefficients
rq.wfit(U(cbind(1, x)), U(y), weights = U(w))$coefficients
rearrange(stepfun(U(1:3 + 0), U(c(0, 2, 1, 3))))
