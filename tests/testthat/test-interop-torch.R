# Runs on a stand-in for torch for R (tests/torch/README.md). Its own tensors are on the CPU; borrowed ones may be on
# the emulated GPU.

stand_in <- local({
  made <- NULL
  function() {
    if (!is.null(made)) return(made)
    sources <- test_path("..", "torch")
    skip_if_not(dir.exists(sources), "tests/torch is not there")
    skip_if_not(Sys.info()[["sysname"]] == "Linux", "tensors are shared on Linux only")
    skip_if(nzchar(system.file(package = "torch")), "torch for R itself is installed")
    skip_if(test_device != "cpu" && !emulated, "the stand-in's tensors are in memory that the host reads")
    folder <- tempfile("torch")
    dir.create(file.path(folder, "library"), recursive = TRUE)
    file.copy(sources, folder, recursive = TRUE)
    compiler <- function(of) system2(file.path(R.home("bin"), "R"), c("CMD", "config", of), stdout = TRUE)
    lantern <- function(name, source, flags = character()) {
      dir.create(file.path(folder, name, "lib"), recursive = TRUE)
      command <- paste(c(compiler("CXX"), "-O1 -w -fPIC -shared -o", file.path(folder, name, "lib", "liblantern.so"),
        file.path(sources, source), flags), collapse = " ")
      expect_identical(system(command), 0L)
    }
    real <- Sys.getenv("VERDIGRIS_LIBTORCH")
    if (nzchar(real)) {
      lib <- file.path(real, "lib")
      lantern("good", "lantern-real.cpp", c("-std=c++17", paste0("-I", real, "/include"), paste0("-L", lib),
        "-Wl,--no-as-needed -ltorch_cpu -lc10", paste0("-Wl,-rpath,", lib)))
    } else {
      lantern("good", "lantern-mini.cpp")
    }
    lantern("version", "lantern-mini.cpp", "-DOTHER_VERSION")
    lantern("plain", "lantern-mini.cpp", "-DWITHOUT_ALIAS")
    lantern("layout", "lantern-mini.cpp", "-DOTHER_LAYOUT")
    dir.create(file.path(folder, "none"))
    library <- file.path(folder, "library")
    log <- system2(file.path(R.home("bin"), "R"), c("CMD", "INSTALL", "--no-docs", "--no-test-load",
      paste0("--library=", library), file.path(folder, "torch", "standin")), stdout = TRUE, stderr = TRUE)
    if (is.null(attr(log, "status"))) loadNamespace("torch", lib.loc = library) else stop(paste(log, collapse = "\n"))
    made <<- folder
  }
})

# One of the stand-in's libraries; started or not.
use_torch <- function(name, start = TRUE, frame = parent.frame()) {
  folder <- stand_in()
  withr::local_envvar(TORCH_HOME = file.path(folder, name), .local_envir = frame)
  .Call(verdigris:::C_torch_start, NULL, NULL, NULL)
  if (start) torch::torch_start()
}

address <- function(x) .Call(verdigris:::C_dlpack_describe, as_dlpack(x))$address

test_that("without torch for R there is an error that says so", {
  skip_if(nzchar(system.file(package = "torch")))
  .Call(verdigris:::C_torch_start, NULL, NULL, NULL)
  e <- expect_error(as_torch(gpu(1)), class = "verdigris_error_library")
  expect_match(conditionMessage(e), "not installed")
})

