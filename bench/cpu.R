# The cpu device compared with base R, operation by operation: which operations are slower, and by how much.
#
#   Rscript bench/cpu.R [--sizes=1e5,1e6,1e7] [--chain=1e3,1e4,1e5,1e6,1e7,1e8] [--only=PREFIX,...] [--seconds=0.15]
#   [--clock=wall|cpu] [--csv=OUT]
#
# Each case is one R function, called on ordinary vectors and on arrays. The results are compared first. Base R and the
# device are timed in turn, so that other load on the machine affects both, and the fastest repeat of each is taken.
# Arrays are computed in each repeat (gpu_compute()); results are dropped, as a loop drops them. The project's goal is
# that no operation is slower than 1.2 times base R from 1e5 elements on. Calls that touch few elements are listed
# separately.
#
# --clock=cpu takes the processor time of all threads (bench/clock.c) instead of elapsed time. It ignores the gain of
# two threads, but can be trusted where others use the machine: with RAYON_NUM_THREADS=1 it is the cost of the work on
# one core.
suppressPackageStartupMessages(library(verdigris))
options(warn = -1)

folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)[1L]))
source(file.path(folder, "options.R"))
sizes <- numbers(option("sizes", "1e5,1e6,1e7"))
chain_sizes <- numbers(option("chain", "1e3,1e4,1e5,1e6,1e7,1e8"))
only <- strsplit(option("only", ""), ",")[[1L]]
budget <- as.numeric(option("seconds", "0.15"))
csv <- option("csv", "")
clock <- match.arg(option("clock", "wall"), c("wall", "cpu"))
now <- if (clock == "cpu") processor_clock() else function() as.numeric(Sys.time())

# Operands of n elements: ordinary vectors, each with its array. x is any number, u in (0, 1), p positive.
operands <- function(n) {
  set.seed(1)
  x <- rnorm(n)
  side <- floor(sqrt(n))
  host <- list(
    x = x, y = rnorm(n), u = runif(n), p = x^2 + 0.1, big = 1 + x^2,
    i = sample.int(1000L, n, TRUE), j = sample.int(1000L, n, TRUE), l = x > 0, k = x > 1,
    z = complex(real = x, imaginary = rev(x)), at = sample.int(n), some = sort(sample.int(n, n %/% 10L)),
    few = 1:100 * 7L, up = cumsum(abs(x)), breaks = sort(rnorm(1000)), c = matrix(x[seq_len(n %/% 10L * 10L)],
      ncol = 10L),
    m = matrix(x[seq_len(side^2)], side), v = rnorm(side), a = array(x[seq_len(side^2 %/% 4 * 4)], c(4, side^2 %/% 4))
  )
  device <- lapply(host, as_gpu, device = "cpu")
  # of random numbers and samples the generators: their draws are others than base R's, and as many
  here <- function(f) function(...) f(..., device = "cpu")
  names <- c("runif", "rnorm", "rexp", "rgamma", "rchisq", "rbeta", "rt", "rbinom", "rpois", "rgeom", "rnbinom",
    "rlnorm", "rweibull", "rcauchy", "rlogis", "sample.int")
  host$draw <- sapply(names, get)
  device$draw <- sapply(names, function(name) here(get(sprintf("gpu_%s", sub(".", "_", name, fixed = TRUE)))))
  host$n <- device$n <- n
  list(host = host, device = device)
}

# What the chain takes of them, which is much longer.
pair <- function(n) {
  set.seed(1)
  host <- list(x = rnorm(n), y = rnorm(n))
  list(host = host, device = lapply(host, as_gpu, device = "cpu"))
}

