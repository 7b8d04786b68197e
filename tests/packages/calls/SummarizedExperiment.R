assay(SummarizedExperiment(U(dm)))
dim(SummarizedExperiment(list(a = U(m))))
colData(SummarizedExperiment(list(a = dm), colData = DataFrame(v = U(x[1:2]))))$v
assay(SummarizedExperiment(U(dm))[1:2, ])
assays(SummarizedExperiment(list(a = U(m), b = U(m + 1))))$b
dim(cbind(SummarizedExperiment(U(m)), SummarizedExperiment(U(m))))
