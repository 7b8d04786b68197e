length(as.list(iter(U(m), by = "row")))
nextElem(iter(U(x)))
nextElem(iter(U(m), by = "col"))
nextElem(iter(list(U(x))))
