# The functions of base and stats that take arrays, and where each computes: the table of ?verdigris-coverage.
#
# The arguments of calls are written by hand. The functions, and which of them take numbers, come from the keywords of
# R's help pages. The effect on an array is observed by calling the function, while the package counts the
# bytes that come to the host. The cpu device then runs as on a GPU, and leaves to base R only what a GPU would.
#
# Functions that the cpu device leaves to base R but a GPU may compute are called again on an emulated GPU
# (tests/emulator).
#
# usage: Rscript tools/test/coverage.R          writes inst/coverage.csv, the table of the help page; verdigris must be
#                                               in R_LIBS
#        Rscript tools/test/coverage.R FILE     saves the table of the cpu device alone, for a test

# Keywords of R's help under which functions of numbers stand.
KEYWORDS <- c("arith", "math", "array", "algebra", "univar", "multivariate", "distribution", "ts", "smooth",
  "nonlinear", "models", "regression", "htest", "manip", "logic", "iteration",
  "category", "cluster", "optimize", "design", "robust", "nonparametric", "complex", "hplot", "dplot", "loess",
    "datagen", "attribute", "classes", "print")
# Of the others these pages.
PAGES <- c("funprog", "sets", "toString", "identical", "summary", "do.call", "with", "stopifnot")
# Words of the language, and what would wait, draw without an end or change the session.
NO_CALLS <- c("for", "while", "repeat", "break", "next", "if", "function", "return", "else", "readline", "invisible",
  "oldClass<-", "class<-", "attributes<-", "mostattributes<-", "interactive", "Sys.time", "Sys.Date", "date",
  "file.choose", "RNGkind", "RNGversion", "set.seed", ".Random.seed")

# What stands for the data: a vector, another, probabilities, counts, logicals, complex numbers, matrices (tall, square,
# symmetric and positive), three dimensions, a series, groups (a factor), a small vector and a frame.
coverage_data <- function() {
  set.seed(8)
  n <- 4096L
  v <- round(stats::runif(n, 0.1, 4), 4)
  sq <- matrix(round(stats::rnorm(32 * 32), 3), 32L) + diag(20, 32L)
  list(v = v, w = round(v * 0.5 + stats::rnorm(n), 4), p = (sample.int(n) - 0.5) / n, k = sample.int(20L, n, TRUE),
    l = v > 2, z = complex(real = v, imaginary = rev(v)), m = matrix(v, 512L, 8L), s = sq, u = crossprod(sq),
    a = array(v, c(16L, 32L, 8L)),
    t = stats::ts(v, start = 2000, frequency = 12), b = v[1:32], c2 = matrix(c(12, 5, 7, 9), 2L))
}

