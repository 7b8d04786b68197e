# Plots of arrays. Points that would be drawn on the same pixel are dropped on the device, before anything is copied to
# the host.
#
# A plot has far fewer pixels than a large array has elements. Points are assigned to cells of one pixel on the array's
# device, and only the last point of each cell is fetched, which base R would draw on top. The first, last, least and
# greatest value in each column of pixels draw the same line as all values (Jugel, Jerzak, Hackenbroich and Markl, M4: A
# Visualization-Oriented Time Series Data Aggregation, VLDB 2014).

# Arrays up to this size are fetched completely.
DRAWN_WHOLE <- 10000L

# The number of columns and rows of dots in the plot region; for a device without dots (pdf) at the resolution of a
# printer. Small symbols need smaller cells, since the one point kept in a cell may fall on the neighbouring dot.
dots <- function(panels = 1, pch = NULL, cex = NULL) {
  small <- "." %in% pch || is.numeric(cex) && any(cex < 0.4)
  resolution <- max(96, grDevices::dev.size("px") / grDevices::dev.size("in")) * (if (small) 2.5 else 1)
  pmax(16, ceiling(graphics::par("pin") * resolution / panels))
}

# The cell of each element, from 0 to n - 1, between two limits; below 0 or at least n for elements outside. The cells
# extend beyond the limits by `margin`: base R adds 4% on both sides, and symbols reach into the plot from outside.
cells <- function(x, limits, n, logarithmic = FALSE, margin = 0.08) {
  if (logarithmic) {
    x <- log10(x)
    limits <- log10(limits)
  }
  limits <- sort(limits) + c(-margin, margin) * abs(limits[2L] - limits[1L])
  width <- limits[2L] - limits[1L]
  if (!is.finite(width) || width == 0) return(0 * x)
  # so that the greatest element falls into the last cell
  floor((x - limits[1L]) * ((n - 1e-6) / width))
}

# The positions of the visible points in increasing order, as an ordinary vector.
seen <- function(x, y, xlim, ylim, grid, log = "") {
  across <- cells(x, xlim, grid[1L], grepl("x", log))
  up <- cells(y, ylim, grid[2L], grepl("y", log))
  inside <- across >= 0 & across < grid[1L] & up >= 0 & up < grid[2L] # missing points are not inside
  cell <- ifelse(inside & !is.na(inside), across + grid[1L] * up + 2, 1)
  n <- length(x)
  device <- gpu_device(x)
  zero <- if (n <= .Machine$integer.max) 0L else 0
  last <- gpu_full(zero, prod(grid) + 1, device = device)
  # Of equal subscripts the last assignment wins.
  last[cell] <- gpu_seq(zero + 1L, by = 1L, length.out = n, device = device)
  last[1L] <- zero
  sort(as.vector(last[last > 0L]))
}

# For a line along increasing x, the points that draw the same line. NULL if x is not increasing or elements are
# missing.
outline <- function(x, y, xlim, columns, logarithmic = FALSE) {
  if (anyNA(x) || anyNA(y) || unsorted_on_device(x)) return(NULL)
  column <- gpu_cast(cells(x, xlim, columns, logarithmic), "int32")
  column <- pmin(pmax(column, -1L), columns)
  parts <- lapply(c("first", "min", "max", "last"), function(f) as.vector(gpu_group(y, column, f)))
  places <- lapply(c("first", "last"), function(f) as.vector(gpu_group(x, column, f)))
  middle <- (places[[1L]] + places[[2L]]) / 2
  list(x = as.vector(base::rbind(places[[1L]], middle, middle, places[[2L]])),
    y = as.vector(do.call(base::rbind, parts)))
}

# A host copy of an array that is drawn completely. For an array too large for that it counts as a read.
drawn <- function(x) host_copy(x, silent = is_drawn_whole(x))
is_drawn_whole <- function(x) length(x) <= 1e6

unsorted_on_device <- function(x) {
  n <- length(x)
  n > 1L && any(x[-1L] < x[-n])
}

