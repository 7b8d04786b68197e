lme(y ~ x, data.frame(x = U(x), y = U(y), g = factor(k)), ~ 1 | g)$coefficients$fixed
gls(y ~ x, data.frame(x = U(x), y = U(y)))$coefficients
gls(y ~ x, data.frame(x = U(x), y = U(y)), corAR1())$sigma
lmList(y ~ x | g, data.frame(x = U(x), y = U(y), g = factor(k)))
gnls(y ~ a + b * x, data.frame(x = U(x), y = U(y)), start = c(a = 0, b = 1))$coefficients
pdSymm(U(s))
as.matrix(pdDiag(U(diag(3))))
corMatrix(Initialize(corAR1(0.4), data.frame(x = U(x))))[1:2, 1:2]
groupedData(y ~ x | g, data.frame(x = U(x), y = U(y), g = factor(k)))
gsummary(data.frame(x = U(x), g = factor(k)), groups = factor(k))
ACF(gls(y ~ x, data.frame(x = U(x), y = U(y))))
varWeights(Initialize(varFixed(~ x), data.frame(x = U(x))))
fdHess(U(c(1, 2)), function(p) sum(p^2))
fixef(lme(y ~ x, data.frame(x = U(x), y = U(y), g = factor(k)), ~ 1 | g))
getVarCov(lme(y ~ x, data.frame(x = U(x), y = U(y), g = factor(k)), ~ 1 | g))
nlme(y ~ a + b * x, data.frame(x = U(x), y = U(y), g = factor(k)), a + b ~ 1, a ~ 1 | g, c(a = 0, b = 1))$dims$N
predict(gls(y ~ x, data.frame(x = U(x), y = U(y))), data.frame(x = U(c(1, 2))))
