# What runs in a member of a team: its place, the parts of splits that it holds, and the collectives.

# The members in this process, and the listening sockets of teams that are being made, by the teams' names.
MEMBERS <- new.env(parent = emptyenv())
LISTENERS <- new.env(parent = emptyenv())
# The member whose code runs, `member`; and the one of a launcher's team, `own`, whose code always runs.
RUNNING <- new.env(parent = emptyenv())

new_member <- function(team, rank, size, device, link = NULL) {
  list2env(list(team = team, rank = as.integer(rank), size = as.integer(size), device = device, link = link,
    store = new.env(parent = emptyenv())), parent = emptyenv())
}

# The other members may wait for what is queued on this one's GPU when R ends.
finish_at_exit <- function() {
  if (!is.null(RUNNING$finishes)) return()
  RUNNING$finishes <- TRUE
  reg.finalizer(RUNNING, function(running) {
    members <- c(as.list(MEMBERS), list(running$own))
    devices <- unique(unlist(lapply(members, function(member) member$device)))
    for (device in setdiff(devices, "cpu")) try(gpu_sync(device), silent = TRUE)
  }, onexit = TRUE)
}

running_member <- function(call = parent.frame()) {
  member <- RUNNING$member %||% RUNNING$own
  if (is.null(member)) stop_verdigris("member", "This code does not run in a member of a team.",
    "Call it in a function passed to `gpu_together()`, or after `gpu_team(\"env\")` in a launcher's script.",
    call = call)
  member
}

# The connection to the other members; none where there are no others.
link_of <- function(member, call = parent.frame()) {
  if (!is.null(member$link) || member$size == 1L) return(member$link)
  stop_verdigris("member", "The members of this team share one process and run one after the other.", c(
    "Return the value, and call the collective on the split that `gpu_together(keep = TRUE)` returns.",
    "Members of a cluster can call collectives inside the function."), call = call)
}

# ---- what a worker is asked for ----------------------------------------------------------------------

# From an engine: does a task, and gives list(value) or list(error), since engines treat errors differently.
team_serve <- function(task, args) {
  # a worker of parallel's that is interrupted would give no answer
  tryCatch(list(value = call_by_place(TASKS[[task]], args)), error = function(e) list(error = portable_error(e)),
    interrupt = function(e) list(error = list(message = "it was interrupted", class = "verdigris_error_member")))
}

# What another process can know of an error.
portable_error <- function(e) {
  list(message = conditionMessage(e), class = setdiff(class(e), c("rlang_error", "simpleError", "error", "condition")))
}

own_version <- function() as.character(utils::packageVersion("verdigris"))