# The coordinates of a plot of x, or of x and y: arrays of one length, and axis labels. NULL for arguments that base R
# handles.
coordinates <- function(x, y, xname, yname) {
  if (is.complex(x) || !is.null(attr(x, "tsp")) || is.null(y) && length(dim(x)) == 2L && ncol(x) != 2L ||
    length(dim(x)) > 2L) return(NULL)
  if (is.null(y) && length(dim(x)) == 2L) {
    names <- colnames(x) %||% paste0(xname, "[,", 1:2, "]")
    return(list(x = strip(x[, 1L]), y = strip(x[, 2L]), xlab = names[1L], ylab = names[2L]))
  }
  if (is.null(y)) return(list(x = gpu_seq(1, by = 1, length.out = length(x), device = gpu_device(x)), y = strip(x),
    xlab = "Index", ylab = xname))
  if (!is_number(y) || is.complex(y) || length(y) != length(x)) return(NULL)
  on_device <- function(v)
    if (is_gpu(v)) strip(v) else as_gpu(as.vector(v), device = gpu_device(if (is_gpu(x)) x else y))
  list(x = on_device(x), y = on_device(y), xlab = xname, ylab = yname)
}

# Graphical parameters with one value for each point, for the points that are kept.
of_points <- function(arguments, kept) {
  for (name in intersect(names(arguments), c("col", "bg", "pch", "cex", "lwd"))) {
    v <- arguments[[name]]
    if (length(v) > 1L) arguments[[name]] <- drawn(v[(kept - 1) %% length(v) + 1])
  }
  arguments
}

# The points to draw as ordinary vectors, with the matching graphical parameters.
thinned <- function(at, type, xlim, ylim, log, arguments) {
  grid <- dots(pch = arguments$pch, cex = arguments$cex)
  if (length(at$x) <= DRAWN_WHOLE)
    return(c(list(x = as.vector(at$x), y = as.vector(at$y)), lapply(arguments, drawn)))
  if (type == "p") {
    kept <- seen(at$x, at$y, xlim, ylim, grid, log)
    return(c(list(x = as.vector(at$x[kept]), y = as.vector(at$y[kept])), of_points(arguments, kept)))
  }
  # Columns are half a dot wide, so that a line never skips a column of dots.
  line <- if (type == "l") outline(at$x, at$y, xlim, 2 * grid[1L], grepl("x", log))
  c(line %||% list(x = as.vector(at$x), y = as.vector(at$y)), lapply(arguments, drawn))
}

limits_of <- function(x, log = "", axis = "x") {
  x <- x[is.finite(x)]
  if (grepl(axis, log)) x <- x[x > 0]
  if (length(x)) as.double(range(x)) else c(0, 1)
}

#' Plots
#'
#' Methods of base R's plots for arrays. An array of more than 10,000 elements is thinned on its device, and only the
#' following elements are fetched and drawn: for points, the last point on each pixel; for a line, the first, last,
#' smallest and largest value in each column of pixels; for an image, the cell under each pixel; for the outliers of a
#' box plot, one on each pixel. So the amount of data fetched depends on the size of the picture, not on the number of
#' points. The picture looks like base R's, except that semi-transparent points (`col = "#00000010"`) are lighter, since
#' each pixel is drawn once. For such plots count the points per cell by `table()` and show the counts by `image()`.
#'
#' A million points, drawn by base R (left) and thinned (right); `tools/doc/thinning.R` makes the pictures:
#'
#' \if{html}{\figure{thinning.png}{options: width="640" alt="Two scatter plots that look the same."}}
#'
#' Lines are thinned if `x` is increasing and nothing is missing. Time series, complex numbers, and arrays plotted with
#' a `type` other than `"p"` and `"l"` are fetched completely. `pairs()` draws, in all panels, every point that one of
#' its panels needs. `density()` bins the elements on base R's grid on the device.
#' @param x,y,height Arrays; `y` may be an ordinary vector, or missing.
#' @param type,xlim,ylim,log,xlab,ylab,... As in [graphics::plot.default()]. A colour or symbol given for each point is
#'   used for the points that are drawn.
#' @param z,zlim As in [graphics::image()].
#' @param range,names,plot,outline,pars As in [graphics::boxplot()].
#' @param bw,adjust,n,from,to,cut,na.rm As in [stats::density()].
#' @returns As in base R: `boxplot()` returns the statistics, `barplot()` the midpoints, `density()` an object of class
#'   `density`; the others return `NULL`, invisibly.
#' @section Errors:
#' Base R's errors and messages.
#' @examples
#' x <- gpu_rnorm(20000, device = "cpu")
#' y <- x + gpu_rnorm(20000, device = "cpu")
#' plot(x, y)
#' points(x, y, pch = ".", col = "red")
#' plot(cumsum(x), type = "l")
#' boxplot(x, y, names = c("x", "y"))
#' image(matrix(x, 100))
#' plot(density(x))
#' @name plots
NULL

