lda(U(big), two)$scaling
predict(lda(U(big), two), U(big))$class
qda(U(big), two)$means
ginv(U(m))
Null(U(m))
fractions(U(x))
rational(U(x))
mvrnorm(3, U(x[1:4]), U(s))
cov.rob(U(big))$center
cov.trob(U(big))$cov
rlm(y ~ x, data.frame(x = U(x), y = U(y)))$coefficients
rlm(U(cbind(1, x)), U(y))$coefficients
lqs(U(cbind(x, w)), U(y))$coefficients
lm.ridge(y ~ x + w, data.frame(x = U(x), y = U(y), w = w), lambda = 0.1)
glm.nb(counts ~ x, data.frame(counts = U(counts), x = U(x)))$coefficients
polr(factor(k) ~ x, data.frame(k = k, x = U(x)))$coefficients
fitdistr(U(x), "gamma")$estimate
fitdistr(U(x), "normal")
kde2d(U(x), U(y), n = 4)
bandwidth.nrd(U(x))
width.SJ(U(big[, 1]))
ucv(U(x))
huber(U(x))
hubers(U(x))
isoMDS(dist(U(big[1:8, ])), trace = FALSE)$stress
sammon(dist(U(big[1:8, ])), trace = FALSE)$stress
corresp(U(community + 1))$cor
stdres(lm(y ~ x, data.frame(x = U(x), y = U(y))))
truehist(U(x), plot = FALSE)
con2tr(list(x = U(1:2 + 0), y = U(1:2 + 0), z = U(diag(2))))
loglm(~ 1 + 2, U(m))$lrt
