bs(U(x), df = 4)
ns(U(x), 3)
splineDesign(1:10, U(c(4, 5.5, 6)))
interpSpline(U(sort(x)), U(y))$coefficients
predict(interpSpline(U(sort(x)), U(y)), U(c(1, 2)))
polySpline(interpSpline(U(sort(x)), U(y)))$knots
lm(y ~ bs(x, 4), data.frame(x = U(x), y = U(y)))$coefficients
predict(bs(U(x), df = 4), U(c(1, 2)))
