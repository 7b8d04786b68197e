boot(U(x), function(d, i) mean(d[i]), 9)$t0
boot(data.frame(x = U(x)), function(d, i) mean(d$x[i]), 9)$t
boot.ci(boot(U(x), function(d, i) mean(d[i]), 99), type = "perc")$percent
cv.glm(data.frame(x = U(x), y = U(y)), glm(y ~ x, data = data.frame(x = U(x), y = U(y))), K = 3)$K
censboot(data.frame(t = U(x), e = U(event)), function(d) sum(d$t), 3)$t0
corr(U(cbind(x, y)))
empinf(data = U(x), statistic = function(d, w) sum(d * w), stype = "w")
inv.logit(U(x))
logit(U(c(0.2, 0.5)))
k3.linear(U(x))
var.linear(U(x))
tsboot(U(quarters), mean, 3, l = 4, sim = "fixed")$t0
norm.ci(t0 = U(1), var.t0 = U(0.5))
imp.weights(boot(U(x), function(d, i) mean(d[i]), 4, weights = rep(1, 12)))
exp.tilt(U(x), c(2, 3))$lambda
glm.diag(glm(y ~ x, data = data.frame(x = U(x), y = U(y))))$cook
simplex(a = U(c(1, 2)), A1 = U(matrix(1, 1, 2)), b1 = U(3))$soln
control(boot(U(x), function(d, w) sum(d * w), 20, stype = "w"))$L
smooth.f(0.3, boot(U(x), function(d, w) sum(d * w), 20, stype = "w"))
saddle(U(x), 3)$spa
