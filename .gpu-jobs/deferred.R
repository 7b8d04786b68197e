suppressMessages(library(verdigris))
set.seed(1); h <- rnorm(1e5)
for (dt in c("float64","float32")) { x <- as_gpu(h, dtype=dt, device="cuda"); hh <- as.vector(x)
 s <- sum(x); m <- mean(x); v <- var(x); d <- sd(x); mx <- max(x); mn <- min(x)
 z <- as.vector((x - m)/d); tol <- if (dt=="float64") 1e-12 else 1e-5
 stopifnot(all.equal(z, (hh-mean(hh))/sd(hh), tolerance=tol), all.equal(c(s,m,v,d,mx,mn), c(sum(hh),mean(hh),var(hh),sd(hh),max(hh),min(hh)), tolerance=tol), identical(attributes(s), NULL)) }
for (k in 1:6000) { keep <- sum(x); if (k %% 1000 == 0) stopifnot(abs(keep - sum(hh)) < 1e-3*abs(sum(hh))+1) }
l <- lapply(1:6000, function(k) sum(x)); stopifnot(length(unique(unlist(l))) == 1)
a <- sum(x); b <- a; names(b) <- "n"; gpu_compute(x * a); stopifnot(a == b, identical(names(b), "n"), is.null(names(a)))
n <- as_gpu(c(1,-1), device="cuda"); w <- NULL
r <- withCallingHandlers(sum(sqrt(n)) + 0, warning=function(c) {w <<- conditionMessage(c); invokeRestart("muffleWarning")}); print(list(r, w))
cat("deferred ok\n")