# Calls of functions whose arguments are more than data. `g` is a factor, and stays on the host.
CALLS <- alist(
  Reduce = Reduce(`+`, list(v, w, v)), Filter = Filter(function(e) e > 1, v), Map = Map(`+`, list(v), list(w)),
    Find = Find(function(e) e > 1, v), Position = Position(function(e) e > 1, v), do.call = do.call("sum", list(v)),
    stopifnot = stopifnot(v > 0), with = with(data.frame(v = v), v * 2), within = within(data.frame(v = v), q <- v * 2),
  lapply = lapply(v, identity), sapply = sapply(v, function(e) e * 2), vapply = vapply(v, function(e) e * 2, 0),
    mapply = mapply(`+`, v, w), rapply = rapply(list(v), sum, how = "list"), tapply = tapply(v, g, sum),
    apply = apply(m, 1, max), sweep = sweep(m, 2, colMeans(m)), outer = outer(b, b), aggregate = aggregate(v, list(g),
    sum), ave = ave(v, g), by = by(v, g, sum), split = split(v, g), unsplit = unsplit(split(v, g), g),
    "split<-" = `split<-`(v, g, value = list(1, 2, 3, 4)), rowsum = rowsum(v, g),
    merge = merge(data.frame(k = k[1:20], v = v[1:20]), data.frame(k = k[1:20])),
  array = array(v, c(2, 2048)), matrix = matrix(v, 2), rep = rep(v, 2), rep_len = rep_len(v, 9000),
    rep.int = rep.int(v, 2), replace = replace(v, 3, 0), append = append(v, w), cut = cut(v, c(0, 1, 4)),
    findInterval = findInterval(v, c(0, 1, 2)), .bincode = .bincode(v, c(0, 1, 4)), factor = factor(k),
    interaction = interaction(l, k), gl = gl(2, 3), table = table(k), tabulate = tabulate(k), xtabs = xtabs(v ~ g),
    ftable = ftable(l, k), quantile = quantile(v, 0.3), ifelse = ifelse(l, v, w), which = which(l), "[" = v[5:4000],
    "[<-" = `[<-`(v, 3, 1), "[[" = v[[5]], "[[<-" = `[[<-`(v, 5, 1), "$" = v$a, "dim<-" = `dim<-`(v, c(2L, 2048L)),
    "names<-" = `names<-`(v, seq_along(v)), "dimnames<-" = `dimnames<-`(m, list(NULL, letters[1:8])),
    "diag<-" = `diag<-`(s, 1), "levels<-" = `levels<-`(k, "a"), "is.na<-" = `is.na<-`(v, 2), "body<-" = NULL,
    "length<-" = `length<-`(v, 10L), "attr<-" = `attr<-`(v, "note", 1), "storage.mode<-" = `storage.mode<-`(k,
    "double"), "mode<-" = `mode<-`(k, "numeric"), "units<-" = NULL, "tsp<-" = `tsp<-`(v, c(1, 4096, 1)),
    "contrasts<-" = NULL, "rownames<-" = `rownames<-`(m, 1:512), "colnames<-" = `colnames<-`(m, letters[1:8]),
    "row.names<-" = NULL, "substring<-" = NULL, "substr<-" = NULL, "regmatches<-" = NULL,
  attr = attr(m, "dim"), isa = isa(v, "numeric"), getElement = NULL, structure = structure(v, note = 1),
    inherits = inherits(v, "numeric"), bitwAnd = bitwAnd(k, 3L), bitwOr = bitwOr(k, 3L), bitwXor = bitwXor(k, 3L),
    bitwShiftL = bitwShiftL(k, 2L), bitwShiftR = bitwShiftR(k, 1L), xor = xor(l, rev(l)), `!` = !l, `&` = l & l,
    `|` = l | l, `&&` = v[1] > 0 && TRUE, `||` = v[1] > 0 || TRUE, any = any(l), all = all(l), isTRUE = isTRUE(l),
    isFALSE = isFALSE(l), `%*%` = m %*% t(m), crossprod = crossprod(m), tcrossprod = tcrossprod(m), solve = solve(s, b),
    qr.coef = qr.coef(qr(m), v[1:512]), qr.fitted = qr.fitted(qr(m), v[1:512]), qr.resid = qr.resid(qr(m), v[1:512]),
    qr.qy = qr.qy(qr(m), v[1:512]), qr.qty = qr.qty(qr(m), v[1:512]), qr.solve = qr.solve(m, v[1:512]),
    qr.Q = qr.Q(qr(m)), qr.R = qr.R(qr(m)), qr.X = qr.X(qr(m)), qr = qr(m)$rank, is.qr = is.qr(qr(m)),
    backsolve = backsolve(chol(u), b), forwardsolve = forwardsolve(t(chol(u)), b), chol = chol(u),
    chol2inv = chol2inv(chol(u)), eigen = eigen(u)$values, svd = svd(m)$d, La.svd = La.svd(m)$d, det = det(s),
    determinant = determinant(s), rcond = rcond(s), kappa = kappa(s), norm = norm(m), isSymmetric = isSymmetric(u),
    kronecker = kronecker(b, t(b)), `%x%` = b %x% t(b), `%o%` = b %o% b, diag = diag(s), aperm = aperm(a),
    asplit = asplit(m, 1), slice.index = slice.index(a, 2), scale = scale(m), max.col = max.col(m, "first"),
    arrayInd = arrayInd(which(l), 4096), drop = drop(m), rowSums = rowSums(m), colSums = colSums(m),
    rowMeans = rowMeans(m), colMeans = colMeans(m), cbind = cbind(v, w), rbind = rbind(v, w), c = c(v, w),
    unlist = unlist(list(v, w)), rle = rle(k), inverse.rle = inverse.rle(rle(k)), duplicated = duplicated(k),
    unique = unique(k), rev = rev(v), sort = sort(v), order = order(v), rank = rank(v), seq_len = seq_len(v[1]),
    seq.int = seq.int(v[1], 9), seq = seq(v[1], 9), `:` = v[1]:9, sequence = sequence(k), trunc = trunc(v),
    round = round(v, 1), signif = signif(v, 2), log = log(v, 2), complex = complex(real = v, imaginary = w), Re = Re(z),
    Im = Im(z), Mod = Mod(z), Arg = Arg(z), Conj = Conj(z), is.element = is.element(2, k), setdiff = setdiff(k, 1:3),
    union = union(k, 1:3), intersect = intersect(k, 1:3), setequal = setequal(k, k), match = match(k, 1:3),
    `%in%` = k %in% 1:3, Vectorize = Vectorize(function(a, b) a + b)(v, w), rowSums = rowSums(m), emptyenv = NULL,
    transform = transform(data.frame(v = v), q = v * 2), subset = subset(v, v > 1), stack = NULL,
    expand.grid = expand.grid(b, 1:2), nlevels = nlevels(v), droplevels = NULL, ordered = ordered(k),
    prettyNum = prettyNum(v), format = format(v), formatC = formatC(v), toString = toString(b),
    sprintf = sprintf("%.2f", v), cat = cat(v), print = print(v), is.na = is.na(v), anyNA = anyNA(v),
    trigamma = trigamma(v), choose = choose(k, 2), lchoose = lchoose(k, 2), atan2 = atan2(v, w),
    beta = beta(v, v), jitter = length(jitter(v)),
    sample = length(sample(v, 10)), sample.int = length(sample.int(10)),
  # stats
  lm = lm(w ~ v)$coefficients, glm = glm(l ~ v, family = binomial())$coefficients, aov = aov(v ~ g)$coefficients,
    nls = coef(nls(w ~ q * v + r, start = list(q = 1, r = 0))), loess = loess(w ~ v)$fitted, lowess = lowess(v, w)$y,
    predict = predict(lm(w ~ v)), anova = anova(lm(w ~ v))[["F value"]], residuals = residuals(lm(w ~ v)),
    fitted = fitted(lm(w ~ v)), coef = coef(lm(w ~ v)), model.matrix = model.matrix(~ v + w),
    model.frame = model.frame(w ~ v)$w, lm.fit = lm.fit(m, v[1:512])$coefficients,
    lm.wfit = lm.wfit(m, v[1:512], v[1:512])$coefficients, glm.fit = glm.fit(m, v[1:512])$coefficients,
    lsfit = lsfit(m, v[1:512])$coefficients, ls.diag = NULL, prcomp = prcomp(m)$sdev, princomp = princomp(m)$sdev,
    factanal = factanal(m, 1)$uniquenesses, cancor = cancor(m[, 1:3], m[, 4:8])$cor,
    optim = optim(b, function(x) sum((x - 1)^2), method = "BFGS")$convergence,
    optimize = optimize(function(x) sum((v - x)^2), c(0, 4))$minimum, optimise = optimise(function(x) sum((v - x)^2),
    c(0, 4))$minimum, nlm = nlm(function(x) sum((x - 1)^2), b)$code, nlminb = nlminb(b, function(x)
    sum((x - 1)^2))$convergence, constrOptim = constrOptim(b[1:2], function(x)
    sum((x - 1)^2), NULL, diag(2), c(0, 0))$value, uniroot = uniroot(function(x) sum(v - x), c(0, 4))$root,
    integrate = integrate(function(x) x * sum(v), 0, 1)$value, polyroot = polyroot(b),
    optimHess = optimHess(b[1:3], function(x) sum(x^2)), D = NULL, deriv = NULL, numericDeriv = NULL,
  t.test = t.test(v, w)$p.value, wilcox.test = wilcox.test(v, w)$p.value, var.test = var.test(v, w)$p.value,
    ks.test = ks.test(v, w, exact = FALSE)$p.value, cor.test = cor.test(v, w)$p.value,
    chisq.test = chisq.test(c2)$p.value, fisher.test = fisher.test(round(c2))$p.value,
    shapiro.test = shapiro.test(v)$p.value, kruskal.test = kruskal.test(v, g)$p.value, bartlett.test = bartlett.test(v,
    g)$p.value, fligner.test = fligner.test(v, g)$p.value, ansari.test = ansari.test(v, w)$p.value,
    mood.test = mood.test(v, w)$p.value, oneway.test = oneway.test(v ~ g)$p.value,
    friedman.test = friedman.test(m)$p.value, quade.test = quade.test(m)$p.value,
    mcnemar.test = mcnemar.test(c2)$p.value, mantelhaen.test = NULL, prop.test = prop.test(k[1:4], rep(30, 4))$p.value,
    binom.test = binom.test(k[1:2])$p.value, poisson.test = poisson.test(k[1], 10)$p.value,
    Box.test = Box.test(v)$p.value, PP.test = PP.test(v)$p.value, power.t.test = power.t.test(n = 20,
    delta = v[1])$power, power.prop.test = NULL, pairwise.t.test = pairwise.t.test(v, g)$p.value,
    pairwise.wilcox.test = pairwise.wilcox.test(v, g)$p.value, p.adjust = p.adjust(p), TukeyHSD = NULL,
    mauchly.test = NULL,
  approx = approx(v, w, xout = 1:3)$y, approxfun = approxfun(v, w)(1:3), spline = spline(sort(v)[1:50], w[1:50],
    n = 5)$y, splinefun = splinefun(1:50, w[1:50])(1:3), smooth.spline = smooth.spline(v, w)$df, smooth = smooth(v),
    runmed = runmed(v, 5), smoothEnds = smoothEnds(v), ksmooth = ksmooth(v, w, "normal", 0.5, n.points = 5)$y,
    supsmu = supsmu(v, w)$y, ppr = ppr(m, v[1:512], nterms = 1)$gofn,
    medpolish = medpolish(m, trace.iter = FALSE)$overall, line = line(v, w)$coefficients, isoreg = isoreg(v)$yf,
    scatter.smooth = NULL, density = density(v)$y, ecdf = ecdf(v)(1:3), stepfun = stepfun(1:32, c(0, b))(1:3),
    knots = NULL, filter = filter(v, c(1, 2)), embed = embed(v, 2), convolve = convolve(v, c(1, 2), type = "o"),
    fft = fft(v), mvfft = mvfft(m), spec.pgram = spec.pgram(v, plot = FALSE)$spec,
    spec.ar = spec.ar(v, plot = FALSE)$method, spectrum = spectrum(v, plot = FALSE)$spec, spec.taper = spec.taper(v),
    acf = acf(v, plot = FALSE)$acf, pacf = pacf(v, plot = FALSE)$acf, ccf = ccf(v, w, plot = FALSE)$acf,
    ar = ar(v)$order, arima = arima(v, c(1, 0, 0))$coef, arima0 = arima0(v, c(1, 0, 0))$coef,
    HoltWinters = HoltWinters(t)$alpha, StructTS = StructTS(v[1:60], "level")$coef, stl = stl(t, "per")$time.series,
    decompose = decompose(t)$trend, diffinv = diffinv(v), diff = diff(v), lag = lag(t, 1),
    window = window(t, 2001, 2300), time = time(t), cycle = cycle(t), tsp = tsp(t), start = start(t), end = end(t),
    frequency = frequency(t), deltat = deltat(t), ts = ts(v), as.ts = as.ts(v), is.ts = is.ts(t), ts.union = NULL,
    ts.intersect = NULL, cpgram = NULL, lag.plot = NULL, monthplot = NULL, tsdiag = NULL, KalmanLike = NULL,
    kernapply = kernapply(v, kernel("daniell", 2)), monthplot = NULL, toeplitz = toeplitz(b), cov = cov(m),
    cor = cor(m), cov.wt = cov.wt(m)$cov, cov2cor = cov2cor(u), mahalanobis = mahalanobis(m, colMeans(m), diag(8)),
    dist = dist(m[1:50, ]), as.dist = as.dist(u), cmdscale = cmdscale(dist(m[1:20, ])),
    hclust = hclust(dist(m[1:20, ]))$height, kmeans = kmeans(m, m[1:3, ])$size, cutree = cutree(hclust(dist(m[1:20, ])),
    3), biplot = NULL, heatmap = NULL, screeplot = NULL, weighted.mean = weighted.mean(v, w), mad = mad(v),
    IQR = IQR(v), fivenum = fivenum(v), median = median(v), var = var(v), sd = sd(v), addmargins = addmargins(m),
    complete.cases = complete.cases(v), na.omit = na.omit(v), poly = poly(v, 2), polym = polym(v, w, degree = 1),
    model.tables = NULL, reorder = reorder(g, v), relevel = NULL, reshape = NULL, qqnorm = qqnorm(v, plot.it = FALSE)$x,
    ppoints = ppoints(v), qqline = NULL, qqplot = qqplot(v, w, plot.it = FALSE)$y, interaction.plot = NULL,
    termplot = NULL, ecdf = ecdf(v)(1:3), dmultinom = dmultinom(k[1:3], prob = v[1:3]), rmultinom = NULL,
    r2dtable = NULL, simulate = NULL, loglin = loglin(m, list(1, 2), print = FALSE)$df, expand.model.frame = NULL,
    contr.poly = NULL, sortedXyData = sortedXyData(v, w)$y, selfStart = NULL, nextn = nextn(k),
    setNames = setNames(v, seq_along(v)), fisher.test = fisher.test(round(c2))$p.value, weighted.residuals = NULL,
    influence = influence(lm(w ~ v))$hat, hat = hat(m), hatvalues = hatvalues(lm(w ~ v)),
    cooks.distance = cooks.distance(lm(w ~ v)), confint = confint(lm(w ~ v)), vcov = vcov(lm(w ~ v)),
    AIC = AIC(lm(w ~ v)), BIC = BIC(lm(w ~ v)), logLik = as.numeric(logLik(lm(w ~ v))), deviance = deviance(lm(w ~ v)),
    residuals.lm = NULL, bw.nrd0 = bw.nrd0(v), bw.SJ = bw.SJ(v), dist = dist(m[1:50, ]),
    ARMAacf = ARMAacf(v[1:2] / 10, lag.max = 4), ARMAtoMA = ARMAtoMA(v[1:2], lag.max = 4),
    splinefunH = splinefunH(1:32, b, b)(1:3), varimax = varimax(m)$rotmat, promax = NULL, ptukey = ptukey(v, 3, 10),
    qtukey = qtukey(p[1:64], 3, 10), psignrank = psignrank(k, 20), qsignrank = qsignrank(p, 20),
    dsignrank = dsignrank(k, 20), pwilcox = pwilcox(k, 5, 6), dwilcox = dwilcox(k, 5, 6), qwilcox = qwilcox(p, 5, 6),
    pbirthday = NULL, qbirthday = NULL, dhyper = dhyper(k, 20, 10, 10), phyper = phyper(k, 20, 10, 10),
    qhyper = qhyper(p, 20, 10, 10)
)

