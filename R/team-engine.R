# How the session reaches the members of a team. An engine sends each member a task and returns a list by rank: each
# element is list(value), list(error), or list(lost) for a member that no longer answers. Scheduling is left to what
# started the members: `parallel` for a cluster, mirai for a profile, this process, or a launcher.

# `requests(rank)` is list(task, args). `patience` is how many seconds to wait for the other members once one has
# failed, `limit` how many to wait for all of them.
ask <- function(engine, requests, patience, limit = Inf) engine$ask(requests, patience, limit)

# ---- a cluster of parallel's -------------------------------------------------------------------------

# In a worker: loads the package, from the session's library if it is not on the worker's own path, and runs a task.
relay <- function(task, args, paths) {
  if (!requireNamespace("verdigris", quietly = TRUE)) loadNamespace("verdigris", lib.loc = paths)
  get("team_serve", envir = asNamespace("verdigris"))(task, args)
}
environment(relay) <- baseenv()

library_paths <- function() unique(c(dirname(getNamespaceInfo(topenv(), "path")), .libPaths()))

# Sends a worker its request. parallel's clusterCall() stops if a worker has died, and leaves the others' answers
# unread.
send_call <- function(node, request, paths) {
  f <- get("sendCall", envir = asNamespace("parallel"))
  if (inherits(node, c("SOCKnode", "SOCK0node"))) class(node) <- c("verdigris_node", class(node))
  f(node, relay, list(request$task, request$args, paths))
}

# serialize() writes to a socket in pieces, and the kernel holds the second piece until the first is acknowledged, which
# takes 40 ms. A single write is sent at once. Large data are not copied for that.
SINGLE_WRITE_BYTES <- 2^24
send_in_one_write <- function(node, data) {
  xdr <- !inherits(node, "SOCK0node")
  if (utils::object.size(data) > SINGLE_WRITE_BYTES) serialize(data, node$con, xdr = xdr) else
    writeBin(serialize(data, NULL, xdr = xdr), node$con)
}

receive_answer <- function(node) {
  answer <- get("recvResult", envir = asNamespace("parallel"))(node)
  if (inherits(answer, "try-error")) return(list(error = list(message = trimws(as.character(answer)),
    class = "verdigris_error_member")))
  answer
}

# Which nodes have something to read, after at most `seconds`. TRUE for all if some are not sockets.
ready <- function(nodes, seconds) {
  sockets <- lapply(nodes, function(node) if (inherits(node, c("SOCKnode", "SOCK0node"))) node$con)
  if (any(vapply(sockets, is.null, NA))) return(rep(TRUE, length(nodes)))
  socketSelect(sockets, timeout = seconds)
}

now <- function() proc.time()[["elapsed"]]

cluster_engine <- function(cluster) {
  engine <- new.env(parent = emptyenv())
  engine$nodes <- lapply(seq_along(cluster), function(k) cluster[[k]])
  engine$unread <- integer(length(cluster))
  engine$size <- length(cluster)
  engine$kind <- "cluster"
  paths <- library_paths()
  engine$ask <- function(requests, patience, limit) {
    answers <- vector("list", engine$size)
    lose <- function(k, why) answers[[k]] <<- list(lost = why)
    # answers that an interrupt left unread would be taken for answers to this call
    for (k in seq_len(engine$size)) {
      while (engine$unread[k] > 0L && is.null(answers[[k]])) {
        if (!ready(engine$nodes[k], patience)) lose(k, "it is still busy with an earlier call") else
          tryCatch(receive_answer(engine$nodes[[k]]), error = function(e) lose(k, "its process has ended"))
        engine$unread[k] <- engine$unread[k] - 1L
      }
      if (is.null(answers[[k]])) tryCatch({
        send_call(engine$nodes[[k]], requests(k), paths)
        engine$unread[k] <- engine$unread[k] + 1L
      }, error = function(e) lose(k, "its process has ended"))
    }
    deadline <- now() + limit
    repeat {
      waiting <- which(vapply(answers, is.null, NA))
      if (!length(waiting)) break
      there <- waiting[ready(engine$nodes[waiting], 0.2)]
      for (k in there) {
        answer <- tryCatch(receive_answer(engine$nodes[[k]]), error = function(e) list(lost = "its process has ended"))
        engine$unread[k] <- engine$unread[k] - 1L
        answers[[k]] <- answer
        if (is.null(answer$error) && is.null(answer$lost)) next
        # in a collective that timed out, the others have already waited for the member that their errors name
        late <- grepl("has not come within", answer$error$message %||% "", fixed = TRUE)
        deadline <- min(deadline, now() + if (late) 2 else patience)
      }
      if (!length(there) && now() > deadline) for (k in waiting) lose(k, "it does not answer")
    }
    answers
  }
  engine$without <- function(lost) {
    rest <- cluster_engine(engine$nodes[!lost])
    rest$unread <- engine$unread[!lost]
    rest
  }
  engine
}

