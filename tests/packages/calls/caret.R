preProcess(U(wide))$mean
predict(preProcess(U(wide)), U(wide))[1:2, ]
findCorrelation(U(cor(big)))
nearZeroVar(U(big))
postResample(U(x), U(y))
createFolds(U(x), 3)
dummyVars(~ g, data.frame(g = group, x = U(x)))$vars
featurePlot(U(wide), factor(two))$call
knnreg(U(wide), U(big[, 1]), k = 3)$k
knn3(U(wide), factor(two), k = 3)$k
BoxCoxTrans(U(x))$lambda
RMSE(U(x), U(y))
R2(U(x), U(y))
MAE(U(x), U(y))
maxDissim(U(wide[1:3, ]), U(wide[4:9, ]), n = 2)
