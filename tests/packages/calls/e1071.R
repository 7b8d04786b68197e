svm(U(big), factor(two))$tot.nSV
predict(svm(U(big), factor(two)), U(big))
svm(U(x), U(y))$coefs
predict(svm(U(x), U(y)), U(c(1, 2)))
svm(y ~ x, data.frame(x = U(x), y = U(y)))$rho
naiveBayes(U(big), factor(two))$tables[[1]]
predict(naiveBayes(U(big), factor(two)), U(big[1:3, ]))
cmeans(U(big), 2)$size
kurtosis(U(x))
skewness(U(x))
moment(U(x), 2)
hamming.distance(U(m > 3))
impute(U(matrix(n, 2)))
stft(U(rep(x, 10)), 10, 5, 8)$values[1:2, 1]
sigmoid(U(x))
tune.svm(U(big), factor(two), cost = 1)$best.performance
lca(U(m > 3), 2)$lclass
classAgreement(U(matrix(c(15, 0, 0, 15), 2)))$diag
matchClasses(U(matrix(c(15, 0, 0, 15), 2)), verbose = FALSE)
