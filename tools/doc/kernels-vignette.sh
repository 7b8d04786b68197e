#!/usr/bin/env bash
# Writes vignettes/kernels.Rmd, with its output, from kernels.Rmd.orig: on a GPU, or on the emulated one
# (tools/test/emulator.sh tools/doc/kernels-vignette.sh). The package must be in build/library. One chunk needs a real
# GPU's compiler, and is skipped without.
set -euo pipefail
cd "$(dirname "$0")/../../vignettes"
export R_LIBS="$PWD/../build/library${R_LIBS:+:$R_LIBS}"
Rscript --vanilla -e 'knitr::knit("kernels.Rmd.orig", "kernels.Rmd", quiet = TRUE)'