TASKS <- list(
  # where this is, for who makes the team
  describe = function() {
    answer_at_once()
    boot <- "/proc/sys/kernel/random/boot_id"
    devices <- .Call(C_device_list)$device
    list(host = Sys.info()[["nodename"]], boot = if (file.exists(boot)) readLines(boot) else "", pid = Sys.getpid(),
      version = own_version(), gpus = setdiff(devices, "cpu"), device = getOption("verdigris.device"))
  },
  ping = function() Sys.getpid(),
  listen = function(team, address) {
    made <- .Call(C_team_listen, address, 0, NULL)
    LISTENERS[[team]] <- made$listener
    made[c("port", "token")]
  },
  # a member that joins again in its place has its parts still, and one of a repaired team what references stand for
  join = function(team, address, port, token, rank, size, device, timeout, gpus, beside = 1, earlier = character()) {
    share_cores(beside)
    listener <- LISTENERS[[team]]
    if (!is.null(listener)) rm(list = team, envir = LISTENERS)
    # errors come by rlang: the others wait for the first one, too
    loadNamespace("rlang")
    # the function of `gpu_together()` calls this package's as the user's own code does
    if (!"package:verdigris" %in% search()) suppressPackageStartupMessages(attachNamespace("verdigris"))
    before <- MEMBERS[[team]]
    link <- .Call(C_team_join, listener, address, port, token, rank - 1, size, timeout, own_version(), device, gpus)
    member <- new_member(team, rank, size, device, link)
    if (!is.null(before) && before$rank == rank && before$size == size) {
      member$store <- before$store
      member$refs <- before$refs
    }
    for (name in earlier) if (!is.null(MEMBERS[[name]])) {
      old <- MEMBERS[[name]]$store
      for (id in grep("^ref", names(old), value = TRUE)) member$store[[id]] <- old[[id]]
      rm(list = name, envir = MEMBERS)
    }
    MEMBERS[[team]] <- member
    finish_at_exit()
    .Call(C_team_carrier, link)
  },
  run = function(team, commands, task) {
    member <- MEMBERS[[team]]
    if (is.null(member)) stop_verdigris("member", "This process is not a member of the team.",
      "`gpu_repair(team)` makes it one.", call = NULL)
    run_member(member, commands, task)
  },
  # what a reference stands for, also where the team has ended: no other member takes part
  fetch = function(teams, id) {
    for (team in teams) {
      member <- MEMBERS[[team]]
      if (!id %in% names(member$store)) next
      # the device tells once that values of a collective were lost, whatever is waited for
      tryCatch(gpu_sync(member$device), verdigris_error_member = function(e) NULL)
      return(list(collect(member$store[[id]])))
    }
    list()
  },
  # of an engine that reaches all workers at once
  introduce = function() this_worker(),
  chosen = function(requests) {
    request <- requests[[this_worker()]]
    list(worker = this_worker(), answer = if (!is.null(request)) team_serve(request$task, request$args))
  }
)

# In a worker of parallel's: what it answers goes out in one write (see `send_at_once()`). Its loop knows the connection
# by a variable of its functions, which are below this one.
answer_at_once <- function() {
  loop <- lapply(c("workLoop", "workCommand"), get0, envir = asNamespace("parallel"))
  for (k in seq_len(sys.nframe())) if (any(vapply(loop, identical, NA, sys.function(k)))) {
    frame <- sys.frame(k)
    if (inherits(frame$master, "verdigris_node") || !inherits(frame$master, c("SOCKnode", "SOCK0node"))) next
    class(frame$master) <- c("verdigris_node", class(frame$master))
  }
}

this_worker <- function() paste(Sys.info()[["nodename"]], Sys.getpid())

# Of the cpu device's threads this process takes its share of the host, which it has beside others of the team, unless
# the user has said how many.
share_cores <- function(processes) {
  given <- getOption("verdigris.threads")
  if (!is.null(given) && !is_count(given, 1)) stop_verdigris("argument", sprintf(
    "Option `verdigris.threads` must be a number of threads, not %s.", describe(given)),
    "`options(verdigris.threads = NULL)` restores the default.", call = NULL)
  if (is.null(given) && nzchar(Sys.getenv("RAYON_NUM_THREADS"))) return()
  all <- .Call(C_cpu_threads, 0)
  .Call(C_cpu_threads, given %||% max(1, all %/% processes))
}

# Records, makes and frees parts, then does what was asked for, as a member. Where that fails the others hear why.
run_member <- function(member, commands, task) {
  before <- RUNNING$member
  RUNNING$member <- member
  on.exit(RUNNING$member <- before)
  device <- .Call(C_device_use, member$device)
  on.exit(.Call(C_device_use, device), add = TRUE)
  stops <- function(reason) if (!is.null(member$link)) .Call(C_team_stop, member$link, reason)
  withCallingHandlers(
    {
      for (command in commands) carry_out(member, command)
      if (!is.null(task)) perform(member, task)
    },
    error = function(e) stops(substr(conditionMessage(e), 1L, 400L)),
    interrupt = function(e) stops("it was interrupted")
  )
}

