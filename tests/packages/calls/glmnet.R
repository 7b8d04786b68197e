coef(glmnet(U(big), U(big[, 1] + 1)), s = 0.1)
predict(glmnet(U(big), U(two)), U(big[1:3, ]), s = 0.1)
glmnet(U(big), factor(two), family = "binomial")$df
cv.glmnet(U(big), U(two + 0), nfolds = 3)$nzero
glmnet(U(big), U(counts[c(1:12, 1:12, 1:6)]), family = "poisson")$df
glmnet(U(big), U(big[, 1:2]), family = "mgaussian")$df
assess.glmnet(glmnet(U(big), U(two)), U(big), U(two))$mse[1:2]
