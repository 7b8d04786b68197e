xyplot(y ~ x, data.frame(x = U(x), y = U(y)))$panel.args[[1]]
histogram(~ x, data.frame(x = U(x)))$panel.args.common$breaks
densityplot(U(x))$x.limits
levelplot(U(m))$panel.args.common$z
bwplot(g ~ x, data.frame(x = U(x), g = group))$x.limits
contourplot(U(s))$panel.args.common$at
barchart(U(dm))$y.limits
dotplot(U(dm))$panel.args[[1]]
stripplot(group ~ U(x))$x.limits
qqmath(~ U(x))$x.limits
wireframe(U(m))$panel.args.common$z
cloud(y ~ x * w, data.frame(x = U(x), y = U(y), w = U(w)))$panel.args.common$x
splom(U(big))$panel.args[[1]]$z[1:2, 1]
parallelplot(U(big))$y.limits
equal.count(U(x), 2)
shingle(U(x))
make.groups(a = U(x), b = U(y))
level.colors(U(x), at = c(0, 3, 7), col.regions = c("red", "blue"))
prepanel.default.xyplot(U(x), U(y), "p")$xlim