# name = function of the operands; every name of the operation table is here, with reductions, casts and parts of arrays
cases <- c(
  sapply(c("+", "-", "*", "/", "^", "%%", "%/%", "==", "!=", "<", "<=", ">", ">="), function(r) {
    f <- get(r)
    list(xx = function(o) f(o$x, o$y), xs = function(o) f(o$x, 2), ii = function(o) f(o$i, o$j),
      si = function(o) f(2L, o$i), xi = function(o) f(o$x, o$i))
  }, simplify = FALSE),
  list(
    "^" = list(x2 = function(o) o$x^2, p05 = function(o) o$p^0.5, x3 = function(o) o$x^3),
    "&" = list(ll = function(o) o$l & o$k), "|" = list(ll = function(o) o$l | o$k), "!" = list(l = function(o) !o$l),
    neg = list(x = function(o) -o$x, i = function(o) -o$i), xor = list(ll = function(o) xor(o$l, o$k)),
    recycled = list(x = function(o) o$m + o$v, matrix = function(o) o$m * o$v),
    ifelse = list(xy = function(o) ifelse(o$l, o$x, o$y), scalar = function(o) ifelse(o$l, o$x, 0)),
    pmin = list(xy = function(o) pmin(o$x, o$y), ij = function(o) pmin(o$i, o$j)),
      pmax = list(xs = function(o) pmax(o$x, 0), na.rm = function(o) pmax(o$x, o$y, na.rm = TRUE)),
    complex = list(add = function(o) o$z + o$z, mul = function(o) o$z * o$z, div = function(o) o$z / (o$z + 1),
      exp = function(o) exp(o$z), sqrt = function(o) sqrt(o$z),
                   sum = function(o) sum(o$z), mean = function(o) mean(o$z), eq = function(o) o$z == o$z)
  ),
  sapply(c("is.na", "is.nan", "is.finite", "is.infinite"), function(r) { f <- get(r)
  list(x = function(o) f(o$x), i = function(o) f(o$i)) }, simplify = FALSE),
  sapply(c("abs", "sign", "exp", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "sinpi",
    "cospi", "tanpi",
           "floor", "ceiling", "trunc", "round"), function(r) { f <- get(r)
           list(x = function(o) f(o$x), i = function(o) f(o$i)) }, simplify = FALSE),
  sapply(c("sqrt", "log", "log2", "log10", "log1p", "gamma", "lgamma", "digamma", "trigamma"), function(r) {
    f <- get(r); list(p = function(o) f(o$p)) }, simplify = FALSE),
  sapply(c("asin", "acos", "atanh"), function(r) { f <- get(r); list(u = function(o) f(o$u)) }, simplify = FALSE),
  sapply(c("Re", "Im", "Mod", "Arg", "Conj"), function(r) { f <- get(r); list(z = function(o) f(o$z)) },
    simplify = FALSE),
  list(
    acosh = list(big = function(o) acosh(o$big)), log = list(base3 = function(o) log(o$p, 3)),
    round = list(digits = function(o) round(o$x, 2)), signif = list(x = function(o) signif(o$x, 3)),
    atan2 = list(xy = function(o) atan2(o$x, o$y)), beta = list(pp = function(o) beta(o$p, o$big)),
      lbeta = list(pp = function(o) lbeta(o$p, o$big)),
    choose = list(i = function(o) choose(o$i, 3L)), lchoose = list(i = function(o) lchoose(o$i, 3L)),
    dnorm = list(x = function(o) dnorm(o$x), log = function(o) dnorm(o$x, 1, 2, TRUE)),
    pnorm = list(x = function(o) pnorm(o$x), upper.log = function(o) pnorm(o$x, 0, 1, FALSE, TRUE)),
    qnorm = list(u = function(o) qnorm(o$u), upper.log = function(o) qnorm(-o$p, 0, 1, FALSE, TRUE))
  ),
  sapply(c("sum", "mean", "min", "max", "range", "var", "sd", "which.max", "which.min"), function(r) {
    f <- get(r)
    list(x = function(o) f(o$x), i = function(o) f(o$i))
  }, simplify = FALSE),
  list(
    sum = list(l = function(o) sum(o$l), na.rm = function(o) sum(o$x, na.rm = TRUE), expression = function(o)
      sum((o$x - o$y)^2)),
    mean = list(na.rm = function(o) mean(o$x, na.rm = TRUE)), prod = list(big = function(o) prod(o$big)),
    any = list(l = function(o) any(o$x > 100)), all = list(l = function(o) all(o$x < 100)),
    rowSums = list(m = function(o) rowSums(o$m), wide = function(o) rowSums(o$a)),
      colSums = list(m = function(o) colSums(o$m), wide = function(o) colSums(o$a)),
    rowMeans = list(m = function(o) rowMeans(o$m)), colMeans = list(m = function(o) colMeans(o$m), na.rm = function(o)
      colMeans(o$m, na.rm = TRUE)),
    cast = list(integer = function(o) as.integer(o$x), double = function(o) as.double(o$i), logical = function(o)
      as.logical(o$x), complex = function(o) as.complex(o$x)),
    index = list(gather = function(o) o$x[o$at], some = function(o) o$x[o$some], range = function(o)
      o$x[100:(length(o$x) - 100L)] + 0, mask = function(o) o$x[o$l], negative = function(o) o$x[-1L] + 0,
                 compared = function(o) o$x[o$x > 0], rows = function(o)
                   o$m[seq_len(nrow(o$m) %/% 2L), ] + 0, columns = function(o) o$m[, seq_len(ncol(o$m) %/% 2L)] + 0,
                 scattered = function(o) o$m[o$m[, 1L] > 0, ], integer = function(o) o$i[o$at]),
    assign = list(scalar = function(o) { x <- o$x; x[o$some] <- 0; x }, mask = function(o) { x <- o$x; x[o$l] <- 0; x },
      range = function(o) { x <- o$x; x[1:100] <- 1; x }),
    which = list(l = function(o) which(o$l)), rev = list(x = function(o) rev(o$x)),
      rep = list(x = function(o) rep(o$x, 2L)), c = list(xy = function(o) c(o$x, o$y)),
    t = list(m = function(o) t(o$m) + 0), aperm = list(m = function(o) aperm(o$m, 2:1) + 0),
      unique = list(i = function(o) unique(o$i), at = function(o) unique(o$at), x = function(o) unique(o$x)),
    duplicated = list(i = function(o) duplicated(o$i), x = function(o) duplicated(o$x)),
    match = list(i = function(o) match(o$i, o$few), at = function(o) match(o$at, o$some),
      x = function(o) match(o$x, o$y)), "%in%" = list(i = function(o) o$i %in% o$few),
    table = list(i = function(o) table(o$i), ij = function(o) table(o$i %% 16L, o$j %% 16L)),
      tabulate = list(i = function(o) tabulate(o$i, 1000L)),
    findInterval = list(x = function(o) findInterval(o$x, o$breaks)),
      cut = list(x = function(o) cut(o$x, c(-9, -1, 0, 1, 9))),
    rle = list(i = function(o) rle(o$i)$lengths), is.unsorted = list(x = function(o) is.unsorted(o$x),
      up = function(o) is.unsorted(o$up)),
    rank = list(x = function(o) rank(o$x), i = function(o) rank(o$i)),
    rowsum = list(x = function(o) rowsum(o$x, o$i), i = function(o) rowsum(o$j, o$i)),
    tapply = list(sum = function(o) tapply(o$x, o$i, sum), mean = function(o) tapply(o$x, o$i, mean), max = function(o)
      tapply(o$x, o$i, max)),
    ave = list(x = function(o) ave(o$x, o$i)),
      split = list(i = function(o) unlist(lapply(split(o$x, o$i), function(v) as.vector(v)))),
    head = list(x = function(o) head(o$x, o$n %/% 2L) + 0), append = list(xy = function(o) append(o$x, o$y, 5)),
      rep = list(each = function(o) rep(o$x, each = 2L)),
    cbind = list(xy = function(o) cbind(o$x, o$y), mm = function(o) cbind(o$m, o$m)),
      rbind = list(xy = function(o) rbind(o$x, o$y), mm = function(o) rbind(o$m, o$m)),
    outer = list(vv = function(o) outer(o$v, o$v)), kronecker = list(v = function(o) kronecker(o$v, t(o$v)) + 0),
      diag = list(v = function(o) diag(o$v)),
    row = list(m = function(o) row(o$m), col = function(o) col(o$m)), upper.tri = list(m = function(o) upper.tri(o$m)),
    sweep = list(m = function(o) sweep(o$m, 1L, o$v), columns = function(o) sweep(o$m, 2L, o$v)),
      scale = list(m = function(o) scale(o$m)),
    apply = list(sum = function(o) apply(o$m, 1L, sum), max = function(o) apply(o$m, 2L, max)),
      embed = list(x = function(o) embed(o$x, 3L) + 0),
    diff = list(x = function(o) diff(o$x)), filter = list(x = function(o) filter(o$x, rep(1 / 5, 5))),
    cumprod = list(x = function(o) cumprod(o$u)), cummax = list(x = function(o) cummax(o$x)),
    cov = list(m = function(o) cov(o$c), xy = function(o) cov(o$x, o$y)), cor = list(m = function(o) cor(o$c),
      spearman = function(o) cor(o$c, method = "spearman")),
    weighted.mean = list(x = function(o) weighted.mean(o$x, o$u)), dist = list(c = function(o) dist(o$c[1:300, ])),
      hist = list(x = function(o) hist(o$x, plot = FALSE)$counts),
    mad = list(x = function(o) mad(o$x)), fivenum = list(x = function(o) fivenum(o$x)),
      IQR = list(x = function(o) IQR(o$x)),
    sort = list(x = function(o) sort(o$x), decreasing = function(o) sort(o$x, decreasing = TRUE),
      i = function(o) sort(o$i)),
    order = list(x = function(o) order(o$x), i = function(o) order(o$i), ij = function(o) order(o$i, o$j)),
      cumsum = list(x = function(o) cumsum(o$x)),
    quantile = list(x = function(o) quantile(o$x), one = function(o) quantile(o$x, 0.5)),
      median = list(x = function(o) median(o$x)),
    matmul = list(mm = function(o) o$m %*% o$m, mv = function(o) o$m %*% o$v, tm = function(o) t(o$m) %*% o$v)
  )
)
# what else arrays are used for all day, and draws
cases <- c(cases, list(
  is.unsorted = list(end = function(o) is.unsorted(c(o$up, 0)), i = function(o) is.unsorted(o$i)),
  asplit = list(rows = function(o) asplit(o$m, 1L), columns = function(o) asplit(o$m, 2L)),
  approx = list(few = function(o) approx(o$few, o$few^2, o$u * 700)$y, many = function(o) approx(o$up, o$x,
    o$u * 1000)$y),
  density = list(x = function(o) density(o$x)$y), boxplot = list(x = function(o) boxplot(o$x, plot = FALSE)$stats),
  unsplit = list(i = function(o) unsplit(split(o$x, o$i), o$i)),
    aggregate = list(frame = function(o) aggregate(data.frame(x = o$x), list(i = o$i), sum)$x),
  dist = sapply(c("maximum", "manhattan", "canberra", "binary", "minkowski"), function(method) function(o)
    dist(o$c[1:300, ], method, p = 3)),
  filter = list(recursive = function(o) filter(o$x, 0.5, "recursive"), long = function(o) filter(o$x, rep(1 / 50, 50))),
  embed = list(m = function(o) embed(o$c, 3L) + 0), outer = list(plus = function(o) outer(o$v, o$v, "+")),
    kronecker = list(m = function(o) kronecker(o$c, diag(2)) + 0),
  quantile = sapply(paste0("type", 1:9), function(type) function(o) quantile(o$x, c(0.1, 0.5, 0.99),
    type = as.integer(substring(type, 5L)))),
  rank = sapply(c("first", "last", "max", "min"), function(ties) function(o) rank(o$i, ties.method = ties)),
  cumsum = list(i = function(o) cumsum(o$i)), cummin = list(i = function(o) cummin(o$i)),
    rowsum = list(m = function(o) rowsum(o$c, o$i[seq_len(nrow(o$c))])),
  table = list(x = function(o) table(round(o$x)), l = function(o) table(o$l)), var = list(m = function(o) var(o$c)),
    rev = list(i = function(o) rev(o$i)),
  order = list(decreasing = function(o) order(o$x, decreasing = TRUE), at = function(o) order(o$at),
    l = function(o) order(o$l)),
  sort = list(at = function(o) sort(o$at), l = function(o) sort(o$l), partial = function(o)
    sort(o$x, partial = 10L)[10L]),
  unlist = list(x = function(o) unlist(list(o$x, o$y))),
    Reduce = list(x = function(o) Reduce(`+`, list(o$x, o$y, o$u))),
    apply = list(mean = function(o) apply(o$m, 2L, mean), own = function(o) apply(o$m, 2L, function(v) sum(v^2))),
  scale = list(c = function(o) scale(o$c)), prop.table = list(m = function(o) prop.table(o$m, 1L)),
    aperm = list(a = function(o) aperm(array(o$x, c(10, 10, length(o$x) / 100)), c(3, 1, 2)) + 0),
  tcrossprod = list(v = function(o) tcrossprod(o$v)), crossprod = list(c = function(o) crossprod(o$c),
    x = function(o) crossprod(o$x, o$y)),
  lm = list(c = function(o) coef(lm.fit(o$c, o$c[, 1L] * 2))), summary = list(x = function(o) summary(o$x)),
    max.col = list(c = function(o) max.col(o$c, "first")), fft = list(x = function(o) fft(o$x)),
  as.integer = list(l = function(o) as.integer(o$l)),
  draw = list(
    unif = function(o) o$draw$runif(o$n), norm = function(o) o$draw$rnorm(o$n), exp = function(o)
      o$draw$rexp(o$n), gamma = function(o) o$draw$rgamma(o$n, 2), gamma.small = function(o)
      o$draw$rgamma(o$n, 0.5), chisq = function(o) o$draw$rchisq(o$n, 3),
    beta = function(o) o$draw$rbeta(o$n, 2, 3), t = function(o) o$draw$rt(o$n, 5), binom = function(o)
      o$draw$rbinom(o$n, 10, 0.3), binom.large = function(o) o$draw$rbinom(o$n, 1000, 0.5), binom.p = function(o)
      o$draw$rbinom(o$n, 1L, o$u),
    pois = function(o) o$draw$rpois(o$n, 3), pois.large = function(o) o$draw$rpois(o$n, 100), pois.p = function(o)
      o$draw$rpois(o$n, o$p), geom = function(o) o$draw$rgeom(o$n, 0.2), nbinom = function(o)
      o$draw$rnbinom(o$n, 3, 0.2),
    lnorm = function(o) o$draw$rlnorm(o$n), weibull = function(o) o$draw$rweibull(o$n, 2), cauchy = function(o)
      o$draw$rcauchy(o$n), logis = function(o) o$draw$rlogis(o$n),
    permutation = function(o) o$draw$sample.int(o$n), replaced = function(o)
      o$draw$sample.int(1000L, o$n, TRUE), weighted = function(o) o$draw$sample.int(100L, o$n, TRUE, 1:100),
      few = function(o) o$draw$sample.int(1000L * o$n, o$n), few.weighted = function(o)
      o$draw$sample.int(o$n, 100L, FALSE, o$p)
  )
))
# Calls that have to do with few elements, however long their operands: what they take is told, and is no part of the
# comparison.
few <- list(
  few.head = function(o) head(o$x, 10L) + 0, few.rows = function(o) o$m[1:10, ] + 0, few.columns = function(o)
    o$m[, 1:10] + 0, few.diag = function(o) diag(o$m) + 0,
  few.kronecker = function(o) kronecker(o$v, diag(1, 2)) + 0, few.solve = function(o) solve(crossprod(o$c[1:100, ]))
)
# what one list has under a name that another has too
flat <- c(unlist(lapply(split(cases, factor(names(cases), unique(names(cases)))), function(l) do.call(c, unname(l)))),
  few)