test_that("a torch that is not started, or is another, is refused", {
  use_torch("none", start = FALSE)
  expect_error(as_torch(gpu(1)), "no liblantern", class = "verdigris_error_library")
  use_torch("good", start = FALSE)
  e <- expect_error(as_torch(gpu(1)), class = "verdigris_error_library")
  expect_match(conditionMessage(e), "not loaded")
  said <- rlang::cnd_message(e)
  expect_identical(lengths(regmatches(said, gregexpr("not loaded", said))), 1L)
  use_torch("version")
  e <- expect_error(as_torch(gpu(1)), "fromDLPack", class = "verdigris_error_library")
  expect_match(conditionMessage(e), "torch for R 0.17.0")
  expect_error(as_gpu(torch::torch_tensor(1)), "fromDLPack", class = "verdigris_error_library")
  use_torch("layout")
  expect_error(as_torch(gpu(1)), "not laid out", class = "verdigris_error_library")
  use_torch("version")
  tensor <- torch::torch_tensor(c(1, 2))
  use_torch("good")
  expect_s3_class(as_torch(gpu(1)), "torch_tensor")
})

test_that("an array and its tensor are the same memory", {
  use_torch("good")
  skip_if(test_device != "cpu")
  m <- matrix(as.numeric(1:6), 2)
  x <- gpu(m)
  tensor <- as_torch(x)
  expect_identical(tensor$shape, c(2, 3))
  expect_identical(tensor$strides, c(1, 2))
  expect_identical(tensor$dtype, "float64")
  expect_identical(tensor$address, address(x))
  expect_identical(as.array(tensor), m)
  expect_identical(as.array(as_torch(t(x))), t(m))
  expect_identical(as.array(as_torch(t(x) * 2)), t(m) * 2)
  back <- as_gpu(tensor)
  expect_identical(address(back), address(x))
  expect_identical(as.matrix(back), m)
  tensor$mul_(10)
  expect_identical(as.matrix(back), m * 10)
  expect_identical(as.matrix(x + 0), m * 10)
})

test_that("a tensor and its array are the same memory", {
  use_torch("good")
  skip_if(test_device != "cpu")
  m <- matrix(as.numeric(1:6), 2)
  tensor <- torch::torch_tensor(m)
  x <- as_gpu(tensor)
  expect_identical(class(x), class(gpu(m)))
  expect_identical(gpu_dtype(x), "float32")
  expect_identical(as.matrix(x), m)
  expect_identical(address(x), tensor$address)
  expect_identical(as.matrix(as_gpu(tensor$t())), t(m))
  expect_identical(collect(as_gpu(tensor$select(2))), m[2, ])
  expect_identical(gpu_dtype(as_gpu(tensor, dtype = "float64")), "float64")
  expect_identical(collect(from_dlpack(as_dlpack(tensor))), m)
  tensor$fill_(7)
  expect_identical(collect(x * 2), matrix(14, 2, 3))
})

test_that("memory that torch has replaced by resize_() is not touched", {
  skip_if(test_device != "cpu")
  for (lantern in c("good", "plain")) {
    use_torch(lantern)
    tensor <- torch::torch_tensor(c(1, 2, 3))
    x <- as_gpu(tensor)
    pair <- as_gpu(tensor$select(2))
    view <- gpu_as_strided(x, 2, 1, 1)
    doubled <- x * 2
    part <- x[2:3]
    capsule <- as_dlpack(x)
    host <- base::sum(as.vector(x))
    # what still fits keeps its memory
    tensor$resize_(2)
    expect_identical(collect(x), c(1, 2, 3))
    tensor$resize_(1000000)
    tensor$fill_(7)
    gone <- function(code) expect_error(code, "resize_", class = "verdigris_error_consumed")
    for (y in list(x, view, pair)) {
      gone(collect(y))
      gone(y + 1)
      gone(sum(y))
      gone(y[[1]])
      gone(y[1])
      gone(rev(y))
      gone(as.vector(y))
      gone(base::order(y))
      gone(format(y))
      gone(y[1] <- 2)
      gone(gpu_compute(y))
      gone(gpu_compute(gpu(rep(5, length(y)), "float32"), out = y))
      gone(gpu_copy(rep(5, length(y)), y))
      gone(as_dlpack(y, writable = TRUE))
      gone(gpu_pointer(y))
      gone(as_torch(y))
      gone(gpu_as_strided(y, 1))
      gone(gpu_graph(y + 1))
      gone(gpu_cast(y, "float64"))
    }
    expect_identical(collect(doubled), c(2, 4, 6))
    expect_identical(collect(part), c(2, 3))
    expect_identical(unique(as.array(tensor)), 7)
    # a capsule of it that came before
    y <- from_dlpack(capsule)
    gone(collect(y))
    again <- as_gpu(tensor)
    expect_identical(sum(again), 7e6)
    gpu_free(x)
    rm(view, pair, y, capsule)
    collect_garbage()
  }
})