# ---- which functions ---------------------------------------------------------------------------------

# Functions of a package that stand under the keywords and are not themselves methods.
numeric_functions <- function(package) {
  pages <- tools::Rd_db(package)
  parts <- function(page, tag)
    trimws(vapply(page[vapply(page, attr, "", "Rd_tag") == tag], function(p) paste(unlist(p), collapse = ""), ""))
  wanted <- vapply(pages, function(page) any(parts(page, "\\keyword") %in% KEYWORDS), NA) | sub("[.]Rd$", "",
    names(pages)) %in% PAGES
  # what has no use any more has a page of its own
  gone <- paste0(package, c("-defunct.Rd", "-deprecated.Rd", "-internal.Rd"))
  names <- intersect(unlist(lapply(pages[wanted & !names(pages) %in% gone], parts, "\\alias")),
    getNamespaceExports(package))
  home <- asNamespace(package)
  names <- Filter(function(name) is.function(get(name, home)), setdiff(names, NO_CALLS))
  no_methods <- tools::nonS3methods(package)
  methods <- vapply(names, function(name) !name %in% no_methods &&
    isTRUE(tryCatch(utils::isS3method(name, envir = home), error = function(e) FALSE)), NA)
  sort(names[!methods &
    !grepl("^[.][A-Za-z_]|[.]default$|[.](Date|POSIXct|POSIXlt|difftime|data.frame|factor|noquote)$", names) |
    names == ".bincode"], method = "radix")
}

