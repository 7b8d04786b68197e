rdist(U(cbind(x, y)))[1, ]
Tps(U(cbind(x, y)), U(w))$lambda
interp.surface(list(x = 1:4, y = 1:3, z = U(m)), U(cbind(2.5, 1.5)))
image.smooth(U(m))$z
Krig(U(cbind(x, y)), U(w), aRange = 2)$lambda
stats(U(x))
rdist.vec(U(cbind(x, y)), U(cbind(y, x)))
Exp.cov(U(cbind(x, y)))[1, ]
sreg(U(x), U(y), df = 3)$lambda
splint(U(sort(x)), U(y), c(1, 2))
