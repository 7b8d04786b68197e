lmrob(y ~ x, data.frame(x = U(x), y = U(y)))$coefficients
covMcd(U(big))$center
Qn(U(x))
mc(U(x))
adjbox(U(x), plot = FALSE)$stats
colMedians(U(m))
glmrob(e ~ x, binomial, data.frame(e = U(event), x = U(x)))$coefficients
Sn(U(x))
s_Qn(U(x))
huberM(U(x))$mu
scaleTau2(U(x))
covOGK(U(big), sigmamu = scaleTau2)$center
ltsReg(U(cbind(x, w)), U(y))$coefficients