# Calls to try: that of CALLS, else one with the data alone, or with further arguments.
calls_of <- function(name, package) {
  if (name %in% names(CALLS)) return(Filter(is.language, CALLS[name]))
  f <- get(name, asNamespace(package))
  wanted <- names(formals(args(f) %||% f))
  # functions of probabilities want them
  first <- if (grepl("^q", name) && package == "stats" && identical(wanted[1L], "p")) "p" else c("v", "m", "u", "z",
    "k", "l", "g")
  first <- setdiff(first, "g")
  calls <- lapply(first, function(x) call(name, as.name(x)))
  two <- list(call(name, quote(v), quote(w)), call(name, quote(v), 2), call(name, quote(m), quote(m)))
  more <- lapply(list(2, c(2, 3), c(2, 3, 4)), function(k) as.call(c(as.name(name), as.name(first[1L]), as.list(k))))
  c(calls, if (length(first) == 1L) NULL else two, more)
}
`%||%` <- function(a, b) if (is.null(a)) b else a

# ---- what each does ----------------------------------------------------------------------------------

quietly <- function(expr) {
  out <- NULL
  utils::capture.output(out <- suppressMessages(suppressWarnings(tryCatch(expr, error = identity))))
  out
}

# The numbers of a result, for comparison.
bare <- function(x) {
  if (is.list(x)) return(rapply(lapply(x, identity), function(e) bare(e), how = "list"))
  if (inherits(x, "gpu_array")) x <- verdigris::collect(x)
  if (is.numeric(x) || is.logical(x) || is.complex(x)) as.vector(unclass(x)) else
    if (is.function(x) || is.language(x) || is.environment(x)) NULL else as.vector(x)
}

