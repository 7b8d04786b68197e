# gpu_team(), gpu_together() and gpu_repair(): the session's side of a team. The members are devices of this process,
# workers of a cluster, or processes that a launcher has started.

#' Teams of GPUs and workers
#'
#' A team makes several devices compute together: the devices of this process, one device in each worker of a cluster,
#' or one in each process that a launcher has started. The cluster or the launcher starts, places and ends the workers;
#' a team adds collectives ([gpu_all_reduce()]) and matrices that are split over the members ([gpu_split()]).
#'
#' `gpu_together()` runs a function on all members at once. A split among its arguments is passed to each member as that
#' member's part, and a list of [gpu_ref()]s as that member's own array; other arguments are passed whole. In a team of
#' this process the members run one after the other, and the function cannot call collectives; in a team of a cluster it
#' can.
#'
#' Workers on one host share its cores. Each worker computes on the cpu device, and copies to and from its GPU, with a
#' number of threads that is the number of cores divided by the number of workers on the host. Option
#' `verdigris.threads` of a worker, or its environment variable `RAYON_NUM_THREADS`, sets another number.
#'
#' The workers of a host take its GPUs in turn, or the cpu if it has none; option `verdigris.device` of a worker takes
#' precedence. Members connect to each other over TCP: on one host by the loopback address, else by the addresses that
#' the cluster uses. A connection must present a random token of 128 bits, which is sent only over the cluster's own
#' connections. As in MPI, connections are not encrypted. Received data are never unserialised.
#'
#' # Transports
#'
#' Transport "nccl" sends arrays from GPU to GPU, by NVLink, PCIe or the network, as selected by NCCL (`libnccl.so.2`;
#' its environment variables apply). Every member needs its own GPU. A collective is queued on the GPU like other work;
#' over TCP the members exchange only the names of the collectives that they have called. Transport "host" copies arrays
#' to the host and sends them over TCP. Ordinary vectors, and arrays on the cpu device, are always sent over TCP.
#' `"auto"` is "nccl" if all members have GPUs and NCCL, else "host". The GPUs of one process copy to each other
#' directly, if the machine allows it.
#'
#' # Members that fail
#'
#' If the function fails on a member, the collectives in which the other members wait fail too, and the error names the
#' member; the team can be used again at once. If a member's process ends, the remaining members get an error of class
#' `verdigris_error_member`, and `gpu_repair()` makes a team of them: it divides the sources of splits again and makes
#' the parts anew. Results of `gpu_together(keep = TRUE)` are computed again by calling the function. If a member is
#' alive but does not call a collective, the others wait for at most `timeout` seconds.
#'
#' @param members
#' - `NULL`: all GPUs of this process, or the cpu.
#' - Names of devices: `c("cuda:0", "cuda:1")`; one may be named repeatedly.
#' - A cluster of the package parallel, such as [parallel::makePSOCKcluster()] makes.
#' - The name of a compute profile of the package mirai: each of its daemons becomes a member.
#' - `"env"`: the processes of the run that this process belongs to, as described by a launcher's environment variables
#'   (`PMI_RANK`, `OMPI_COMM_WORLD_RANK`, `SLURM_PROCID`, `RANK` and their sizes). Each process runs the same script,
#'   and is a member during the whole script, so collectives can be called anywhere.
#' @param transport How arrays are sent between members: `"nccl"`, `"host"`, or `"auto"` for the best available
#'   transport.
#' @param timeout The number of seconds to wait for members that are alive, in a collective and when the team is made.
#' @param team A team.
#' @param x A team.
#' @param bandwidth Whether the first `print()` of a team measures the bandwidth between the members, by an all-reduce
#'   of 8 MB, which takes a fraction of a second. It is not measured in a launcher's team, whose members would all have
#'   to print the team.
#' @param f A function. It is sent to the workers in the same way as by `parallel`.
#' @param ... Arguments of `f`.
#' @param keep Whether the values stay on the members, as a split.
#' @returns
#' - `gpu_team()`: a team; printing it shows the members.
#' - `gpu_together()`: a list of the values in the order of ranks, arrays on the current device; for a launcher's team
#'   a list of this member's value alone. With `keep` a split, see [gpu_split()]; its parts may be any values, but only
#'   vectors of numbers, and matrices with the same number of columns, behave like one whole.
#' - `gpu_repair()`: the same team, invisibly. Splits that were made before can be used again.
#' @section Errors:
#' `verdigris_error_argument` for invalid `members` or `timeout`; `verdigris_error_member` if the members cannot
#' connect, have different versions of this package, or one of them ends or fails: the error also has the classes of the
#' original error, `rank` names the member, and `failed` contains all members' messages. `verdigris_error_library` for a
#' transport that is not available.
#' @examples
#' team <- gpu_team(c("cpu", "cpu"))
#' team
#' x <- gpu_split(matrix(1:12, 6), team)
#' gpu_together(team, function(x, k) k * nrow(x), x, 10)
#' colSums(x * 2)
#' @export
gpu_team <- function(members = NULL, transport = c("auto", "nccl", "host"), timeout = 60) {
  transport <- one_of("transport", transport, c("auto", "nccl", "host"))
  if (!is.numeric(timeout) || length(timeout) != 1L || !isTRUE(timeout > 0 && timeout < 1e9))
    abort_argument("timeout", "a number of seconds", timeout)
  team <- new.env(parent = emptyenv())
  team$id <- sprintf("%s-%d-%.0f", Sys.info()[["nodename"]], Sys.getpid(), TEAMS$count <- TEAMS$count + 1)
  team$timeout <- as.double(timeout)
  team$wanted <- transport
  team$transport <- "host"
  team$splits <- new.env(parent = emptyenv())
  team$queue <- list()
  team$freed <- new.env(parent = emptyenv())
  team$made <- 0
  team$repairs <- 0
  call <- environment()
  if (is.null(members)) members <- setdiff(.Call(C_device_list)$device, "cpu")
  if (length(members) == 0L && is.character(members)) members <- "cpu"
  # mirai may map a node of its cluster to another process at each call, so the profile's name is used
  if (inherits(members, "miraiCluster")) members <- attr(members, "id")
  if (inherits(members, "cluster")) {
    if (!length(members)) abort_argument("members", "a cluster with workers", members)
    team$engine <- cluster_engine(members)
    connect(team, call)
  } else if (inherits(members, "broadcast_engine")) {
    team$engine <- broadcast_engine(unclass(members))
    connect(team, call)
  } else if (identical(c(members), "env")) {
    join_environment(team, call)
  } else if (is.character(members) && !anyNA(members)) {
    is_device <- grepl("^(cpu|cuda(:[0-9]+)?)$", members)
    if (length(members) == 1L && !is_device) {
      team$engine <- mirai_engine(members, call)
      connect(team, call)
    } else {
      # C_device_name raises an error for a name that is not a device
      members <- vapply(unname(members), function(name) .Call(C_device_name, name), "")
      size <- length(members)
      if (transport == "nccl" && any(members == "cpu")) stop_verdigris("library",
        "Transport \"nccl\" connects GPUs, but a member is the cpu device.",
        "`transport = \"host\"` works on all devices.")
      if (transport != "host" && all(members != "cpu")) team$transport <- "device copies"
      own <- lapply(seq_len(size), function(k) new_member(team$id, k, size, members[k]))
      team$engine <- own_engine(own, "local", size)
      team$members <- data.frame(rank = seq_len(size), device = members, host = Sys.info()[["nodename"]],
        pid = Sys.getpid())
    }
  } else {
    abort_argument("members", "names of devices, a cluster, a profile of mirai, \"env\" or NULL", members)
  }
  structure(team, class = "gpu_team")
}

