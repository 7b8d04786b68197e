# R evaluates the files of R/ in the order of their names. Code that other files call at top level is in aaa-*.R; zzz.R,
# which lists all functions, is last. The other prefixes (array-, ops- and so on) stand for folders, since R reads no
# subfolders of R/.

# S4 methods may name the S3 class.
setOldClass("gpu_array")
