coef(mle(function(a = 1) sum((U(x) - a)^2)))
vcov(mle(function(a = 1) sum((U(x) - a)^2)))
logLik(mle(function(a = 1, b = 1) sum((U(y) - a - b * U(x))^2)))
