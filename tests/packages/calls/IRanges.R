IRanges(U(c(1L, 5L)), U(c(3L, 9L)))
IRanges(start = U(1:3), width = U(k[1:3]))
NumericList(U(x), U(y))
RleList(U(k))
splitAsList(U(x), k)[[1]]
relist(U(x), PartitioningByEnd(c(6L, 12L)))
coverage(IRanges(1:3, 5), weight = U(c(1L, 2L, 3L)))
