torch_install_path <- function() Sys.getenv("TORCH_HOME")

# by which examples and vignettes ask whether torch can do what they show
torch_is_installed <- function() FALSE

# torch does this when it is loaded
torch_start <- function() .Call(C_start, file.path(torch_install_path(), "lib", "liblantern.so"))

torch_tensor <- function(data, dtype = "float32") {
  .Call(C_tensor, as.double(data), as.double(if (is.null(dim(data))) length(data) else dim(data)), dtype)
}

cuda_is_available <- function() FALSE

# bytes that tensors own
torch_live <- function() .Call(C_live)

`$.torch_tensor` <- function(x, name) {
  switch(name,
    shape = .Call(C_describe, x)$shape,
    strides = .Call(C_describe, x)$strides,
    dtype = .Call(C_describe, x)$dtype,
    address = .Call(C_describe, x)$address,
    function(...) .Call(C_change, x, name, as.double(c(...)))
  )
}

as.array.torch_tensor <- function(x, ...) .Call(C_values, x)
