# Counts the objects and bytes in use. R's gc only queues finalized objects, the next call of the package frees them,
# and objects that they referred to are found by the next gc; earlier tests leave garbage, too. So the count is taken
# when two collections in a row have changed nothing. Objects of an earlier test that R still holds (a value in a
# register, a condition) may nevertheless go later: after `before <- alive()` compare by "at most".

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
