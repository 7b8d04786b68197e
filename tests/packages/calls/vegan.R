vegdist(U(community))
diversity(U(community))
specnumber(U(community))
rarefy(U(community), 5)
decostand(U(community), "hellinger")
wisconsin(U(community))
rda(U(community))$tot.chi
cca(U(community))$tot.chi
metaMDS(U(community), trace = 0, k = 1)$ndim
adonis2(dist(U(big)) ~ two, permutations = 9)$R2
anosim(U(big), two, permutations = 9)$statistic
mantel(dist(U(big[, 1:2])), dist(U(big[, 3:4])), permutations = 9)$statistic
procrustes(U(big[, 1:2]), U(big[, 3:4]))$ss
fisherfit(U(c(9, 4, 2, 2, 1, 1, 1)))$estimate
estimateR(U(community))
specaccum(U(community), "exact")$richness
betadisper(dist(U(big)), two)$eig[1:2]
scores(rda(U(community)), choices = 1)$sites
designdist(U(community), "A+B-2*J")
renyi(U(community))
eigenvals(rda(U(community)))
cascadeKM(U(big), 2, 3, iter = 5)$results
radfit(U(community[1, ]))$y
isomap(dist(U(big)), epsilon = 10)$eig[1:2]
beals(U(community))
indpower(U(community))