# ---- engines that reach all workers at once ----------------------------------------------------------

# mirai does not say which worker takes which call, so all workers get all requests, and each picks its own by host and
# process. `everywhere(f, args, patience, limit)` calls f once in each worker and returns the values in any order; a
# worker that failed, or did not answer in time, has another value than a list.
broadcast_engine <- function(everywhere) {
  engine <- new.env(parent = emptyenv())
  engine$kind <- "everywhere"
  hello <- Filter(is.list, everywhere(relay, list("introduce", list(), library_paths()), Inf, Inf))
  engine$workers <- sort(vapply(hello, function(answer) answer$value, ""))
  engine$size <- length(engine$workers)
  engine$ask <- function(requests, patience, limit) {
    own <- stats::setNames(lapply(seq_len(engine$size), requests), engine$workers)
    got <- everywhere(relay, list("chosen", list(own), library_paths()), patience, limit)
    got <- Filter(function(answer) is.list(answer) && !is.null(answer$value$answer), got)
    names(got) <- vapply(got, function(answer) answer$value$worker, "")
    lapply(engine$workers, function(worker) got[[worker]]$value$answer %||% list(lost = "its process has ended"))
  }
  engine$without <- function(lost) broadcast_engine(everywhere)
  engine
}

mirai_engine <- function(profile, call) {
  if (!requireNamespace("mirai", quietly = TRUE)) stop_verdigris("library",
    sprintf("\"%s\" is not a device. It may be a profile of mirai, but mirai is not installed.", profile),
    "Devices are \"cpu\", \"cuda:0\" and so on; see `gpu_devices()`.", call = call)
  everywhere <- get("everywhere", envir = asNamespace("mirai"))
  unresolved <- get("unresolved", envir = asNamespace("mirai"))
  broadcast_engine(function(f, args, patience, limit) {
    started <- everywhere(do.call(f, args), .args = list(f = f, args = args), .compute = profile)
    values_in_time(started, unresolved, function(m) m$data, patience, limit)
  })
}

# The values of calls under way, NULL for one that does not end within `limit` seconds, or `patience` seconds after
# another has failed: its value is no list, or says so.
values_in_time <- function(started, unresolved, value, patience, limit) {
  has_failed <- function(value) !is.list(value) || !is.null(value$error) || is.list(value$value) &&
    !is.null(value$value$answer$error)
  deadline <- now() + limit
  nap <- 1e-4
  seen <- logical(length(started))
  repeat {
    waiting <- vapply(started, unresolved, NA)
    for (k in which(!waiting & !seen)) {
      seen[k] <- TRUE
      if (has_failed(value(started[[k]]))) deadline <- min(deadline, now() + patience)
    }
    if (!any(waiting) || now() > deadline) break
    Sys.sleep(nap)
    nap <- min(2 * nap, 0.02)
  }
  lapply(seq_along(started), function(k) if (!waiting[k]) value(started[[k]]))
}

# ---- this process ------------------------------------------------------------------------------------

# An engine whose members are in this process: all members of a team of devices, which work one after the other; or this
# process's own member of a launcher's team, in which each process runs the same code. Errors of the user's function are
# not caught, so that they can be debugged.
own_engine <- function(members, kind, size) {
  engine <- new.env(parent = emptyenv())
  engine$kind <- kind
  engine$size <- size
  engine$members <- members
  engine$ask <- function(requests, patience, limit) {
    asked <- lapply(members, function(member) requests(member$rank))
    # all members free what they are told to, even if the task fails on one of them
    for (k in seq_along(members)) run_commands(members[[k]], asked[[k]]$commands)
    # a task that is to wait for its device does so when those of all members have begun
    answers <- rep(list(list()), length(members))
    for (k in seq_along(members)) if (!is.null(asked[[k]]$task))
      answers[[k]]$value <- as_member(members[[k]], run_task(members[[k]], c(asked[[k]]$task, begin = TRUE)))
    for (k in seq_along(members)) if (is_later(answers[[k]]$value))
      answers[[k]]$value <- as_member(members[[k]], answers[[k]]$value$finish())
    answers
  }
  engine
}

# ---- a launcher --------------------------------------------------------------------------------------