test_that("a libtorch that describes tensors by toDLPack() alone will do", {
  use_torch("plain")
  skip_if(test_device != "cpu")
  m <- matrix(as.numeric(1:6), 2)
  tensor <- torch::torch_tensor(m)
  x <- as_gpu(tensor)
  expect_identical(as.matrix(x), m)
  expect_identical(address(x), tensor$address)
  expect_identical(as.matrix(as_gpu(as_torch(gpu(m)))), m)
})

test_that("types go both ways", {
  use_torch("good")
  skip_if(test_device != "cpu")
  for (dtype in c("float64", "float32", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool8",
    "complex64", "complex128")) {
    x <- gpu(c(1, 0, 1), dtype)
    tensor <- as_torch(x)
    expect_identical(tensor$dtype, dtype)
    expect_identical(as.array(tensor), c(1, 0, 1), info = dtype)
    y <- as_gpu(torch::torch_tensor(c(1, 0, 1), dtype))
    expect_identical(gpu_dtype(y), dtype)
    expect_identical(collect(y), collect(x), info = dtype)
  }
  expect_error(as_torch(gpu(c(TRUE, NA))), class = "verdigris_error_dtype")
  expect_error(as_gpu(torch::torch_tensor(1, "float8")), class = "verdigris_error")
})

test_that("shapes: none, one, three, and views that torch has not", {
  use_torch("good")
  skip_if(test_device != "cpu")
  expect_identical(as_torch(gpu(numeric()))$shape, 0)
  expect_identical(as_torch(gpu(matrix(0, 0, 3)))$shape, c(0, 3))
  expect_identical(as_torch(gpu(5))$shape, 1)
  a <- array(as.numeric(1:24), 2:4)
  expect_identical(as.array(as_torch(gpu(a))), a)
  expect_identical(as.array(as_gpu(torch::torch_tensor(a))), a)
  expect_identical(as.array(as_torch(rev(gpu(c(1, 2, 3))))), c(3, 2, 1))
  expect_identical(as.array(as_torch(gpu(a)[2, 3:1, ])), a[2, 3:1, ])
  expect_identical(collect(as_gpu(torch::torch_tensor(numeric()))), numeric())
})

test_that("what an array cannot say is refused, with advice", {
  use_torch("good")
  skip_if(test_device != "cpu")
  tensor <- torch::torch_tensor(c(1, 2))
  wants <- tensor$requires_grad_()
  e <- expect_error(as_gpu(wants), class = "verdigris_error_argument")
  expect_match(conditionMessage(e), "detach = TRUE", fixed = TRUE)
  expect_error(as_dlpack(wants), "gradient", class = "verdigris_error_argument")
  expect_identical(collect(as_gpu(wants, detach = TRUE)), c(1, 2))
  expect_error(as_gpu(tensor, detach = NA), class = "verdigris_error_argument")
  expect_error(as_gpu(torch::torch_tensor(c(1, 2), "complex64")$conj()), "resolve_conj",
    class = "verdigris_error_argument")
  expect_error(as_gpu(tensor$neg_view()), "negated", class = "verdigris_error_argument")
  expect_error(as_gpu(tensor$to_sparse()), "sparse", class = "verdigris_error_argument")
  expect_error(as_gpu(tensor$grad()), "undefined", class = "verdigris_error_argument")
  expect_error(as_torch(1), class = "verdigris_error_argument")
  expect_error(as_torch(tensor), class = "verdigris_error_argument")
})

