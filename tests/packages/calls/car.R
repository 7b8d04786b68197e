vif(lm(y ~ x + w, data.frame(x = U(x), y = U(y), w = U(w))))
Anova(lm(y ~ x, data.frame(x = U(x), y = U(y))))
powerTransform(U(x))$lambda
bcPower(U(x), 0.5)
recode(U(k), "1 = 10")
linearHypothesis(lm(y ~ x, data.frame(x = U(x), y = U(y))), "x = 0")$F
ncvTest(lm(y ~ x, data.frame(x = U(x), y = U(y))))$p
durbinWatsonTest(lm(y ~ x, data.frame(x = U(x), y = U(y))))$dw
outlierTest(lm(y ~ x, data.frame(x = U(x), y = U(y))))$p
leveneTest(U(x), factor(k))
logit(U(c(0.2, 0.5)))
yjPower(U(x), 0.5)
some(data.frame(a = U(x)), 3)
hccm(lm(y ~ x, data.frame(x = U(x), y = U(y))))
