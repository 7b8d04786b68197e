forecast(ets(U(quarters)), 2)$mean
auto.arima(U(quarters))$coef
Arima(U(quarters), c(1, 0, 0))$coef
ma(U(quarters), 4)
BoxCox(U(quarters), 0.5)
InvBoxCox(U(x), 0.5)
BoxCox.lambda(U(quarters))
accuracy(U(x), y)
naive(U(quarters), 2)$mean
snaive(U(quarters), 2)$mean
meanf(U(quarters), 2)$lower
rwf(U(quarters), 2, drift = TRUE)$mean
ses(U(quarters), 2)$mean
holt(U(quarters), 2)$mean
thetaf(U(quarters), 2)$mean
mstl(U(quarters))
ndiffs(U(quarters))
nsdiffs(U(quarters))
tsclean(U(quarters))
na.interp(U(ts(n)))
seasonaldummy(U(quarters))
fourier(U(quarters), 1)
Acf(U(quarters), plot = FALSE)$acf
croston(U(ts(counts)), 2)$mean
nnetar(U(quarters), 1, size = 1, repeats = 1)$p
dm.test(U(x), U(y))$p.value
seasadj(stl(U(quarters), "periodic"))
