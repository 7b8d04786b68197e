#' Report on the GPU and CUDA's libraries
#'
#' Prints one sentence that says what to do, then the system, the NVIDIA driver, the devices, the version and path of
#' every CUDA library, the cache of compiled kernels and the package's options. For each problem it prints the command
#' that solves it. Libraries that this version does not use are listed as such, whether they are installed or not. Run
#' it first when a GPU is not used, and include its output in a bug report.
#'
#' It searches again for libraries that were missing, so it can be repeated after an installation. Libraries that were
#' found are kept until R is restarted. The search loads the libraries, which takes a second or two, and initialises
#' CUDA in this process.
#'
#' Libraries are searched in this order: option `verdigris.cuda_path` (folders or files) and the environment variable
#' `VERDIGRIS_CUDA_PATH`; libraries already loaded by the process; the R package `cuda12.8` and its other versions;
#' `CUDA_HOME` and `CUDA_PATH`; the library folder of torch for R; Python and conda environments; the system's loader;
#' `/usr/local/cuda`. Versions that the driver supports are preferred.
#'
#' @returns A list of class `gpu_sitrep`, invisibly: `summary` (the sentence), `system`, `driver`, `devices` (see
#'   [gpu_devices()]), `libraries` (a list for each, with `version`, `path` and `origin`, or `error` and `remedy`),
#'   `problem` (why a GPU cannot be used, or `NULL`), `cache` and `options`.
#' @examples
#' gpu_sitrep()
#' @export
gpu_sitrep <- function() {
  report <- tryCatch(
    .Call(C_library_report),
    verdigris_error = function(e)
      list(driver = list(error = conditionMessage(e), advice = character()), libraries = list())
  )
  report$driver$broken <- tryCatch(!is.null(.Call(C_driver_problem)), verdigris_error = function(e) FALSE)
  problem <- tryCatch(
    {
      .Call(C_device_works, "cuda")
      NULL
    },
    verdigris_error = function(e) conditionMessage(e)
  )
  # an invalid option makes the list of devices fail
  devices <- tryCatch(device_table(), verdigris_error = function(e) {
    if (is.null(problem)) problem <<- conditionMessage(e)
    data.frame()
  })
  cache <- cache_folder()
  files <- if (is.null(cache)) character() else list.files(cache, "[.]bin$", full.names = TRUE)
  names <- grep("^verdigris[.]", names(options()), value = TRUE)
  found <- structure(
    list(
      summary = to_do(report$driver, devices, report$libraries, problem, machine_facts()),
      system = list(
        version = as.character(utils::packageVersion("verdigris")),
        r = as.character(getRversion()),
        platform = R.version$platform,
        os = utils::sessionInfo()$running %||% "unknown system"
      ),
      driver = report$driver,
      devices = devices,
      libraries = report$libraries,
      problem = problem,
      cache = list(path = cache, files = length(files), bytes = sum(file.size(files), na.rm = TRUE),
        problem = .Call(C_cache_problem)),
      options = options()[names]
    ),
    class = "gpu_sitrep"
  )
  print(found)
  invisible(found)
}

# The package's options. Any other option named `verdigris.*` is reported as a mistake.
OPTIONS <- paste0("verdigris.", c(
  "cache_dir", "cache_size", "cuda_path", "debug", "device", "dtype", "host_access", "matmul_precision", "memory_limit",
    "pinned_limit", "preload", "threads", "tier", "transfer_threads"
))

# Libraries whose absence is not reported as a problem. cuSPARSE is not among them, as cuSOLVER loads it.
OPTIONAL_LIBRARIES <- "NCCL"

# Facts about the machine: whether its PCI buses have an NVIDIA GPU, whatever the driver reports, and whether this is a
# container, where /sys shows the buses of its host.
machine_facts <- function() {
  read <- function(path) tryCatch(suppressWarnings(readLines(path, warn = FALSE)), error = function(e) character())
  folders <- list.files("/sys/bus/pci/devices", full.names = TRUE)
  is_gpu <- function(folder)
    identical(read(file.path(folder, "vendor")), "0x10de") && any(startsWith(read(file.path(folder, "class")), "0x03"))
  list(
    gpu = any(vapply(folders, is_gpu, NA)),
    container = any(file.exists(c("/.dockerenv", "/run/.containerenv"))) || nzchar(Sys.getenv("SINGULARITY_NAME")) ||
      nzchar(Sys.getenv("APPTAINER_NAME")) || any(grepl("docker|containerd|kubepods|lxc", read("/proc/1/cgroup")))
  )
}