# One function: NULL where it is not about numbers, else a row. Each call has arrays of its own: one that was read keeps
# what came to the host.
cover <- function(name, package, host, device) {
  here <- function(data) list2env(data, parent = globalenv())
  for (call in calls_of(name, package)) {
    set.seed(1)
    want <- quietly(eval(call, here(host)))
    if (inherits(want, "error")) next
    used <- Filter(function(x) !is.factor(host[[x]]), intersect(all.vars(call), names(host)))
    if (!length(used)) return(NULL)
    bytes <- sum(vapply(host[used], function(x) length(x) * switch(typeof(x), double = 8, integer = 4, logical = 1, 16),
      0))
    mixed <- host
    mixed[used] <- lapply(host[used], verdigris::as_gpu, device = device)
    set.seed(1)
    before <- .Call(verdigris:::C_counters)[[3L]]
    got <- quietly(eval(call, here(mixed)))
    down <- .Call(verdigris:::C_counters)[[3L]] - before
    array <- inherits(got, "gpu_array") && .Call(verdigris:::C_is_array, got)
    by <- by_whom(name, package)
    # a result that is an ordinary vector has to come
    if (by != "base R" && !array && !is.character(got)) down <- down - as.numeric(utils::object.size(got))
    where <- if (inherits(got, "error")) "refused" else if (down >= bytes / 2) "host" else "device"
    note <- if (where == "refused") sub("\n.*", "", conditionMessage(got)) else
      if (!isTRUE(all.equal(bare(got), bare(want), tolerance = 1e-6))) "another value" else ""
    result <- if (where == "refused") "" else if (array) "array" else "R"
    return(data.frame(name = name, package = package, where = where, result = result, by = by,
      call = paste(deparse(call, width.cutoff = 500L), collapse = " "), note = note))
  }
  NULL
}