# A command about a part. One that cannot be made fails when it is used, in the call that uses it.
carry_out <- function(member, command) {
  if (command$do == "free") {
    rm(list = intersect(command$ids, names(member$store)), envir = member$store)
    return()
  }
  member$store[[command$id]] <- tryCatch(call_in_member(member, command), error = function(e) structure(
    list(message = conditionMessage(e), class = class(e)), class = "failed_part"))
}

# A function of this package by its name, or the user's.
call_in_member <- function(member, task) {
  f <- if (is.character(task$f)) get(task$f, envir = topenv(), mode = "function") else task$f
  call_by_place(f, lapply(task$args, part_of, member))
}

# A task is a function and its arguments; `keep` stores the value, `fold` reduces it over the members, or binds it.
perform <- function(member, task) {
  value <- call_in_member(member, task)
  if (!is.null(task$keep)) {
    member$store[[task$keep]] <- value
    return(shape_of(value))
  }
  if (is.null(task$fold) || is.null(member$link)) return(value)
  value <- if (task$fold == "gather") .Call(C_team_all_gather, member$link, value, NULL) else
    .Call(C_team_all_reduce, member$link, value, task$fold, FALSE, NULL)
  # all have it, and one tells
  if (member$rank == 1L || is.null(task$once)) collect(value)
}

# What an argument stands for in a member.
part_of <- function(x, member) {
  # an array that another process has sent is uploaded once
  if (is_gpu(x)) return(as_gpu(x, device = member$device))
  if (!inherits(x, c("team_part", "gpu_ref"))) return(x)
  id <- if (inherits(x, "gpu_ref")) fields_of(x)$id else unclass(x)$id
  part <- member$store[[id]]
  if (is.null(part) && !id %in% names(member$store))
    stop_verdigris("member", "A part of the split is missing on this member.", "`gpu_repair(team)` makes it again.",
      call = NULL)
  if (inherits(part, "failed_part"))
    rlang::abort(paste0("A part of the split could not be made: ", part$message), class = part$class, call = NULL)
  part
}

# What the master is told of a part.
shape_of <- function(x) {
  kind <- if (is.data.frame(x)) "frame" else if (!is_number(x)) "object" else if (is.null(dim(x))) "vector" else if (
    length(dim(x)) == 2L) "matrix" else "object"
  names <- if (kind == "frame") names(x) else if (kind == "matrix") colnames(x)
  list(kind = kind, rows = if (kind == "object") 1L else NROW(x), columns = if (kind %in% c("frame", "matrix")) NCOL(x),
    names = names, type = typeof(x))
}

# ---- collectives -------------------------------------------------------------------------------------

