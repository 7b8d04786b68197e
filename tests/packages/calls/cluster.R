pam(U(big), 2)$clustering
clara(U(big), 2)$medoids
fanny(U(big), 2)$clustering
agnes(U(big))$ac
diana(U(big))$dc
mona(U(cbind(l, x > 2)))$order
daisy(U(big))[1:3]
silhouette(U(two), dist(big))[1:2, ]
silhouette(pam(U(big), 2))[1:2, 3]
clusGap(U(big), kmeans, 2, B = 2, verbose = FALSE)$Tab
ellipsoidhull(U(big[, 1:2]))$cov
pam(dist(U(big)), 2)$medoids
sizeDiss(U(x[1:6]))
coef(agnes(U(big)))