test_that("what is no tensor, or none any more, ends in an error", {
  use_torch("good")
  skip_if(test_device != "cpu")
  expect_s3_class(as_torch(gpu(1)), "torch_tensor")
  as_tensor <- function(x) structure(x, class = c("torch_tensor", "R7"))
  saved <- unserialize(serialize(torch::torch_tensor(1), NULL))
  expect_error(as_gpu(saved), "empty", class = "verdigris_error_argument")
  for (x in list(1, list(), NULL, "a", quote(a), globalenv())) {
    if (is.null(x) || is.symbol(x) || is.environment(x)) next
    expect_error(as_gpu(as_tensor(x)), class = "verdigris_error_argument")
  }
  # an external pointer to other things
  other <- as_dlpack(gpu(c(1, 2)))
  class(other) <- c("torch_tensor", "R7")
  expect_error(as_gpu(other), class = "verdigris_error_argument")
})

test_that("memory lives as long as one side uses it, and no longer", {
  use_torch("good")
  skip_if(test_device != "cpu")
  expect_s3_class(as_torch(gpu(1)), "torch_tensor")
  collect_garbage()
  before <- gpu_memory("cpu")[["live"]]
  x <- gpu(as.numeric(1:1e5))
  tensor <- as_torch(x)
  rm(x)
  collect_garbage()
  expect_gte(gpu_memory("cpu")[["live"]] - before, 8e5)
  expect_identical(as.array(tensor)[1e5], 1e5)
  part <- tensor$detach()
  rm(tensor)
  collect_garbage()
  expect_identical(as.array(part)[1e5], 1e5)
  rm(part)
  collect_garbage()
  expect_lt(gpu_memory("cpu")[["live"]] - before, 1e5)

  live <- torch::torch_live()
  tensor <- torch::torch_tensor(as.numeric(1:1e5))
  y <- as_gpu(tensor)[99999:100000] # may be a view
  z <- as_gpu(tensor$detach())
  rm(tensor)
  collect_garbage()
  expect_identical(collect(z * 1)[1e5], 1e5)
  rm(z, y)
  collect_garbage()
  if (!is.nan(live)) expect_identical(torch::torch_live(), live)
})

test_that("many exchanges leave nothing behind", {
  use_torch("good")
  skip_if(test_device != "cpu")
  x <- gpu(c(1, 2, 3))
  tensor <- as_torch(x)
  collect_garbage()
  handles <- .Call(verdigris:::C_live)[[1]]
  live <- torch::torch_live()
  memory <- gpu_memory("cpu")[["live"]]
  for (k in 1:2000) as_gpu(as_torch(x))
  collect_garbage()
  expect_lte(.Call(verdigris:::C_live)[[1]], handles + 1)
  if (!is.nan(live)) expect_identical(torch::torch_live(), live)
  expect_lte(gpu_memory("cpu")[["live"]] - memory, 1024)
})

test_that("on a GPU torch and R share memory in the order of the default stream", {
  use_torch("good")
  skip_if(!emulated)
  m <- matrix(as.numeric(1:6), 2)
  x <- gpu(m) * 2
  tensor <- as_torch(x)
  gpu_sync(test_device)
  expect_identical(as.array(tensor), m * 2)
  expect_identical(tensor$address, address(x))
  tensor$mul_(3)
  back <- as_gpu(tensor$t())
  expect_identical(gpu_device(back), test_device)
  expect_identical(collect(back), t(m) * 6)
  expect_identical(collect(x + 0), m * 6)
  collect_garbage()
  live <- gpu_memory(test_device)[["live"]]
  for (k in 1:50) as_gpu(as_torch(gpu(m)))
  collect_garbage()
  expect_lte(gpu_memory(test_device)[["live"]], live + 1024)
})
