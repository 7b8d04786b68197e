plsr(y ~ x, 1, data = data.frame(y = U(y), x = I(U(cbind(x, w)))))$coefficients
msc(U(big))[1:2, ]
pcr(y ~ x, 1, data = data.frame(y = U(y), x = I(U(cbind(x, w)))))$coefficients
RMSEP(plsr(U(y) ~ U(cbind(x, w)), 1))$val
stdize(U(big))[1:2, ]