TEAMS <- new.env(parent = emptyenv())
TEAMS$count <- 0

check_team <- function(team, call = parent.frame()) {
  if (!inherits(team, "gpu_team")) abort_argument("team", "a team of `gpu_team()`", team, call)
}

# Turns an engine's workers into members: all describe themselves, the first one listens on a port, and all join it.
connect <- function(team, call) {
  engine <- team$engine
  size <- engine$size
  # the first task loads the package in each worker, perhaps from a slow disk: allow 60 seconds more
  describe <- function(rank) list(task = "describe", args = list())
  about <- values_of(ask(engine, describe, team$timeout, team$timeout + 60), call)
  versions <- vapply(about, function(member) member$version, "")
  if (any(versions != own_version())) {
    other <- which(versions != own_version())[1L]
    stop_verdigris("member", sprintf("Member %d has version %s of verdigris, and this session has %s.", other,
      versions[other], own_version()), "All members need the same version.", call = call, rank = other)
  }
  hosts <- vapply(about, function(member) paste(member$host, member$boot), "")
  local <- stats::ave(seq_len(size), hosts, FUN = seq_along)
  on_cpu <- identical(getOption("verdigris.device"), "cpu")
  devices <- vapply(seq_len(size), function(k) {
    gpus <- about[[k]]$gpus
    about[[k]]$device %||% if (on_cpu || !length(gpus)) "cpu" else gpus[(local[k] - 1L) %% length(gpus) + 1L]
  }, "")
  taken <- paste(hosts, devices)[devices != "cpu"]
  if (anyDuplicated(taken)) rlang::inform(sprintf("Several members share a GPU: %d members have %d.", length(taken),
    length(unique(taken))), class = "verdigris_shared_gpu")
  # what this session has cached on the GPUs would lack its workers
  if (length(taken)) {
    gc()
    .Call(C_device_trim_all)
  }
  one_host <- length(unique(hosts)) == 1L
  address <- if (one_host) "127.0.0.1" else address_of(engine, about[[1L]]$host)
  # only the first member listens; a ping gives the others something to answer
  only_first <- function(rank) if (rank == 1L) list(task = "listen", args = list(team$id, address)) else
    list(task = "ping", args = list())
  made <- values_of(ask(engine, only_first, team$timeout), call)[[1L]]
  joins <- function(rank) list(task = "join", args = list(team$id, address, made$port, made$token, rank, size,
    devices[rank], team$timeout, wants_gpus(team, devices), sum(hosts == hosts[rank]),
    team$earlier))
  note_carrier(team, values_of(ask(engine, joins, team$timeout + 5), call)[[1L]], call)
  team$members <- data.frame(rank = seq_len(size), device = devices, host = vapply(about, function(m) m$host, ""),
    pid = vapply(about, function(m) m$pid, 1L))
  team$broken <- NULL
}

