lowess(U(quarters))$x
spline(U(quarters), n = 3)$x
class(ar(U(quarters))$resid)
na.omit(U(ts(c(NA, 2, 3))))
arima(U(quarters), c(1, 0, 0))$coef
HoltWinters(U(quarters))$SSE
predict(HoltWinters(U(quarters)), 2, prediction.interval = TRUE)
stl(U(quarters), "periodic")$time.series
decompose(U(quarters))$seasonal
acf(U(cbind(a = ts(x), b = ts(y))), plot = FALSE)$snames
smooth(U(quarters))
glm(e ~ x, binomial, data.frame(e = U(event), x = U(x)))$coefficients
nls(y ~ a + b * x, data.frame(x = U(x), y = U(y)), start = list(a = 0, b = 1))$m$getPars()
loess(y ~ x, data.frame(x = U(x), y = U(y)))$fitted
t.test(U(x), U(y))$p.value
wilcox.test(U(x), U(y))$p.value
aov(x ~ g, data.frame(x = U(x), g = group))
kmeans(U(big), U(big[c(1, 30), ]))$cluster
prcomp(U(big))$sdev
factanal(U(cbind(big, big[, 1] + rep(x, 3)[1:30])), 1)$dof
hclust(dist(U(big)))$merge
optim(U(c(1, 1)), function(p) sum((p - 2)^2))$convergence
density(U(x))$bw
ecdf(U(x))(2)
model.matrix(~ x, data.frame(x = U(x)))
step(lm(y ~ x + w, data.frame(x = U(x), y = U(y), w = U(w))), trace = 0)$coefficients
StructTS(U(quarters), "level")$coef
princomp(U(big))$sdev
cor.test(U(x), U(y))$estimate
smooth.spline(U(x), U(y))$df
