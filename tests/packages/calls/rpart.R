rpart(y ~ x, data.frame(x = U(big[, 1]), y = U(big[, 2])))$frame$n
predict(rpart(y ~ x, data.frame(x = U(big[, 1]), y = U(big[, 2]))))[1:3]
rpart(g ~ ., data.frame(g = factor(two), U(big)))$cptable
rpart(y ~ ., data.frame(y = U(big[, 1]), U(big[, 2:3])), method = "anova")$variable.importance
xpred.rpart(rpart(y ~ x, data.frame(x = U(big[, 1]), y = U(big[, 2]))), 3)[1:2]
residuals(rpart(y ~ x, data.frame(x = U(big[, 1]), y = U(big[, 2]))))[1:3]