chain <- function(o) sqrt(o$x * o$x + o$y * o$y) * 2 - exp(-o$x) / (1 + abs(o$y))

computed <- function(value) if (is_gpu(value)) gpu_compute(value) else value
agree <- function(found, wanted, drawn = FALSE) {
  if (drawn) return(length(found) == length(wanted))
  if (is.list(wanted)) return(length(found) == length(wanted) && all(mapply(agree, found, wanted)))
  isTRUE(all.equal(as.vector(found), as.vector(wanted), tolerance = 1e-9, check.attributes = FALSE))
}

# Seconds of one call: on base R's vectors, and on the device. A repeat of little work is a batch of calls.
compare <- function(f, o) {
  time <- function(side, calls) {
    from <- now()
    for (k in seq_len(calls)) computed(f(side))
    (now() - from) / calls
  }
  least <- 5e-4
  once <- max(time(o$host, 1L), 1e-6)
  calls <- max(1L, min(1000L, as.integer(least / once)))
  spent <- 0
  base <- device <- numeric()
  while (length(base) < 5L || (spent < budget && length(base) < 200L)) {
    base <- c(base, time(o$host, calls))
    device <- c(device, time(o$device, calls))
    spent <- spent + (base[length(base)] + device[length(device)]) * calls
  }
  c(base = min(base), device = min(device))
}