# Whether the members try to connect their GPUs by NCCL: all of them, or none.
wants_gpus <- function(team, devices) team$wanted == "nccl" || team$wanted == "auto" && all(devices != "cpu")

# Stores the transport that the members found when they joined. `why_not` is the reason why NCCL is not used, or "".
note_carrier <- function(team, found, call, quiet = FALSE) {
  team$transport <- found$carrier
  if (!nzchar(found$why_not)) return()
  if (team$wanted == "nccl") stop_verdigris("library", "The members' GPUs cannot be connected by NCCL.",
    c("`transport = \"host\"` does not need NCCL.", "`gpu_sitrep()` on a member shows whether it has a GPU and NCCL."),
    detail = found$why_not, call = call)
  if (!quiet) rlang::inform(sprintf("Transport \"host\" is used: %s.", sub("[.]$", "", found$why_not)),
    class = "verdigris_transport")
}

# The address by which the cluster reaches its first worker.
address_of <- function(engine, host) {
  named <- engine$nodes[[1L]]$host
  if (is.character(named) && length(named) == 1L && !named %in% c("localhost", "127.0.0.1")) named else host
}

join_environment <- function(team, call) {
  place <- launched(call)
  team$id <- "env"
  gpus <- setdiff(.Call(C_device_list)$device, "cpu")
  chosen <- getOption("verdigris.device")
  device <- chosen %||% if (length(gpus)) gpus[place$local %% length(gpus) + 1] else "cpu"
  # this process knows only its own device; whether all members have GPUs is found out when they join
  link <- join_launched(place, team$timeout, call, device, team$wanted != "host")
  if (!is.null(link)) note_carrier(team, .Call(C_team_carrier, link), call, quiet = device == "cpu")
  share_cores(place$local_size)
  member <- new_member(team$id, place$rank, place$size, device, link)
  RUNNING$own <- member
  finish_at_exit()
  .Call(C_device_use, device)
  team$engine <- own_engine(list(member), "env", place$size)
  team$members <- data.frame(rank = place$rank, device = device, host = Sys.info()[["nodename"]], pid = Sys.getpid())
}

#' @rdname gpu_team
#' @export
print.gpu_team <- function(x, bandwidth = TRUE, ...) {
  if (!is_flag(bandwidth)) abort_argument("bandwidth", "TRUE or FALSE", bandwidth)
  size <- x$engine$size
  if (bandwidth && is.null(x$bandwidth) && is.null(x$broken)) x$bandwidth <- bandwidth_of(x)
  measured <- if (isTRUE(x$bandwidth > 0)) sprintf(", %s GB/s", format(signif(x$bandwidth / 1e9, 2)))
  cat(sprintf("<gpu_team of %d member%s, transport %s%s>\n", size, if (size == 1L) "" else "s", x$transport,
    measured %||% ""))
  if (x$engine$kind == "env") cat(sprintf("this is member %d\n", x$members$rank))
  print(x$members, row.names = FALSE)
  if (!is.null(x$broken)) cat(sprintf("%s: `gpu_repair()` continues without it\n", x$broken))
  invisible(x)
}

