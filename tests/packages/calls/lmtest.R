coeftest(lm(y ~ x, data.frame(x = U(x), y = U(y))))
bptest(y ~ x, data = data.frame(x = U(x), y = U(y)))$p.value
dwtest(y ~ x, data = data.frame(x = U(x), y = U(y)))$statistic
grangertest(U(x), U(y), 1)$F
resettest(y ~ x, data = data.frame(x = U(x), y = U(y)))$p.value
bgtest(y ~ x, data = data.frame(x = U(x), y = U(y)))$p.value
lrtest(lm(y ~ x, data.frame(x = U(x), y = U(y))), lm(y ~ 1, data.frame(y = U(y))))$Chisq
waldtest(lm(y ~ x, data.frame(x = U(x), y = U(y))))$F
coefci(lm(y ~ x, data.frame(x = U(x), y = U(y))))