# Environment variables of each launcher: rank, size, rank and size on this host, and the run's name. RANK is set by
# torchrun and similar launchers. Slurm is last, because a job of Slurm may run mpirun.
LAUNCHERS <- list(
  c("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"),
  c("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_NAMESPACE"),
  c("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID"),
  c("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "", "SLURM_JOB_ID")
)

# The place of this process in a launcher's run: `rank` from 1, `size`, `local` (rank on this host, from 0), `run`
# (name), `here` (whether all processes are on this host) and `local_size` (how many are on this host).
launched <- function(call = parent.frame()) {
  value <- function(name) if (nzchar(name)) Sys.getenv(name) else ""
  number <- function(name) suppressWarnings(as.numeric(value(name)))
  for (names in LAUNCHERS) {
    rank <- number(names[1L])
    size <- number(names[2L])
    if (is.na(rank) || is.na(size)) next
    if (rank < 0 || size < 1 || rank >= size || rank %% 1 != 0 || size %% 1 != 0) stop_verdigris("argument",
      sprintf("Environment variables `%s` and `%s` must be a rank from 0 and a number of processes, not %s and %s.",
        names[1L], names[2L], value(names[1L]), value(names[2L])), call = call)
    run <- paste(c(value(names[5L]), value("SLURM_STEP_ID")), collapse = "_")
    # without a name: the processes that one launcher started on one host have the same parent
    if (!nzchar(value(names[5L]))) run <- sprintf("parent%.0f", .Call(C_team_parent))
    if (nzchar(value("VERDIGRIS_TEAM"))) run <- value("VERDIGRIS_TEAM")
    here <- if (names[1L] == "SLURM_PROCID") identical(value("SLURM_JOB_NUM_NODES"), "1") else
      is.na(number(names[4L])) || number(names[4L]) == size
    local <- number(names[3L])
    return(list(rank = rank + 1, size = size, local = if (is.na(local)) rank else local, run = run, here = here,
      local_size = if (here) size else max(1, number(names[4L]), na.rm = TRUE)))
  }
  stop_verdigris("member", "This process was not started by a launcher.", c(
    "Start it by `mpirun -n 2 Rscript script.R`, `srun`, or a launcher that sets RANK and WORLD_SIZE.",
    "Without a launcher, `gpu_team(cluster)` makes a team of a cluster's workers."), call = call)
}

# The file in which the first member publishes its address. Only this user can write it.
meeting_file <- function(place) {
  folder <- Sys.getenv("VERDIGRIS_TEAM_DIR")
  if (!nzchar(folder)) folder <- if (place$here) dirname(tempdir()) else tools::R_user_dir("verdigris", "cache")
  if (!dir.exists(folder)) dir.create(folder, recursive = TRUE, showWarnings = FALSE)
  file.path(folder, sprintf("verdigris-team-%s-%s", Sys.info()[["user"]], gsub("[^A-Za-z0-9_.-]", "-", place$run)))
}

# Connects this process to the others, and returns the connection; NULL if there are no others.
join_launched <- function(place, timeout, call, device, gpus) {
  if (place$size == 1) return(NULL)
  file <- meeting_file(place)
  join <- function(listener, address, port, token, timeout) .Call(C_team_join, listener, address, port, token,
    place$rank - 1, place$size, timeout, own_version(), device, gpus)
  if (place$rank == 1) {
    address <- if (place$here) "127.0.0.1" else Sys.info()[["nodename"]]
    made <- .Call(C_team_listen, address, 0, NULL)
    mask <- Sys.umask("077")
    on.exit(Sys.umask(mask))
    written <- paste0(file, "-", Sys.getpid())
    on.exit(unlink(c(written, file)), add = TRUE)
    writeLines(c(address, format(made$port), made$token), written)
    if (!file.rename(written, file)) stop_verdigris("member", sprintf("\"%s\" cannot be written.", file),
      "Set environment variable VERDIGRIS_TEAM_DIR to a folder that all members can read and write.", call = call)
    return(join(made$listener, address, made$port, made$token, timeout))
  }
  deadline <- now() + timeout
  repeat {
    if (file.exists(file) && identical(file.info(file)$uname, unname(Sys.info()[["user"]]))) {
      # the file may be left from an earlier run: then the connection is refused or closed, and the file is read again
      said <- tryCatch(readLines(file, warn = FALSE), error = function(e) NULL, warning = function(w) NULL)
      is_address <- length(said) == 3L && grepl("^[0-9]+$", said[2L])
      link <- if (is_address) tryCatch(join(NULL, said[1L], as.numeric(said[2L]), said[3L], max(deadline - now(), 0.1)),
        verdigris_error_member = identity)
      if (inherits(link, "externalptr")) return(link)
      if (inherits(link, "error") && !grepl("closed|cannot reach", conditionMessage(link))) stop(link)
    }
    if (now() > deadline) stop_verdigris("member", sprintf("Member 1 has left no address in \"%s\" within %g s.", file,
      timeout), "Set environment variable VERDIGRIS_TEAM_DIR to a folder that all members can read and write.",
      call = call)
    Sys.sleep(0.02)
  }
}