# Bandwidth in bytes a second. Between processes: an all-reduce of 8 MB, counted as NCCL's tests count it. Between
# devices of this process: a copy from the first device to the second. 0 for a single member or device, and for a
# launcher's team, in which the collective would wait until the other members print the team too.
bandwidth_of <- function(team) {
  size <- team$engine$size
  bytes <- 8e6
  if (size == 1L || team$engine$kind == "env") return(0)
  if (team$engine$kind == "local") {
    devices <- unique(team$members$device)
    if (length(devices) == 1L) return(0)
    x <- gpu_ones(bytes, device = devices[1L])
    gpu_compute(x)
    return(8 * bytes / min(vapply(1:4, function(k) seconds_of(gpu_compute(as_gpu(x, device = devices[2L])), devices),
      1)))
  }
  seconds <- request_all(team, function(rank) list(f = "reduction_seconds", args = list(bytes / 8)),
    "The bandwidth could not be measured", parent.frame())
  2 * (size - 1) / size * bytes / max(unlist(seconds))
}
seconds_of <- function(code, devices) {
  began <- as.double(Sys.time())
  force(code)
  for (device in devices) gpu_sync(device)
  max(as.double(Sys.time()) - began, 1e-6)
}

# In a member: seconds of the fastest of ten all-reduces.
reduction_seconds <- function(n) {
  x <- gpu_ones(n)
  gpu_compute(x)
  # the first ones are slower: TCP is still widening its windows
  min(vapply(1:10, function(k) seconds_of(gpu_compute(gpu_all_reduce(x)), gpu_device(x)), 1))
}

#' @export
format.gpu_team <- function(x, ...) sprintf("<gpu_team of %d>", x$engine$size)

# ---- asking the members ------------------------------------------------------------------------------

# The values of an engine's answers, or an error that names the members that failed or were lost.
values_of <- function(answers, call, what = "The team could not be made") {
  failed <- failed_ranks(answers)
  if (length(failed)) fail_of(answers, failed, call, what)
  lapply(answers, function(answer) answer$value)
}

failed_ranks <- function(answers) base::which(vapply(answers, function(answer) !is.null(answer$error) ||
  !is.null(answer$lost), NA))

# Raises one error for several failures: of the function itself if there is one, else of a lost member, else of the
# team, since errors of class verdigris_error_member are mostly consequences of the others.
fail_of <- function(answers, failed, call, what) {
  messages <- vapply(answers[failed], function(answer) answer$error$message %||% paste0("member has gone: ",
    answer$lost), "")
  lost <- vapply(answers[failed], function(answer) !is.null(answer$lost), NA)
  of_team <- vapply(answers[failed], function(answer) "verdigris_error_member" %in% answer$error$class, NA)
  first <- c(which(!lost & !of_team), which(lost), which(of_team))[1L]
  rank <- failed[first]
  message <- if (lost[first]) sprintf("%s: member %d of %d has gone, %s.", what, rank, length(answers),
    answers[[rank]]$lost) else sprintf("%s on member %d of %d.", what, rank, length(answers))
  classes <- as.character(answers[[rank]]$error$class)
  parent <- structure(class = c(classes, "simpleError", "error", "condition"), list(message = messages[first],
    call = NULL))
  remedy <- "`gpu_repair(team)` continues with the members that are left."
  stop_verdigris("member", message, if (any(lost)) remedy else character(), call = call, also = classes, rank = rank,
    failed = stats::setNames(messages, failed), parent = if (!lost[first]) parent)
}

# Sends all members the queued commands and then a task, and returns the tasks' values by rank. `task(rank)` is a list
# with a function `f` and its `args` (see run_task()), or NULL.
request_all <- function(team, task, what, call) {
  if (!is.null(team$broken)) stop_verdigris("member", sprintf("The team cannot continue: %s.", team$broken),
    "`gpu_repair(team)` continues with the members that are left.", call = call)
  queue <- team$queue
  team$queue <- list()
  freed <- names(team$freed)
  if (length(freed)) {
    rm(list = freed, envir = team$freed)
    queue <- c(queue, list(list(do = "free", ids = freed)))
  }
  asked <- function(rank) list(commands = lapply(queue, for_rank, rank), task = for_rank(task(rank), rank))
  requests <- if (are_here(team)) asked else function(rank) list(task = "run", args = c(list(team$id), asked(rank)))
  answers <- ask(team$engine, requests, team$timeout)
  # errors in this process are not caught
  failed <- if (!are_here(team)) failed_ranks(answers)
  if (!length(failed)) return(lapply(answers, function(answer) answer$value))
  lost <- which(vapply(answers, function(answer) !is.null(answer$lost), NA))
  if (length(lost)) {
    team$broken <- sprintf("member %s has gone", paste(lost, collapse = ", "))
    team$engine$lost <- seq_len(team$engine$size) %in% lost
  } else {
    # the failure has closed the connections, but all members are alive: connect them again
    tryCatch(connect(team, call), error = function(e) team$broken <- "it could not be connected again")
  }
  fail_of(answers, failed, call, what)
}

