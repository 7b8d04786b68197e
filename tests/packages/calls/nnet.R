nnet(U(big), U(big[, 1]), size = 1, linout = TRUE, trace = FALSE)$n
multinom(g ~ x, data.frame(g = group, x = U(x)), trace = FALSE)$deviance
class.ind(U(two))
which.is.max(U(x))
predict(nnet(U(big), U(big[, 1]), size = 1, linout = TRUE, trace = FALSE), U(big[1:2, ]))
multinom(factor(k) ~ x, data.frame(x = U(x)), trace = FALSE)$edf
