nj(dist(U(big[1:5, ])))$edge
pic(U(c(1, 2, 3)), read.tree(text = "((A:1,B:1):1,C:2);"))
Moran.I(U(x[1:4]), U(s))$observed
dist.nodes(read.tree(text = "((A:1,B:1):1,C:2);"))[1:2, U(1:2)]
as.phylo(hclust(dist(U(big[1:5, ]))))$edge
pcoa(dist(U(big)))$values[1:2, 1]
mst(dist(U(big[1:4, ])))
varcomp(lme(y ~ 1, data.frame(y = U(y), g = factor(k)), ~ 1 | g))