# A command or task for one rank, or NULL.
for_rank <- function(command, rank) {
  if (!is.null(command)) command$args <- lapply(command$args, wire_for_rank, rank)
  command
}
# Arguments of class team_each are functions of the rank.
wire_for_rank <- function(arg, rank) if (inherits(arg, "team_each")) unclass(arg)(rank) else arg

#' @rdname gpu_team
#' @export
gpu_together <- function(team, f, ..., keep = FALSE) {
  check_team(team)
  f <- function_of("f", f)
  if (!is_flag(keep)) abort_argument("keep", "TRUE or FALSE", keep)
  call <- environment()
  args <- lapply(list(...), argument_of, team, call)
  if (keep) return(kept_split(team, f, args, call))
  args <- lapply(args, task_argument)
  values <- request_all(team, function(rank) list(f = f, args = args), "`f` failed", call)
  lapply(values, receive_value, team)
}

# An argument in the form that members receive: a split, a function of the rank that gives a reference, or the value.
argument_of <- function(x, team, call) {
  if (is_split(x)) {
    check_team_of(x, team, call)
    return(x)
  }
  if (inherits(x, "gpu_ref")) x <- list(x)
  if (is.list(x) && !is.object(x) && length(x) && all(vapply(x, inherits, NA, "gpu_ref"))) {
    if (!all(vapply(x, function(ref) identical(fields_of(ref)$of, team), NA))) stop_verdigris("argument",
      "The references belong to another team.", call = call)
    ranks <- vapply(x, rank_of, 1L)
    if (anyNA(ranks)) stop_verdigris("member", sprintf("A reference's array was lost: %s.",
      format(x[is.na(ranks)][[1L]])), "Pass the references to the members that are left, or make the arrays again.",
      call = call)
    if (!identical(sort(ranks), seq_len(team$engine$size))) stop_verdigris("argument",
      "A list of references must have one from each member of this team, as `gpu_together()` returns it.", call = call)
    x <- x[order(ranks)]
    return(structure(function(rank) part_named(fields_of(x[[rank]])$id), class = "team_each"))
  }
  x
}

# A value received from a member: an array is uploaded once; a reference gets a finalizer that frees the member's value.
receive_value <- function(value, team) {
  if (is_gpu(value)) return(as_gpu(value))
  if (!inherits(value, "gpu_ref")) return(value)
  owner <- new.env(parent = emptyenv())
  fields <- fields_of(value)
  id <- fields$id
  reg.finalizer(owner, function(owner) release(team, id))
  reference_of(c(fields[c("id", "rank", "shape")], list(team = team$id, of = team, owner = owner)))
}
reference_of <- function(fields) remote_object("gpu_ref", fields = fields)

# The rank of the member that holds a reference's array. A repair changes ranks. NA if the array was lost with its
# member.
rank_of <- function(ref) {
  fields <- fields_of(ref)
  team <- fields$of
  if (is.null(team)) return(as.integer(fields$rank))
  rank <- as.integer(fields$rank)
  if (!is.null(team$ranks[[fields$team]])) rank <- team$ranks[[fields$team]][rank]
  if (!is.na(rank) && is.null(team$before) && isTRUE(team$engine$lost[rank])) NA_integer_ else rank
}
# Records the new ranks of the members of an earlier team, for rank_of().
note_ranks <- function(team, id, members) {
  whose <- function(members) paste(members$host, members$pid)
  now <- match(whose(members), whose(team$members))
  team$ranks <- c(lapply(team$ranks, function(before) now[before]), stats::setNames(list(now), id))
}

# Lets the members free a part with the next request, after the queued commands. Finalizers call this, perhaps in the
# middle of an assignment to the queue, so the ids are kept apart from the queue.
release <- function(team, id) assign(id, TRUE, envir = team$freed)