#' @rdname plots
#' @export
plot.gpu_array <- function(x, y = NULL, type = "p", xlim = NULL, ylim = NULL, log = "", xlab = NULL, ylab = NULL, ...) {
  xname <- deparse1(substitute(x))
  yname <- deparse1(substitute(y))
  at <- coordinates(x, y, xname, yname)
  given <- list(xlim = drawn(xlim), ylim = drawn(ylim), log = log, ...)
  if (is.null(at)) {
    # A time series is plotted by base R, with the axis of a series.
    series <- !is.null(attr(x, "tsp")) && is.null(y)
    given$xlab <- xlab %||% (if (series) "Time" else if (!is.null(y)) xname)
    given$ylab <- ylab %||% (if (is.null(y)) xname else yname)
    if (!missing(type)) given$type <- type
    shown <- if (series) host_series(x, silent = is_drawn_whole(x)) else drawn(x)
    return(invisible(call_by_place(graphics::plot, c(list(shown, drawn(y)), lapply(given, drawn)))))
  }
  given$xlim <- given$xlim %||% limits_of(at$x, log, "x")
  given$ylim <- given$ylim %||% limits_of(at$y, log, "y")
  given$xlab <- xlab %||% at$xlab
  given$ylab <- ylab %||% at$ylab
  call_by_place(graphics::plot.default, thinned(at, type, given$xlim, given$ylim, log, c(list(type = type), given)))
}

# Adds points or lines to a plot, whose limits are those of the current plot region.
added <- function(draw, x, y, type, ...) {
  at <- coordinates(x, y, "x", "y")
  if (is.null(at)) {
    shown <- if (!is.null(attr(x, "tsp"))) host_series(x, silent = is_drawn_whole(x)) else drawn(x)
    return(invisible(draw(shown, drawn(y), type = type, ...)))
  }
  usr <- graphics::par("usr")
  log <- paste0(if (graphics::par("xlog")) "x" else "", if (graphics::par("ylog")) "y" else "")
  xlim <- if (graphics::par("xlog")) 10^usr[1:2] else usr[1:2]
  ylim <- if (graphics::par("ylog")) 10^usr[3:4] else usr[3:4]
  call_by_place(draw, thinned(at, type, xlim, ylim, log, list(type = type, ...)))
  invisible()
}

#' @rdname plots
#' @importFrom graphics points
#' @export
points.gpu_array <- function(x, y = NULL, type = "p", ...) added(graphics::points.default, x, y, type, ...)

#' @rdname plots
#' @importFrom graphics lines
#' @export
lines.gpu_array <- function(x, y = NULL, type = "l", ...) added(graphics::lines.default, x, y, type, ...)

#' @rdname plots
#' @importFrom graphics image
#' @export
image.gpu_array <- function(x, y, z, zlim = NULL, ...) {
  # image(z = m) dispatches on z, with x missing.
  if (missing(x) && missing(y)) return(image.gpu_array(z, zlim = zlim, ...))
  if (missing(z) && missing(y) && length(dim(x)) == 2L && !is.complex(x)) {
    z <- x
    x <- base::seq.int(0, 1, length.out = nrow(z))
    y <- base::seq.int(0, 1, length.out = ncol(z))
    if (is.null(zlim)) zlim <- limits_of(strip(z))
    # Where there are more cells than dots, the cell under the centre of each dot is drawn.
    grid <- dots()
    size <- dim(z)
    spread <- function(n, k) if (n <= k) seq_len(n) else floor((seq_len(k) - 0.5) * n / k) + 1
    at <- Map(spread, size, grid)
    if (any(size > grid)) z <- z[at[[1L]], at[[2L]], drop = FALSE]
    x <- if (size[1L] > grid[1L]) edges(size[1L], grid[1L]) else x
    y <- if (size[2L] > grid[2L]) edges(size[2L], grid[2L]) else y
    labels <- utils::modifyList(list(xlab = "", ylab = ""), list(...))
    return(invisible(call_by_place(graphics::image.default, c(list(x, y, drawn(z), zlim = zlim), labels))))
  }
  given <- c(if (!missing(x)) list(x = drawn(x)), if (!missing(y)) list(y = drawn(y)),
    if (!missing(z)) list(z = drawn(z)), if (!is.null(zlim)) list(zlim = zlim))
  invisible(call_by_place(graphics::image.default, c(given, list(...))))
}

