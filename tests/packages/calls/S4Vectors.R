Rle(U(c(1, 1, 2)))
nrun(Rle(U(k)))
runLength(Rle(U(c(1, 1, 2))))
DataFrame(a = U(x), b = U(k))
DataFrame(a = U(x))$a
DataFrame(U(dm))
SimpleList(U(x))
List(U(x), U(y))[[1]]
runmean(Rle(U(x)), 3)
sort(Rle(U(k)))
Rle(U(k), U(k))
cbind(DataFrame(a = U(x)), DataFrame(b = 1))
as(U(x), "Rle")
isSequence(U(1:3))