# The report's first sentence: what to do.
to_do <- function(driver, devices, libraries, problem, around) {
  remedies <- unique(unlist(lapply(libraries[setdiff(names(libraries), OPTIONAL_LIBRARIES)], function(l)
    if (!is.null(l$error)) l$remedy)))
  install <- if (length(remedies)) sprintf("run `%s`, then restart R", remedies[1L])
  gpus <- devices[devices$device != "cpu", , drop = FALSE]
  if (is.null(driver$error) && is.null(problem) && nrow(gpus)) {
    works <- sprintf("%s (%s) works", gpus$device[1L], gpus$name[1L])
    return(if (is.null(install)) paste0(works, ", nothing to do.") else
      sprintf("%s. Do this for the libraries that are missing: %s.", works, install))
  }
  if (is.null(driver$error)) {
    if (!nrow(gpus)) return("Do this: make a GPU visible, the driver shows none (see `CUDA_VISIBLE_DEVICES`).")
    return(sprintf("Do this: %s.", install %||% sub("[.]?$", "", problem)))
  }
  if (around$container && !isTRUE(driver$broken)) {
    return(if (around$gpu) {
      "Do this: start the container with `--gpus all`; its host has an NVIDIA GPU that is not visible inside."
    } else {
      paste("No NVIDIA GPU in this container: everything runs on the cpu device, nothing to do; if its host has one,",
        "start the container with `--gpus all`.")
    })
  }
  if (!around$gpu && !isTRUE(driver$broken))
    return("No NVIDIA GPU: everything runs on the cpu device, nothing to do.")
  advice <- if (length(driver$advice)) driver$advice[[1L]] else "Install NVIDIA's driver."
  paste0("Do this: ", tolower(substr(advice, 1L, 1L)), substring(advice, 2L))
}

#' @export
print.gpu_sitrep <- function(x, ...) {
  good <- function(...) cli::cat_line(cli::col_green(cli::symbol$tick), " ", ...)
  bad <- function(...) cli::cat_line(cli::col_red(cli::symbol$cross), " ", ...)
  advise <- function(text) cli::cat_line("  ", cli::symbol$arrow_right, " ", text)
  aside <- function(...) cli::cat_line(cli::col_grey("  ", ...))

  cli::cat_rule(paste("verdigris", x$system$version))
  for (line in strwrap(x$summary, cli::console_width())) cli::cat_line(cli::style_bold(line))
  cli::cat_line("R ", x$system$r, ", ", x$system$platform, ", ", x$system$os)

  cli::cat_rule("Driver")
  if (is.null(x$driver$error)) {
    release <- if (nzchar(x$driver$version)) paste("NVIDIA driver", x$driver$version) else "NVIDIA driver"
    good(release, " serves CUDA ", x$driver$cuda)
    aside(x$driver$path)
  } else {
    bad(x$driver$error)
    for (text in x$driver$advice) advise(text)
  }

  cli::cat_rule("Devices")
  for (k in seq_len(nrow(x$devices))) {
    d <- x$devices[k, ]
    facts <- c(
      if (!is.na(d$memory)) format_bytes(d$memory),
      if (nzchar(d$capability)) paste("compute capability", d$capability),
      paste(d$processors, if (nzchar(d$capability)) "multiprocessors" else if (d$processors == 1) "thread" else
        "threads"),
      if (d$current) "current"
    )
    good(cli::style_bold(d$device), ": ", d$name, " (", paste(facts, collapse = ", "), ")")
  }
  # errors of the driver have been printed above
  if (!is.null(x$problem) && is.null(x$driver$error)) bad("No GPU is used by default: ", x$problem)

  cli::cat_rule("CUDA libraries")
  remedies <- character()
  for (name in names(x$libraries)) {
    found <- x$libraries[[name]]
    if (name %in% OPTIONAL_LIBRARIES && !is.null(found$error)) {
      cli::cat_line("- ", found$error, "; it is needed for ", found$purpose)
      if (nzchar(found$detail)) aside(gsub("\n", "\n  ", found$detail))
      if (length(found$remedy)) aside(found$remedy)
    } else if (is.null(found$error)) {
      good(cli::style_bold(name), " ", found$version, ": ", found$purpose)
      aside(found$path, " (", found$origin, ")")
    } else {
      bad(found$error)
      if (nzchar(found$detail)) aside(gsub("\n", "\n  ", found$detail))
      remedies <- union(remedies, found$remedy)
    }
  }
  if (is.null(x$driver$error)) {
    for (text in remedies) advise(paste0("For what is missing: `", text, "`, then restart R."))
  } else if (length(remedies)) {
    aside("The cpu device needs none of them; a GPU does: ", paste0("`", remedies, "`", collapse = ", "))
  }

  cli::cat_rule("Cache and options")
  if (is.null(x$cache$path)) {
    cli::cat_line("Compiled kernels are not kept between sessions.")
  } else {
    cli::cat_line(sprintf("%d compiled kernels, %s, in %s", x$cache$files, format_bytes(x$cache$bytes), x$cache$path))
    if (!is.null(x$cache$problem)) {
      bad("They are not used: ", x$cache$problem)
      advise(cache_remedy(x$cache$path))
    }
  }
  for (name in names(x$options)) {
    text <- paste0(name, " = ", paste(deparse(x$options[[name]]), collapse = " "))
    if (name %in% OPTIONS) cli::cat_line(text) else bad(text, ": there is no such option")
  }
  paths <- x$options$verdigris.cuda_path
  for (path in if (is.character(paths)) paths[!file.exists(paths)])
    bad("Option `verdigris.cuda_path`: ", path, " does not exist")
  invisible(x)
}

