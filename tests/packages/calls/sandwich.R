vcovHC(lm(y ~ x, data.frame(x = U(x), y = U(y))))
NeweyWest(lm(y ~ x, data.frame(x = U(x), y = U(y))), 1)
bread(lm(y ~ x, data.frame(x = U(x), y = U(y))))
vcovCL(lm(y ~ x, data.frame(x = U(x), y = U(y))), cluster = U(k))
estfun(lm(y ~ x, data.frame(x = U(x), y = U(y))))[1:2, ]
meat(lm(y ~ x, data.frame(x = U(x), y = U(y))))
kernHAC(lm(y ~ x, data.frame(x = U(x), y = U(y))))
