{f <- function(v) UseMethod("f"); f.numeric <- function(v) "numeric"; f.default <- function(v) "default"; f(U(x))}
{f <- function(v) UseMethod("f"); f.matrix <- function(v) "matrix"; f.default <- function(v) "default"; f(U(m))}
{f <- function(v) UseMethod("f"); f.integer <- function(v) "integer"; f.default <- function(v) "default"; f(U(k))}
inherits(U(m), "matrix")
stack(list(a = U(x), b = U(y)))
stack(data.frame(a = U(x), b = U(y)))
lm(y ~ x + I(x^2), data.frame(x = U(x), y = U(y)))$coefficients
I(U(x))[1:2]
isS4(structure(U(x), class = "foo"))
structure(U(x), class = c("foo", "bar"))
capture.output(print(structure(U(x), class = "foo")))
capture.output(str(structure(U(x), class = "foo")))
{v <- U(x); class(v) <- c("a", "b"); v}
{v <- U(x); class(v) <- NULL; v}
{v <- U(x); oldClass(v) <- "foo"; v}
{v <- U(x); attr(v, "unit") <- "m"; v + 1}
U(x) + as.Date("2024-01-01")
day + U(x)
day - U(x)
instant + U(x)
U(x) + instant
as.difftime(x, units = "hours") * U(y)
U(x) * as.difftime(y, units = "mins")
U(x) + as.difftime(y, units = "mins")
factor(k) == U(k)
U(k) == factor(k)
U(as.vector(quarters)) + quarters
quarters - U(as.vector(quarters))
data.frame(a = x, b = y) + U(x)
U(x) * data.frame(a = x, b = y)
day > U(19730)
table(k) + U(c(1, 2, 3))
eval(parse(text = deparse(U(c(1, 2)))))
window(U(quarters), 2002)
{q <- U(quarters); window(q, 2002, c(2002, 2)) <- 0; q}
ts(U(x), start = 2000)
as.difftime(U(1), units = "hours")
as.Date(U(19000), origin = "1970-01-01")
as.POSIXct(U(0), tz = "UTC", origin = "1970-01-01")
factor(U(k))
cut(U(x), 3)
split(U(x), k)
merge(data.frame(a = U(1:3)), data.frame(a = 2:4, b = 1))
aggregate(x ~ g, data.frame(x = U(x), g = k), sum)
reshape(data.frame(i = 1:2, a1 = U(x[1:2]), a2 = U(y[1:2])), direction = "long", varying = 2:3, idvar = "i", sep = "")
