gam(y ~ s(x, k = 4), data = data.frame(x = U(x), y = U(y)))$coefficients
predict(gam(y ~ s(x, k = 4), data = data.frame(x = U(x), y = U(y))), data.frame(x = U(c(1, 2))))
gam(counts ~ s(x, k = 4), poisson, data.frame(x = U(x), counts = U(counts)))$sp
bam(y ~ s(x, k = 4), data = data.frame(x = U(x), y = U(y)))$coefficients
smoothCon(s(x, k = 4), data.frame(x = U(x)))[[1]]$X
tensor.prod.model.matrix(list(U(m), U(m)))
mroot(U(s))
rig(3, U(c(1, 2, 3)), 1)
uniquecombs(U(m[c(1, 1, 2), ]))
slanczos(U(s), 2)$values
bandchol(U(s))
cSplineDes(U(x), knots = seq(0, 7, length = 6))
rTweedie(U(x), p = 1.5)
d.mvt(U(x[1:4]), U(y[1:4]), U(s), 3)
