# A member's side of a team: its rank and device, the parts of splits that it holds, the tasks that it runs, and the
# collectives.

# The members in this process, and the listening sockets of teams that are not yet connected, by the teams' ids.
MEMBERS <- new.env(parent = emptyenv())
LISTENERS <- new.env(parent = emptyenv())
# `member` is the member whose task is running; `own` is this process's member of a launcher's team, set for the whole
# script.
RUNNING <- new.env(parent = emptyenv())

new_member <- function(team, rank, size, device, link = NULL) {
  list2env(list(team = team, rank = as.integer(rank), size = as.integer(size), device = device, link = link,
    store = new.env(parent = emptyenv())), parent = emptyenv())
}

# When R exits, other members may still wait for work that is queued on this member's GPU: it is completed first.
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

# The connection to the other members, NULL for a team of one. An error if the members share this process.
link_of <- function(member, call = parent.frame()) {
  if (!is.null(member$link) || member$size == 1L) return(member$link)
  stop_verdigris("member", "The members of this team share one process and run one after the other.", c(
    "Return the value, and call the collective on the split that `gpu_together(keep = TRUE)` returns.",
    "Members of a cluster can call collectives inside the function."), call = call)
}

# ---- what a worker is asked for ----------------------------------------------------------------------

# Called by engines in a worker: runs a task, and returns list(value) or list(error), since engines treat errors
# differently.
team_serve <- function(task, args) {
  # an interrupted worker of parallel would not answer
  tryCatch(list(value = call_by_place(TASKS[[task]], args)), error = function(e) list(error = portable_error(e)),
    interrupt = function(e) list(error = list(message = "it was interrupted", class = "verdigris_error_member")))
}

# An error as another process gets it.
portable_error <- function(e) {
  list(message = conditionMessage(e), class = setdiff(class(e), c("rlang_error", "simpleError", "error", "condition")))
}

own_version <- function() as.character(utils::packageVersion("verdigris"))