#' @export
print.gpu_ref <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}
#' @export
format.gpu_ref <- function(x, ...) {
  shape <- fields_of(x)$shape
  size <- if (shape$kind == "object") shape$type else paste(c(shape$rows, shape$columns), collapse = " x ")
  rank <- rank_of(x)
  sprintf("<gpu_ref to a %s [%s] %s>", shape$kind, size, if (is.na(rank)) "that was lost with its member" else sprintf(
    "of member %d", rank))
}

#' @export
collect.gpu_ref <- function(x, ...) {
  if (...length()) rlang::check_dots_empty()
  call <- environment()
  collect(referred(x, call, function(ask_member, part) ask_member("collect", part)))
}

# The array itself: between GPUs of one host by a copy that the member exports.
#' @rdname gpu_ref
#' @export
as_gpu.gpu_ref <- function(x, dtype = NULL, device = NULL, ...) {
  if (...length()) rlang::check_dots_empty()
  call <- environment()
  device <- .Call(C_device_name, device)
  value <- referred(x, call, function(ask_member, part) {
    is_other_process <- !fields_of(x)$of$engine$kind %in% c("local", "env")
    exported <- if (is_other_process && device != "cpu") ask_member("export_to", part, this_host())
    if (is.null(exported)) return(ask_member("identity", part))
    array <- .Call(C_team_import, exported$handle, exported$dtype, exported$length, device)
    ask_member("free_export")
    if (is.null(array)) ask_member("identity", part) else with_attributes(array, exported$attributes)
  })
  as_gpu(value, dtype = dtype, device = device)
}

# A reference's value. `get` receives it from a team that works: from the reference's part, and a function that calls a
# function of this package in the part's member.
referred <- function(x, call, get) {
  ref <- fields_of(x)
  team <- ref$of
  if (is.null(team)) return(part_of(x, running_member()))
  at <- rank_of(x)
  if (is.na(at)) stop_verdigris("member", "The array was lost with its member.", "Make it again.", call = call)
  if (!is.null(team$broken)) return(kept_array(team, ref$id, call))
  ask_member <- function(f, ...) {
    task <- list(f = f, args = list(...))
    request_all(team, function(rank) if (rank == at) task, "The array could not be copied", call)[[at]]
  }
  get(ask_member, part_named(ref$id))
}

# A reference's value after its team broke: asks each living member whether it holds the value.
kept_array <- function(team, id, call) {
  lost <- team$engine$lost %||% logical(team$engine$size)
  rest <- if (any(lost)) team$engine$without(lost) else team$engine
  answers <- ask(rest, function(rank) list(task = "fetch", args = list(c(team$id, team$earlier), id)), 5, team$timeout)
  found <- Filter(function(answer) length(answer$value), answers)
  if (length(found)) return(found[[1L]]$value[[1L]])
  values_of(answers, call, "The array could not be collected")
  stop_verdigris("member", "The array was lost with its member.", "Make it again.", call = call)
}

#' @rdname gpu_team
#' @export
gpu_repair <- function(team) {
  check_team(team)
  call <- environment()
  engine <- team$engine
  if (engine$kind == "env") stop_verdigris("member", "A launcher's team cannot be repaired.",
    c("A launcher ends all processes of a run when one fails; Slurm's `--requeue` starts the run again.",
    "Save intermediate results, and let the script resume from them."))
  if (engine$kind == "local") return(invisible(team))
  # lost members are not asked again: their answers to an earlier call could still arrive
  rest <- if (any(engine$lost)) engine$without(engine$lost) else engine
  answers <- ask(rest, function(rank) list(task = "ping", args = list()), 5, 5)
  gone <- vapply(answers, function(answer) is.null(answer$value), NA)
  if (all(gone)) stop_verdigris("member", "No member of the team is left.", "Make a new cluster and a new team.")
  team$engine <- if (any(gone)) rest$without(gone) else rest
  # the last complete team, which stays the same if this repair fails and another one follows
  team$before <- team$before %||% list(id = team$id, members = team$members)
  team$earlier <- c(team$earlier, team$id)
  team$repairs <- team$repairs + 1
  team$id <- sub("(/[0-9]+)?$", sprintf("/%d", team$repairs), team$id)
  team$queue <- list()
  team$bandwidth <- NULL
  team$broken <- "it could not be connected again"
  connect(team, call)
  note_ranks(team, team$before$id, team$before$members)
  team$before <- NULL
  make_again(team, call)
  invisible(team)
}