rows <- NULL
run <- function(names, functions, n, o = operands(n)) {
  for (k in seq_along(names)) {
    f <- functions[[k]]
    wanted <- f(o$host)
    found <- tryCatch(f(o$device), error = function(e) conditionMessage(e))
    if (is.character(found) || !agree(found, wanted, startsWith(names[k], "draw."))) {
      cat(sprintf("%-22s %6g  WRONG: %s\n", names[k], n, if (is.character(found)) found else "not what base R gives"))
      next
    }
    rm(wanted, found)
    gc(FALSE)
    # a product of matrices costs more than its operands' size says
    t <- compare(f, o)
    rows <<- rbind(rows, data.frame(name = names[k], n = n, base_us = t[["base"]] * 1e6,
      device_us = t[["device"]] * 1e6, ratio = t[["device"]] / t[["base"]]))
    note <- if (names[k] %in% names(few)) "" else if (isTRUE(rows$ratio[nrow(rows)] > 1.2)) "SLOWER"
    if (!is.null(note)) cat(sprintf("%-22s %6g  base %11.1f us  device %11.1f us  %6.2f  %s\n", names[k], n,
      t[["base"]] * 1e6, t[["device"]] * 1e6, t[["device"]] / t[["base"]], note))
  }
}

wanted <- function(names) if (length(only)) Reduce(`|`, lapply(only, startsWith, x = names)) else
  rep(TRUE, length(names))
cat(sprintf("%s, %d cores\n", R.version.string, parallel::detectCores()))
for (n in chain_sizes) if (any(wanted("chain"))) {
  run("chain", list(chain), n, pair(n))
  last <- rows[nrow(rows), ]
  cat(sprintf("chain %10g elements: base %11.1f us  device %11.1f us  base / device %5.2f\n", n, last$base_us,
    last$device_us, 1 / last$ratio))
}
for (n in sizes) run(names(flat)[wanted(names(flat))], flat[wanted(names(flat))], n)
table <- rows[!rows$name %in% c("chain", names(few)), ]
if (NROW(table)) {
  cat(sprintf("%d comparisons, %d slower than 1.2 times base R; the middle one takes %.2f of base R's time\n",
    nrow(table), sum(table$ratio > 1.2), median(table$ratio)))
}
if (nzchar(csv)) write.csv(rows, csv, row.names = FALSE)
