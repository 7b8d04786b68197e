lmFit(U(big), U(cbind(1, 1:4)))$coefficients[1:2, ]
eBayes(lmFit(U(big), U(cbind(1, 1:4))))$s2.prior
normalizeBetweenArrays(U(big), "scale")[1:2, ]
normalizeQuantiles(U(m))
avereps(U(dm), c("p", "q", "p"))
fitFDist(U(x), 3)
squeezeVar(U(x), 3)$var.post
tricubeMovingAverage(U(x))
weighted.median(U(x), U(w))
voom(U(community), U(cbind(1, 1:4)))$E