# How the function comes to serve arrays.
by_whom <- function(name, package) {
  ours <- asNamespace("verdigris")
  if (exists(name, ours, inherits = FALSE) && is.function(f <- get(name, ours))) {
    if (verdigris:::is_interposed(f)) return("interposed")
    if (methods::is(f, "standardGeneric") || methods::isGeneric(name, ours))
      return(if (methods::existsMethod(name, "gpu_array") ||
      length(grep("gpu_array", names(methods::findMethods(name))))) "S4 method" else "base R")
    if (name %in% getNamespaceExports("verdigris")) return("function")
  }
  for (home in list(asNamespace(package), baseenv()))
    if (!is.null(utils::getS3method(name, "gpu_array", optional = TRUE, envir = home))) return("S3 method")
  if (exists(paste0(name, ".gpu_array"), envir = get(".__S3MethodsTable__.",
    envir = if (package == "base") baseenv() else asNamespace(package)), inherits = FALSE)) return("S3 method")
  "base R"
}

# The rows of these functions, or of all.
coverage <- function(device = "cpu", only = NULL) {
  options(verdigris.host_access = "allow", warn = -1)
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  settings <- verdigris:::settings
  settings$force_device_path <- TRUE
  on.exit(settings$force_device_path <- FALSE, add = TRUE)
  data <- c(coverage_data(), list(g = factor(rep_len(c("a", "c", "b", "c", "d"), 4096L))))
  rows <- lapply(c("base", "stats"), function(package) {
    names <- numeric_functions(package)
    if (!is.null(only)) names <- intersect(names, only)
    do.call(rbind, lapply(names, cover, package, data, device))
  })
  found <- do.call(rbind, rows)
  rownames(found) <- NULL
  found
}

