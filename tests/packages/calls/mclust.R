Mclust(U(big), 2, verbose = FALSE)$classification
mclustBIC(U(big), 1:2, verbose = FALSE)
densityMclust(U(big[, 1]), verbose = FALSE, plot = FALSE)$BIC
hc(U(big), "VVV")[1:2]
me(U(big), "EII", unmap(two))$loglik
unmap(U(two))
map(U(unmap(two)))
adjustedRandIndex(U(two), two)
classError(U(two), two)
MclustDA(U(big), two, verbose = FALSE)$loglik
covw(U(big), U(unmap(two)))$mean
predict(Mclust(U(big), 2, verbose = FALSE), U(big[1:3, ]))$classification
mclustICL(U(big), 1:2, verbose = FALSE)
hclass(hc(U(big)), 2)
cdens(U(big), "EII", list(mean = cbind(1:4, 2:5), variance = list(modelName = "EII", d = 4, G = 2, sigmasq = 1)))[1:2, ]
