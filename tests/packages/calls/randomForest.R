randomForest(U(big), U(big[, 1]), ntree = 5)$type
randomForest(U(big), factor(two), ntree = 5)$confusion
predict(randomForest(U(big), factor(two), ntree = 5), U(big))[1:3]
na.roughfix(U(n))