# Reads the options and environment variables that are read once in a process, unless that has been done. Returns the
# message about an invalid one, or NULL.
start_problem <- function() tryCatch(.Call(C_start_options), verdigris_error = conditionMessage)

# The folder of compiled kernels, or NULL if option verdigris.cache_dir is NA, FALSE or no path.
cache_folder <- function() {
  folder <- getOption("verdigris.cache_dir", tools::R_user_dir("verdigris", "cache"))
  if (is_readable(folder) && length(folder) == 1L && !is.na(folder)) path.expand(folder)
}

# The message about a cache folder that is not used, or NULL. A folder must be private: kernels are code that runs with
# the user's rights.
cache_message <- function() {
  why <- .Call(C_cache_problem)
  if (!is.null(why)) sprintf("The folder of compiled kernels, %s, is not used: %s.\n%s", cache_folder(), why,
    cache_remedy(cache_folder()))
}

cache_remedy <- function(path) {
  sprintf("Make it private: `Sys.chmod(%s, \"700\")`; or choose another folder: option `verdigris.cache_dir`.",
    deparse(path))
}

# R packages such as cuda12.8, which contain NVIDIA's libraries; the newest first.
cuda_packages <- function() {
  found <- list.files(.libPaths(), "^cuda1[2-9][.][0-9]+$", full.names = TRUE)
  found[order(numeric_version(sub("^cuda", "", basename(found))), decreasing = TRUE)]
}

# The folders where torch for R may keep its libraries. Does not load torch.
torch_folders <- function() {
  folders <- c(Sys.getenv("TORCH_HOME"), system.file(package = "torch"))
  folders[nzchar(folders)]
}

# The message of .onAttach(), in one line. Loads no CUDA library, so that a process forked later can still use CUDA.
attach_message <- function() {
  version <- utils::packageVersion("verdigris")
  driver <- .Call(C_device_hint)
  found <- if (is.null(driver)) {
    "no NVIDIA driver found, arrays are made on the cpu"
  } else if (nzchar(driver)) {
    paste("NVIDIA driver", driver)
  } else {
    "NVIDIA driver found"
  }
  sprintf("verdigris %s (%s); gpu_sitrep() tells more", version, found)
}