#' Collective operations of a team
#'
#' Called by all members of a team at once, with arrays or ordinary numbers: in a function that [gpu_together()] runs in
#' the workers of a cluster, or in a script that a launcher has started (`gpu_team("env")`). All members must call the
#' same collectives in the same order.
#'
#' - `gpu_all_reduce()` folds the members' elements; all have the result.
#' - `gpu_reduce_scatter()` does the same, but each member receives its run of the result only: of a vector elements, of
#'   a matrix rows, in the runs of [gpu_split()].
#' - `gpu_all_gather()` joins the members' parts in the order of their ranks: vectors one after the other, matrices by
#'   rows (`margin = 1`) or columns.
#' - `gpu_broadcast()` returns the array of the member `root` on all members; what the others pass is ignored.
#' - `gpu_barrier()` returns when all members have called it.
#'
#' Types, `NA` and integer overflow are those of R's operators `+`, `*`, and of [pmin()] and [pmax()]. Elements are
#' folded in the order of ranks, so the bits of a result depend on the number of members and their values alone. There
#' is one exception: transport "nccl" adds and multiplies long arrays of floats in an order of its own where there are
#' more than two members, unless `exact = TRUE`.
#'
#' `gpu_all_reduce()` also takes a split, of parts of one shape: the value of `gpu_together(keep = TRUE)`.
#'
#' @param x A numeric, logical or complex vector or matrix, or an array; for `gpu_all_reduce()` also a split.
#' @param op `"+"`, `"*"`, `"min"` or `"max"`.
#' @param exact Whether the members are folded in the order of their ranks, whatever connects them.
#' @param margin 1 to join matrices by rows, 2 by columns.
#' @param root A member's rank.
#' @returns An array on the device of `x` if that is an array, else an ordinary vector, with the shape of `x` for
#'   `gpu_all_reduce()`; `gpu_barrier()` returns `NULL`, invisibly. `gpu_team_rank()`: this member's number, from 1;
#'   `gpu_team_size()`: how many there are. Collectives wait for the other members.
#' @section Errors:
#' `verdigris_error_member` if a member has ended, failed, is in another collective or does not come within the
#' `timeout` of [gpu_team()], or if this code runs in no member. The team has then ended on all members;
#' [gpu_repair()] goes on. With `options(verdigris.debug = TRUE)` on the members the error names the calls of members in
#' different collectives. `verdigris_error_argument` and `verdigris_error_dtype` for `x` of another kind.
#' @examples
#' team <- gpu_team("cpu")
#' gpu_together(team, function() gpu_all_reduce(c(1, 2)))
#' gpu_together(team, function() c(gpu_team_rank(), gpu_team_size()))
#' x <- gpu_together(gpu_team(c("cpu", "cpu")), function() gpu_team_rank() * c(1, 10), keep = TRUE)
#' gpu_all_reduce(x)
#' @name gpu_all_reduce
#' @export
gpu_all_reduce <- function(x, op = "+", exact = FALSE) {
  op <- one_of("op", op, c("+", "*", "min", "max"))
  if (!is_flag(exact)) abort_argument("exact", "TRUE or FALSE", exact)
  if (is_split(x)) return(fold_parts(x, op))
  check_collective(x)
  link <- link_of(running_member())
  like(x, .Call(C_team_all_reduce, link %||% lone_link(), x, op, exact, sys.call()))
}

# What each member has of a vector, in the order of their ranks.
gathered_by_members <- function(v, member) unname(.Call(C_team_all_gather, member$link %||% lone_link(), v, NULL))

# A team of one folds nothing, but types are the same.
lone_link <- function() {
  if (is.null(RUNNING$lone)) {
    listener <- .Call(C_team_listen, "127.0.0.1", 0, NULL)
    RUNNING$lone <- .Call(C_team_join, listener$listener, "127.0.0.1", listener$port, listener$token, 0, 1, 1,
      own_version(), "cpu", FALSE)
  }
  RUNNING$lone
}

check_collective <- function(x, call = parent.frame()) {
  if (!is_number(x)) abort_argument("x", "a vector or matrix of numbers, or an array", x, call)
}

# The result as x is: an array or an ordinary vector.
like <- function(x, y) if (is_gpu(x)) y else collect(y)

#' @rdname gpu_all_reduce
#' @export
gpu_reduce_scatter <- function(x, op = "+", exact = FALSE) {
  op <- one_of("op", op, c("+", "*", "min", "max"))
  if (!is_flag(exact)) abort_argument("exact", "TRUE or FALSE", exact)
  check_collective(x)
  link <- link_of(running_member()) %||% lone_link()
  d <- dim(x)
  if (length(d) != 2L) return(like(x, .Call(C_team_reduce_scatter, link, x, 1, op, exact, sys.call())))
  # a row is contiguous in the transposed matrix
  y <- .Call(C_team_reduce_scatter, link, t(x), d[2L], op, exact, sys.call())
  rows <- team_runs(d[1L], gpu_team_size())[[gpu_team_rank()]]
  y <- t(matrix(y, nrow = d[2L], ncol = length(rows)))
  if (!is.null(dimnames(x))) dimnames(y) <- list(rownames(x)[rows], colnames(x))
  like(x, y)
}