TASKS <- list(
  # what the session needs to know to connect this worker
  describe = function() {
    answer_in_one_write()
    devices <- .Call(C_device_list)$device
    c(this_host(), list(pid = Sys.getpid(), version = own_version(), gpus = setdiff(devices, "cpu"), device =
      getOption("verdigris.device")))
  },
  ping = function() Sys.getpid(),
  listen = function(team, address) {
    made <- .Call(C_team_listen, address, 0, NULL)
    LISTENERS[[team]] <- made$listener
    made[c("port", "token")]
  },
  # a member that joins again with the same rank keeps its parts; a member of a repaired team keeps values of references
  join = function(team, address, port, token, rank, size, device, timeout, gpus, local_size = 1,
    earlier = character()) {
    share_cores(local_size)
    listener <- LISTENERS[[team]]
    if (!is.null(listener)) rm(list = team, envir = LISTENERS)
    # rlang raises the errors: loading it only then would make the other members wait for the first error
    loadNamespace("rlang")
    # functions passed to `gpu_together()` call this package's functions by name, as the user's code does
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
  # the value of a reference, in a list that is empty if there is none; the team may be broken: no other member takes
  # part
  fetch = function(teams, id) {
    for (team in teams) {
      member <- MEMBERS[[team]]
      if (!id %in% names(member$store)) next
      # the device reports once, at any wait, that values of a collective were lost
      tryCatch(gpu_sync(member$device), verdigris_error_member = function(e) NULL)
      value <- member$store[[id]]
      # on the host, so that an error of its computation is raised here
      return(list(if (is_gpu(value)) as_gpu(value, device = "cpu") else collect(value)))
    }
    list()
  },
  # tasks of broadcast_engine(), which sends one request to all workers
  introduce = function() this_worker(),
  chosen = function(requests) {
    request <- requests[[this_worker()]]
    list(worker = this_worker(), answer = if (!is.null(request)) team_serve(request$task, request$args))
  }
)

# In a worker of parallel: makes its answers go out in one write (see `send_in_one_write()`). The worker's loop holds
# its connection in a local variable, so its frame is looked for on the call stack.
answer_in_one_write <- function() {
  loop <- lapply(c("workLoop", "workCommand"), get0, envir = asNamespace("parallel"))
  for (k in seq_len(sys.nframe())) if (any(vapply(loop, identical, NA, sys.function(k)))) {
    frame <- sys.frame(k)
    if (inherits(frame$master, "verdigris_node") || !inherits(frame$master, c("SOCKnode", "SOCK0node"))) next
    class(frame$master) <- c("verdigris_node", class(frame$master))
  }
}

this_worker <- function() paste(Sys.info()[["nodename"]], Sys.getpid())

# The name of this host and of its run: two hosts may have one name.
this_host <- function() {
  boot <- "/proc/sys/kernel/random/boot_id"
  list(host = Sys.info()[["nodename"]], boot = if (file.exists(boot)) readLines(boot) else "")
}

# Limits the cpu device to this process's share of the host's cores. `processes` is the number of members on the host.
# Threads that the user has set take precedence.
share_cores <- function(processes) {
  given <- getOption("verdigris.threads")
  if (!is.null(given) && !is_count(given, 1)) stop_verdigris("argument", sprintf(
    "Option `verdigris.threads` must be a number of threads, not %s.", describe(given)),
    "`options(verdigris.threads = NULL)` restores the default.", call = NULL)
  if (is.null(given) && nzchar(Sys.getenv("RAYON_NUM_THREADS"))) return()
  all <- .Call(C_cpu_threads, 0)
  .Call(C_cpu_threads, given %||% max(1, all %/% processes))
}

# Runs commands and then a task as this member.
run_member <- function(member, commands, task) as_member(member, {
  run_commands(member, commands)
  if (!is.null(task)) run_task(member, task)
})

# Evaluates code as this member, on its device. If it fails, the other members are sent the reason.
as_member <- function(member, code) {
  before <- RUNNING$member
  device <- .Call(C_device_use, member$device)
  RUNNING$member <- member
  on.exit({
    RUNNING$member <- before
    .Call(C_device_use, device)
  })
  if (is.null(member$link)) return(code)
  stops <- function(reason) .Call(C_team_stop, member$link, reason)
  withCallingHandlers(code, error = function(e) stops(substr(conditionMessage(e), 1L, 400L)),
    interrupt = function(e) stops("it was interrupted"))
}

# Frees and makes parts. If a part cannot be made, its error is stored, and raised by the task that uses the part. One
# handler serves all commands, since setting one up takes as long as a command.
run_commands <- function(member, commands) {
  store <- member$store
  done <- 0L
  while (done < length(commands)) tryCatch(while (done < length(commands)) {
    done <- done + 1L
    command <- commands[[done]]
    if (command$do == "free") rm(list = intersect(command$ids, names(store)), envir = store) else
      store[[command$id]] <- call_in_member(member, command)
  }, error = function(e) store[[command$id]] <- failed_part(e))
}

failed_part <- function(e) structure(list(message = conditionMessage(e), class = class(e)), class = "failed_part")

# A value of a member that is finished later: `finish()` waits for the device, and returns the value. The members of one
# process, which run one after the other, then all work before the first is waited for.
later <- function(finish) structure(list(finish = finish), class = "team_later")
is_later <- function(x) inherits(x, "team_later")
finished <- function(x) if (is_later(x)) x$finish() else x

# Numbers of this device, or arrays of numbers, as one vector, when they have been computed.
numbers_later <- function(...) {
  begun <- list(...)
  for (x in begun) if (is_gpu(x)) gpu_compute(x)
  later(function() unlist(lapply(begun, function(x) as.vector(if (is_gpu(x)) collect(x) else x))))
}

# `task$f` is the name of a function of this package, or a function of the user.
call_in_member <- function(member, task) {
  f <- if (is.character(task$f)) get(task$f, envir = parent.env(environment()), mode = "function") else task$f
  call_by_place(f, lapply(task$args, part_of, member))
}

# Runs a task: a function and its arguments. `keep` stores the value under this id; `fold` reduces the value over the
# members, or gathers it. With `begin` the value may be one that is finished later.
run_task <- function(member, task) {
  value <- call_in_member(member, task)
  alone <- is.null(task$fold) || is.null(member$link)
  if (is_later(value) && isTRUE(task$begin) && is.null(task$keep) && alone) return(value)
  value <- finished(value)
  if (!is.null(task$keep)) {
    member$store[[task$keep]] <- value
    return(shape_of(value, task$kind))
  }
  if (alone) return(value)
  value <- if (task$fold == "gather") .Call(C_team_all_gather, member$link, value, NULL) else
    .Call(C_team_all_reduce, member$link, value, task$fold, FALSE, NULL)
  # all members have the result; with `once` only the first one returns it
  if (member$rank == 1L || is.null(task$once)) collect(value)
}

# The value of a task's argument: of a split the member's part; references and named parts are looked up in its store.
part_of <- function(x, member) {
  # of this process
  if (is_split(x)) return(part_here(state_of(x), member$rank))
  # an array that another process has sent is uploaded once
  if (is_gpu(x)) return(as_gpu(x, device = member$device))
  if (!inherits(x, c("team_part", "gpu_ref"))) return(x)
  id <- if (inherits(x, "gpu_ref")) fields_of(x)$id else unclass(x)$id
  part <- member$store[[id]]
  if (is_later(part)) part <- member$store[[id]] <- finished_part(part)
  if (is.null(part) && !id %in% names(member$store))
    stop_verdigris("member", "A part of the split is missing on this member.", "`gpu_repair(team)` makes it again.",
      call = NULL)
  usable_part(part)
}

finished_part <- function(part) tryCatch(part$finish(), error = failed_part)

# The part, or its error.
usable_part <- function(part) {
  if (inherits(part, "failed_part"))
    rlang::abort(paste0("A part of the split could not be made: ", part$message), class = part$class, call = NULL)
  part
}

# The description of a part that the session gets. `kind` is given for a part of elements that may have no numbers.
shape_of <- function(x, kind = NULL) {
  if (identical(kind, "vector")) return(list(kind = kind, rows = length(x), type = typeof(x)))
  kind <- if (is.data.frame(x)) "frame" else if (!is_number(x)) "object" else if (is.null(dim(x))) "vector" else if (
    length(dim(x)) == 2L) "matrix" else "object"
  names <- if (kind == "frame") names(x) else if (kind == "matrix") colnames(x)
  list(kind = kind, rows = if (kind == "object") 1L else NROW(x), columns = if (kind %in% c("frame", "matrix")) NCOL(x),
    names = names, type = typeof(x))
}

# ---- arrays for the session --------------------------------------------------------------------------

# Up to here the connection is faster: a copy takes 4 ms or more whatever its size, 1e5 elements serialised 14.
EXPORTED <- 3e4

# Copies an array for a session on `host`, which opens the copy by its handle. NULL where that is not possible, and for
# other values: they travel through the host.
export_to <- function(x, host) {
  if (!is_array(x) || gpu_device(x) == "cpu" || length(x) < EXPORTED || !identical(host, this_host())) return(NULL)
  exported <- .Call(C_team_export, x)
  if (is.null(exported)) return(NULL)
  member <- running_member()
  member$exported <- exported$copy
  list(handle = exported$handle, dtype = gpu_dtype(x), length = length(x), attributes = attributes(x))
}

# Once the session has its own copy.
free_export <- function() {
  member <- running_member()
  .Call(C_team_free_export, member$exported)
  member$exported <- NULL
}

# ---- collectives -------------------------------------------------------------------------------------

#' Collective operations of a team
#'
#' All members of a team call these functions at once, with arrays or ordinary numbers: in a function that
#' [gpu_together()] runs in the workers of a cluster, or in a script that a launcher has started (`gpu_team("env")`).
#' All members must call the same collectives in the same order.
#'
#' - `gpu_all_reduce()` combines the members' elements; all members receive the result.
#' - `gpu_reduce_scatter()` does the same, but each member receives only its part of the result: elements of a vector or
#'   rows of a matrix, divided as by [gpu_split()].
#' - `gpu_all_gather()` joins the members' parts in the order of their ranks: vectors one after the other, matrices by
#'   rows (`margin = 1`) or columns.
#' - `gpu_broadcast()` returns the array of the member `root` on all members; the arguments of the other members are
#'   ignored.
#' - `gpu_barrier()` returns when all members have called it.
#'
#' Types, `NA` and integer overflow follow R's operators `+` and `*`, and [pmin()] and [pmax()]. Elements are combined
#' in the order of ranks, so the bits of a result depend only on the number of members and their values. There is one
#' exception: with more than two members transport "nccl" adds and multiplies long arrays of floats in another order,
#' unless `exact = TRUE`.
#'
#' `gpu_all_reduce()` also accepts a split whose parts have the same shape: the value of `gpu_together(keep = TRUE)`.
#'
#' @param x A numeric, logical or complex vector or matrix, or an array; for `gpu_all_reduce()` also a split.
#' @param op `"+"`, `"*"`, `"min"` or `"max"`.
#' @param exact Whether elements are combined in the order of ranks with every transport.
#' @param margin 1 to join matrices by rows, 2 by columns.
#' @param root A member's rank.
#' @returns An array on the device of `x` if `x` is an array, else an ordinary vector, with the shape of `x` for
#'   `gpu_all_reduce()`; `gpu_barrier()` returns `NULL`, invisibly. `gpu_team_rank()`: this member's number, from 1;
#'   `gpu_team_size()`: the number of members. Collectives wait for the other members. `verdigris_error_member` if a
#'   member has ended, failed, is in another collective or does not come within the `timeout` of [gpu_team()], or if
#'   this code does not run in a member. The team has then ended on all members; [gpu_repair()] restores it. With
#'   `options(verdigris.debug = TRUE)` on the members the error names the calls of members in different collectives.
#'   `verdigris_error_argument` and `verdigris_error_dtype` for an `x` that collectives do not accept.
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

# The vectors that the members pass, a list by rank.
gathered_by_members <- function(v, member) unname(.Call(C_team_all_gather, member$link %||% lone_link(), v, NULL))

# The connection of a team of one: nothing is folded, but results have the types that they have in larger teams.
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

# `y` in the form of `x`: an array, or an ordinary vector.
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
  # the root first sends whether x is an array, and its dimensions
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
#' A function that [gpu_together()] runs returns its value to the caller. If the value is `gpu_ref(x)`, `x` stays in the
#' member's memory, and the caller receives a reference. The list of all members' references, as `gpu_together()`
#' returns it, can be passed to `gpu_together()` again: each member receives its own array.
#'
#' `as_gpu()` of a reference copies the array to a device of the session. If the member has it on a GPU of the session's
#' host, many elements go from GPU to GPU, by CUDA's memory handles for other processes; the member makes a copy for
#' that, and both processes wait. Otherwise, and where the driver does not allow it (other containers, some virtual
#' machines), they travel through the connection of the team.
#'
#' If a member ends, the values on the other members remain: `collect()` reads them, also before [gpu_repair()]. After
#' [gpu_repair()] the references to the remaining members can be passed to `gpu_together()`. `print()` shows which
#' references are lost.
#' @param x An array, or any other value; for `as_gpu()` a reference.
#' @param dtype,... As in [as_gpu()].
#' @param device The device of the copy; the default is the current device.
#' @returns In a member: a reference of class `gpu_ref`. `collect()` of it returns the value, an array as an ordinary
#'   vector; `as_gpu()` returns an array with the dtype and the attributes of the member's. The member frees the value
#'   when R has collected the reference.
#' @section Errors:
#' `verdigris_error_member` outside of a member, or if the member has ended; for `as_gpu()` also `verdigris_error_dtype`
#' if the value is not one of numbers, and `verdigris_error_memory`.
#' @examples
#' team <- gpu_team(c("cpu", "cpu"))
#' refs <- gpu_together(team, function() gpu_ref(as_gpu(1:3 * gpu_team_rank())))
#' gpu_together(team, function(x) sum(x), refs)
#' collect(refs[[2]])
#' as_gpu(refs[[2]])
#' @export
gpu_ref <- function(x) {
  member <- running_member()
  member$refs <- (member$refs %||% 0) + 1
  # the team's id is part of the name: in a repaired team another member may have this rank
  id <- sprintf("ref %s %d.%.0f", member$team, member$rank, member$refs)
  member$store[[id]] <- x
  reference_of(list(id = id, rank = member$rank, shape = shape_of(x)))
}
