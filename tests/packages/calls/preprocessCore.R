normalize.quantiles(U(big))[1:2, ]
rma.background.correct(U(big + 5))[1:2, ]
normalize.quantiles.robust(U(big), n.remove = 1L)[1:2, ]
colSummarizeMedian(U(big))$Estimates
rcModelPLM(U(big[1:5, ]))$Estimates