# The edges of k cells over the range that base R uses for n cells.
edges <- function(n, k) {
  half <- 0.5 / (n - 1)
  base::seq.int(-half, 1 + half, length.out = k + 1)
}

#' @rdname plots
#' @importFrom graphics boxplot
#' @export
boxplot.gpu_array <- function(x, ..., range = 1.5, names = NULL, plot = TRUE, outline = TRUE, pars = NULL) {
  more <- list(...)
  own <- base::names(more) %||% character(length(more))
  usable <- !is.complex(x) && length(x) && is.numeric(range) && length(range) == 1L && isTRUE(range >= 0) &&
    (length(dim(x)) != 2L || all(own != "")) && all(vapply(more[own == ""], is_number, NA))
  if (!usable) {
    given <- c(list(range = range, plot = plot, outline = outline), list(names = names)[!is.null(names)],
      list(pars = pars)[!is.null(pars)])
    return(invisible(call_by_place(graphics::boxplot, c(list(drawn(x)), lapply(more, drawn), given))))
  }
  if (length(dim(x)) == 2L) {
    groups <- lapply(seq_len(ncol(x)), function(k) x[, k])
    base::names(groups) <- colnames(x) %||% seq_len(ncol(x))
  } else {
    groups <- c(list(x), more[own == ""])
    base::names(groups) <- seq_along(groups)
  }
  more <- more[own != ""]
  found <- lapply(groups, box_statistics, range)
  out <- list(
    stats = vapply(found, `[[`, numeric(5L), "stats"), n = vapply(found, `[[`, 0, "n"),
      conf = vapply(found, `[[`, numeric(2L), "conf"),
    out = base::unlist(lapply(found, `[[`, "out"), use.names = FALSE) %||% numeric(),
      group = as.double(rep.int(seq_along(found), vapply(found, function(f) length(f$out), 1L))),
      names = as.character(names %||% base::names(groups))
  )
  dimnames(out$stats) <- dimnames(out$conf) <- NULL
  out$n <- unname(out$n)
  if (!plot) return(out)
  drawn <- out
  if (length(out$out) > DRAWN_WHOLE) {
    cell <- cells(out$out, base::range(out$out, out$stats), dots()[2L])
    first <- !duplicated(paste(out$group, cell))
    drawn$out <- out$out[first]
    drawn$group <- out$group[first]
  }
  fill <- more$col %||% "lightgray"
  more$col <- NULL
  call_by_place(graphics::bxp, c(list(drawn, outline = outline, boxfill = fill), more, pars))
  invisible(out)
}

# Equals grDevices::boxplot.stats(). All outliers are copied to the host, since they are part of the result.
box_statistics <- function(x, range) {
  if (!is_gpu(x)) return(grDevices::boxplot.stats(x, coef = range))
  x <- as_doubles(strip(x))
  x <- x[!is.na(x)]
  n <- length(x)
  stats <- as.double(stats::fivenum(x))
  spread <- stats[4L] - stats[2L]
  far <- if (range == 0) NULL else if (is.na(spread)) !is.finite(x) else x < stats[2L] - range * spread |
    x > stats[4L] + range * spread
  out <- if (is.null(far)) numeric() else as.vector(x[far])
  if (length(out)) stats[c(1L, 5L)] <- as.double(range(x[!far]))
  list(stats = stats, n = as.double(n), conf = stats[3L] + c(-1.58, 1.58) * spread / sqrt(n), out = out)
}

#' @rdname plots
#' @importFrom graphics barplot
#' @export
barplot.gpu_array <- function(height, ...) graphics::barplot(drawn(height), ...)

#' @rdname plots
#' @importFrom graphics pairs
#' @export
pairs.gpu_array <- function(x, ...) {
  if (length(dim(x)) != 2L || nrow(x) <= DRAWN_WHOLE || is.complex(x) || ncol(x) < 2L)
    return(graphics::pairs(drawn(x), ...))
  p <- ncol(x)
  columns <- lapply(seq_len(p), function(k) strip(x[, k]))
  limits <- lapply(columns, limits_of)
  grid <- dots(p, list(...)$pch, list(...)$cex)
  kept <- numeric()
  for (i in seq_len(p)[-1L]) for (j in seq_len(i - 1L))
    kept <- base::union(kept, seen(columns[[j]], columns[[i]], limits[[j]], limits[[i]], grid))
  kept <- sort(kept)
  graphics::pairs(collect(x[kept, , drop = FALSE]), ...)
}