# Functions of ours that the cpu device hands to base R, which runs LAPACK and BLAS: a GPU may have libraries for them.
library_functions <- function(found) found$name[found$where == "host" & found$by != "base R"]

if (sys.nframe() == 0L) {
  suppressPackageStartupMessages(library(verdigris))
  arguments <- commandArgs(TRUE)
  if (length(arguments) == 1L) {
    saveRDS(coverage(), arguments)
  } else if (length(arguments) == 2L) {
    # called by itself, on the emulated GPU
    saveRDS(coverage("cuda", readLines(arguments[1L])), arguments[2L])
  } else {
    found <- coverage()
    files <- tempfile(c("names", "rows"))
    writeLines(library_functions(found), files[1L])
    if (system2("tools/test/emulator.sh", c("Rscript", "tools/test/coverage.R", files)) != 0L)
      stop("the emulated GPU did not run")
    there <- readRDS(files[2L])
    at <- match(there$name, found$name)
    # where a GPU fails and the cpu does not is a matter for the tests
    better <- there$where == "device" & there$note == ""
    found[at[better], c("where", "result")] <- there[better, c("where", "result")]
    utils::write.csv(found, "inst/coverage.csv", row.names = FALSE)
    print(table(found$where, found$package))
    print(there[!better, c("name", "where", "note")])
  }
}
