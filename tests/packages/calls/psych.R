winsor(U(x))
describe(U(big))$mean
alpha(U(big), check.keys = FALSE, warnings = FALSE)$total$raw_alpha
corr.test(U(wide))$r
fa(U(big), 1)$loadings
principal(U(big), 1)$loadings
skew(U(x))
geometric.mean(U(x))
harmonic.mean(U(x))
fisherz(U(c(0.1, 0.5)))
tr(U(s))
partial.r(U(cor(big)), 1:2, 3)
ICC(U(m), lmer = FALSE)$results$ICC
rescale(U(x))
reverse.code(c(-1, 1, 1, 1), U(big))[1:2, ]
