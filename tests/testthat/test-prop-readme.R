# README shows what its code prints, and the figures of bench/.

root <- test_path("..", "..")
skip_if(!file.exists(file.path(root, "tools", "doc", "readme.R")), "not in a checkout")
tool <- new.env()
sys.source(file.path(root, "tools", "doc", "readme.R"), tool)
lines <- readLines(file.path(root, "README.md"), encoding = "UTF-8")

test_that("README's code prints what README shows", {
  skip_if(test_device != "cpu", "README's session is on the cpu device")
  local_gpu("cpu")
  set.seed(99)
  expect_identical(tool$refresh_code(lines), lines)
  # a wrong output would be seen
  wrong <- sub("^#> \\[1\\] .*", "#> [1] 7", lines)
  expect_false(identical(wrong, lines))
  expect_identical(tool$refresh_code(wrong), lines)
})

test_that("README's table of speeds is that of the stored results", {
  expect_identical(tool$refresh_table(lines, root), lines)
  wrong <- sub("^(\\| `var\\(x\\)` \\|).*", "\\1 1 | 1 | 1 |", lines)
  expect_false(identical(wrong, lines))
  expect_identical(tool$refresh_table(wrong, root), lines)
})
