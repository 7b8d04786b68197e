cpm(U(community))
DGEList(U(community))$samples$lib.size
calcNormFactors(U(community))
estimateCommonDisp(DGEList(U(community), group = c(1, 1, 2, 2)))$common.dispersion
filterByExpr(U(community * 20L), group = c(1, 1, 2, 2))
rpkm(U(community), U(c(100, 200, 100, 300, 200)))
aveLogCPM(U(community))
exactTest(estimateDisp(DGEList(U(community), group = c(1, 1, 2, 2))))$table$logFC
plotMDS(DGEList(U(community)), plot = FALSE)$ndim
glmFit(DGEList(U(community)), cbind(1, 1:4), dispersion = 0.1)$coefficients
