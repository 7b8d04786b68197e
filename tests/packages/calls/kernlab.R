ksvm(U(big), factor(two), kpar = list(sigma = 0.1))@nSV
predict(ksvm(U(big), factor(two), kpar = list(sigma = 0.1)), U(big))
kernelMatrix(rbfdot(0.1), U(m))
rbfdot(0.1)(U(x), U(y))
kernelMult(rbfdot(0.1), U(m), z = U(x[1:4]))
kernelPol(rbfdot(0.1), U(m), , U(x[1:4]))
kpca(U(big), kpar = list(sigma = 0.1), features = 2)@eig
specc(U(big), 2)@size
kkmeans(U(big), 2)@size
gausspr(U(big), factor(two), kpar = list(sigma = 0.1))@error
rvm(U(x), U(y), kpar = list(sigma = 0.1))@nRV
ranking(U(big), 1)[1:3, ]
sigest(U(big))
ipop(U(x[1:4]), U(s), U(t(rep(1, 4))), 1, U(rep(0, 4)), U(rep(5, 4)), 1)@how
inchol(U(big))@maxresiduals
kfa(U(big), kpar = list(sigma = 0.1), features = 2)@alpha
onlearn(inlearn(4, type = "classification"), U(big[1:2, ]), c(1, -1))@rho
kcca(U(big[, 1:2]), U(big[, 3:4]), ncomps = 1)@kcor