#' @rdname gpu_all_reduce
#' @export
gpu_all_gather <- function(x, margin = 1) {
  if (!(is_count(margin, 1) && margin %in% c(1, 2))) abort_argument("margin", "1 (rows) or 2 (columns)", margin)
  check_collective(x)
  link <- link_of(running_member()) %||% lone_link()
  parts <- .Call(C_team_all_gather, link, x, sys.call())
  if (length(dim(x)) != 2L) return(like(x, do.call(c, unname(parts))))
  width <- dim(x)[3L - margin]
  extents <- collect(do.call(c, unname(.Call(C_team_all_gather, link, as.double(width), sys.call()))))
  if (any(extents != width)) stop_verdigris("shape", sprintf("members have matrices of %s %s.",
    paste(unique(extents), collapse = " and "), if (margin == 1) "columns" else "rows"))
  parts <- lapply(unname(parts), function(part) {
    if (margin == 2) matrix(part, nrow = width) else matrix(part, ncol = width)
  })
  y <- do.call(if (margin == 1) rbind else cbind, parts)
  names <- dimnames(x)[[3L - margin]]
  if (!is.null(names)) dimnames(y) <- if (margin == 1) list(NULL, names) else list(names, NULL)
  like(x, y)
}

#' @rdname gpu_all_reduce
#' @export
gpu_broadcast <- function(x = NULL, root = 1) {
  member <- running_member()
  link <- link_of(member) %||% lone_link()
  if (!is_count(root, 1) || root > member$size)
    abort_argument("root", sprintf("a rank from 1 to %d", member$size), root)
  own <- member$rank == root
  if (own) check_collective(x)
  # the shape first, and whether it is an array
  head <- if (own) c(is_gpu(x), dim(x)) else double()
  head <- as.vector(collect(.Call(C_team_broadcast, link, as.double(head), root - 1, sys.call())))
  y <- .Call(C_team_broadcast, link, if (own) x else gpu_zeros(0, device = member$device), root - 1, sys.call())
  if (own) return(x)
  if (length(head) > 1L) dim(y) <- head[-1L]
  if (head[1L] == 1) y else collect(y)
}

#' @rdname gpu_all_reduce
#' @export
gpu_barrier <- function() {
  invisible(.Call(C_team_barrier, link_of(running_member()) %||% lone_link(), sys.call()))
}

#' @rdname gpu_all_reduce
#' @export
gpu_team_rank <- function() running_member()$rank

#' @rdname gpu_all_reduce
#' @export
gpu_team_size <- function() running_member()$size

#' References to arrays of a member
#'
#' A function that [gpu_together()] runs returns its value to the caller. `gpu_ref(x)` as the value keeps `x` in the
#' member's memory, and returns a reference. References of all members, as the list that `gpu_together()` returned them
#' in, are an argument of `gpu_together()` again: each member receives its own array.
#'
#' Where a member ends, what the others keep stays: `collect()` reads it, also before [gpu_repair()]; after that the
#' references to the members that are left are an argument of `gpu_together()`. `print()` says which are lost.
#' @param x An array, or any other value.
#' @returns In a member: a reference of class `gpu_ref`. `collect()` of it returns the value. The member frees the value
#'   when the reference is garbage.
#' @section Errors:
#' `verdigris_error_member` outside of a member, or if the member has ended.
#' @examples
#' team <- gpu_team(c("cpu", "cpu"))
#' refs <- gpu_together(team, function() gpu_ref(as_gpu(1:3 * gpu_team_rank())))
#' gpu_together(team, function(x) sum(x), refs)
#' collect(refs[[2]])
#' @export
gpu_ref <- function(x) {
  member <- running_member()
  member$refs <- (member$refs %||% 0) + 1
  # of a repaired team another member may have this rank
  id <- sprintf("ref %s %d.%.0f", member$team, member$rank, member$refs)
  member$store[[id]] <- x
  reference_of(list(id = id, rank = member$rank, shape = shape_of(x)))
}
