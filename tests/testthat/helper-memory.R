# What is alive. R's gc only queues what it finds, the next call of the package frees it, and what hung on that the next
# gc finds; and tests before have left garbage of their own. So it is counted when two collections in a row have changed
# nothing. Something of an earlier test that R still holds (a value in a register, a condition) may go later all the
# same: after `before <- alive()` compare by "at most".

# Handles, bytes of host copies, bytes on the tests' device.
alive <- function() {
  count <- function() {
    gpu_sync(test_device)
    c(setNames(.Call(verdigris:::C_live)[1:2], c("handles", "bytes")), device = gpu_memory(test_device)[["live"]])
  }
  now <- count()
  same <- 0L
  for (k in 1:20) {
    gc()
    before <- now
    now <- count()
    same <- if (identical(now, before)) same + 1L else 0L
    if (same == 2L) break
  }
  now
}

# Until everything that was let go of is freed.
collect_garbage <- function() invisible(alive())
