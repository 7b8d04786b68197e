Surv(U(x), U(event))
Surv(U(x), U(x + 1), U(event))
coxph(Surv(t, e) ~ x, data.frame(t = U(y), e = U(event), x = U(x)))$coefficients
coxph(Surv(U(y), U(event)) ~ U(x))$loglik
survfit(Surv(U(x), U(event)) ~ 1)$surv
summary(survfit(Surv(U(x), U(event)) ~ group))$table
survdiff(Surv(U(x), U(event)) ~ group)$chisq
survreg(Surv(t, e) ~ x, data.frame(t = U(y), e = U(event), x = U(x)))$coefficients
concordance(U(x) ~ y)$concordance
concordance(coxph(Surv(t, e) ~ x, data.frame(t = U(y), e = U(event), x = U(x))))$count
pspline(U(x), 3)[1:3, 1]
ridge(U(x), theta = 1)
tcut(U(x), c(0, 3, 7))
pyears(Surv(U(x), U(event)) ~ group)$pyears
neardate(1:3, 1:3, U(x[1:3]), U(y[1:3]))
finegray(Surv(t, factor(e)) ~ x, data.frame(t = U(y), e = event, x = U(x)))$fgwt
survSplit(Surv(t, e) ~ x, data.frame(t = U(y), e = U(event), x = U(x)), cut = 2)
aareg(Surv(t, e) ~ x, data.frame(t = U(y), e = U(event), x = U(x)))$coefficient[, 1]
cox.zph(coxph(Surv(t, e) ~ x, data.frame(t = U(y), e = U(event), x = U(x))))$table
predict(coxph(Surv(t, e) ~ x, data.frame(t = U(y), e = U(event), x = U(x))), type = "risk")
basehaz(coxph(Surv(t, e) ~ x, data.frame(t = U(y), e = U(event), x = U(x))))
