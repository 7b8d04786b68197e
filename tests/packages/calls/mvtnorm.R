dmvnorm(U(c(0, 0)))
dmvnorm(U(big[, 1:4]), sigma = U(s))[1:3]
pmvnorm(upper = U(c(0, 0)), sigma = U(diag(2)))
rmvnorm(2, U(x[1:4]), U(s))
dmvt(U(c(0, 0)), df = 3)
qmvnorm(0.5, sigma = U(diag(2)))$quantile
rmvt(2, U(diag(2)), 3)
