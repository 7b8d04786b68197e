fixef(lmer(y ~ x + (1 | g), data.frame(x = U(x), y = U(y), g = factor(k))))
VarCorr(lmer(y ~ x + (1 | g), data.frame(x = U(x), y = U(y), g = factor(k))))$g
fixef(glmer(e ~ x + (1 | g), data.frame(x = U(x), e = U(event), g = factor(k)), binomial))
Nelder_Mead(function(p) sum((p - 1)^2), U(c(0, 0)))$par
factorize(~ g, data.frame(g = U(k)))
ranef(lmer(y ~ x + (1 | g), data.frame(x = U(x), y = U(y), g = factor(k))))$g
predict(lmer(y ~ x + (1 | g), data.frame(x = U(x), y = U(y), g = factor(k))), data.frame(x = U(1), g = "2"))
getME(lmer(y ~ x + (1 | g), data.frame(x = U(x), y = U(y), g = factor(k))), "X")[1:2, ]
coef(lmList(y ~ x | g, data.frame(x = U(x), y = U(y), g = factor(k))))
