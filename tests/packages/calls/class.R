knn(U(big), U(big), two)
knn.cv(U(big), two, 3)
lvq1(U(big), two, lvqinit(U(big), two, 2))$cl
SOM(U(big), somgrid(2, 2))$codes[1, ]
multiedit(U(big), factor(two), trace = FALSE)
condense(U(big), factor(two), trace = FALSE)
olvq1(U(big), two, lvqinit(U(big), two, 2))$cl
batchSOM(U(big), somgrid(2, 2), c(2, 1))$codes[1, ]
