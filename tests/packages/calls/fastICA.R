fastICA(U(big), 2, method = "R")$K
fastICA(U(wide), 1, method = "C")$W
