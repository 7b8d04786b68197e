# S4 methods may name the S3 class.
setOldClass("gpu_array")