#' @rdname plots
#' @importFrom stats density
#' @export
density.gpu_array <- function(x, bw = "nrd0", adjust = 1, n = 512, from, to, cut = 3, na.rm = FALSE, ...) {
  name <- deparse1(substitute(x))
  call <- match.call()
  more <- list(...)
  usable <- !is.complex(x) && !is.logical(x) && !any(c("weights", "give.Rkern", "width", "subdensity", "ext") %in%
    names(more)) && length(x) > 1L && !anyNA(x) &&
    (is_count(bw) && is.null(attributes(bw)) && bw > 0 || is.character(bw) && tolower(bw)[1L] %in% c("nrd0", "nrd")) &&
    is_count(n, 1) && n <= 2^24 && is_count(adjust) && is_count(cut) && is_switch(na.rm)
  usable <- usable && all(is.finite(range(x)))
  if (!usable) {
    # Pass bw only if given: base R uses `width` if bw is missing.
    given <- c(if (!missing(bw)) list(bw = drawn(bw)), if (!missing(from)) list(from = from), if (!missing(to))
      list(to = to))
    out <- call_by_place(stats::density.default, c(list(as.vector(drawn(x)), adjust = adjust, n = n, cut = cut,
      na.rm = na.rm), given, lapply(more, drawn)))
    if (!is.list(out)) return(out)
  } else {
    x <- as_doubles(strip(x))
    if (is.character(bw)) bw <- bandwidth(x, tolower(bw))
    bw <- as.double(bw) * adjust
    reach <- as.double(range(x))
    if (missing(from)) from <- reach[1L] - cut * bw
    if (missing(to)) to <- reach[2L] + cut * bw
    # Base R's grid: four bandwidths wider on both sides, with a power of 2 of points.
    points <- if (n > 512) 2^ceiling(log2(n)) else 512
    grid <- base::seq.int(from - 4 * bw, to + 4 * bw, length.out = points)
    weights <- spread_over(x, grid)
    inside <- weights > 0
    out <- suppressWarnings(call_by_place(stats::density.default,
      c(list(grid[inside], bw = bw, weights = weights[inside], n = n, from = from, to = to), more)))
    out$n <- length(x)
    out$bw <- bw
  }
  call[[1L]] <- quote(density.default) # base R's plot method shows it as the title
  out$call <- call
  out$data.name <- name
  out
}

# The rules of Silverman (1986) and Scott (1992), as in stats::bw.nrd0() and bw.nrd().
bandwidth <- function(x, rule) {
  deviation <- as.double(sd(x))
  quartile <- diff(quantile(x, c(0.25, 0.75), names = FALSE)) / 1.34
  least <- min(deviation, quartile)
  if (rule == "nrd") return(1.06 * least * length(x)^-0.2)
  if (least == 0) least <- if (deviation != 0) deviation else if (x[[1L]] != 0) abs(x[[1L]]) else 1
  0.9 * least * length(x)^-0.2
}

# Linear binning: the weight of each element, 1 / length(x), is divided between the two neighbouring points of a regular
# grid, and summed at each point. For elements less than one step beyond an end of the grid, that end gets its part.
spread_over <- function(x, grid) {
  m <- length(grid)
  place <- (x - grid[1L]) * ((m - 1) / (grid[m] - grid[1L]))
  low <- floor(place)
  right <- place - low
  cell <- gpu_cast(pmin(pmax(low, -2), m), "int32")
  inside <- cell >= -1L & cell < m
  if (!all(inside)) {
    cell <- cell[inside]
    right <- right[inside]
  }
  if (!length(cell)) return(numeric(m))
  cell <- cell + 2L
  upper <- as.vector(reduce_by(right, cell, m + 1L, "sum", FALSE, NULL))
  lower <- as.vector(.Call(C_count_bins, cell, 1, m + 1L))[seq_len(m + 1L)] - upper
  (lower[-1L] + upper[-(m + 1L)]) / length(x)
}
