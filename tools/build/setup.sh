#!/usr/bin/env bash
# Installs the packages that the Makefile's targets need and this machine lacks, on Debian or Ubuntu, as root. It asks
# dpkg first, so a call with nothing to do takes a moment and no network.
#
# usage: tools/build/setup.sh PART ...
#   rust         cargo and rustc, new enough (the minimum that DESCRIPTION names)
#   r            R, and the R packages that verdigris imports
#   test         r, and the packages that the tests use
#   python       build/venv: numpy and safetensors (tests of exchange) and NVRTC (compiles kernels without a GPU), of
#                the version below
#   packages     the packages of tests/packages/calls
#   document | check | bench | ptx | dist | guard | debootstrap | windows     what that target needs besides
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() { echo "setup.sh: $*" >&2; exit 1; }

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

packages() {
  local missing=() p
  for p in "$@"; do installed "$p" || missing+=("$p"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null ||
    { echo "setup.sh: no apt-get here; taking for granted what Debian calls: ${missing[*]}"; return 0; }
  [ "$(id -u)" = 0 ] || fail "not root; run: sudo apt-get install ${missing[*]}"
  echo "setup.sh: apt-get install ${missing[*]}"
  # what apt-get knows may be old or nothing at all; an update that fails for some other source does not matter
  apt install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
    { apt update || true; apt install -y --no-install-recommends "${missing[@]}" >/dev/null; } ||
    fail "apt-get could not install ${missing[*]}; see its message above."
}

# apt-get that asks nothing, waits for another apt-get, and gives up on a mirror that does not answer
apt() {
  DEBIAN_FRONTEND=noninteractive timeout --kill-after=20 900 apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
    -o Acquire::http::Timeout=60 -o Acquire::https::Timeout=60 -o Dpkg::Options::=--force-confold "$@" </dev/null
}

# An R package: from Debian unless R has it already, however it came.
r_packages() {
  local missing=() p
  for p in "$@"; do installed "r-cran-$p" || missing+=("$p"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  local lacking
  lacking=$(Rscript --vanilla -e 'have <- tolower(rownames(installed.packages())); cat(setdiff(commandArgs(TRUE), have))' "${missing[@]}")
  # shellcheck disable=SC2086
  [ -z "$lacking" ] || packages $(printf 'r-cran-%s ' $lacking)
}

minimum_rust() { sed -n 's/.*rustc >= \([0-9.]*[0-9]\).*/\1/p' DESCRIPTION; }
rust_version() { "$1" --version 2>/dev/null | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -1; }
at_least() { [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -1)" = "$2" ]; }

rust() {
  local minimum path="$HOME/.cargo/bin:$PATH"
  minimum=$(minimum_rust)
  enough() {
    at_least "$(PATH=$path rust_version rustc)" "$minimum" && at_least "$(PATH=$path rust_version cargo)" "$minimum"
  }
  enough && return 0
  # Debian's own rustc is old; rustc-web (what Debian builds browsers with) and newer suites are not.
  local pair candidate
  apt update 2>/dev/null || true
  for pair in "cargo rustc" "cargo-web rustc-web"; do
    candidate=$(apt-cache policy "${pair#* }" 2>/dev/null | sed -n 's/.*Candidate: \([0-9.]*\).*/\1/p')
    # shellcheck disable=SC2086
    if at_least "$candidate" "$minimum"; then packages $pair; break; fi
  done
  hash -r
  enough || fail "verdigris needs rustc and cargo $minimum or newer, and no Debian package here has them: install Rust from https://rustup.rs."
}

# With another version the kernels in bench/bounds.csv have other counts: `make guard-bounds`.
NVRTC=13.5.37

python() {
  local venv=build/venv
  if [ -x $venv/bin/python ] && $venv/bin/python -c 'import numpy, safetensors, importlib.metadata as m; assert m.version("nvidia-cuda-nvrtc") == "'$NVRTC'"' 2>/dev/null; then return 0; fi
  command -v python3 >/dev/null && python3 -c 'import ensurepip, venv' 2>/dev/null || packages python3 python3-venv
  echo "setup.sh: making $venv"
  mkdir -p build
  python3 -m venv --clear $venv
  timeout --kill-after=20 900 $venv/bin/pip install --quiet --retries 5 numpy safetensors "nvidia-cuda-nvrtc==$NVRTC" ||
     fail "pip could not install numpy, safetensors and nvidia-cuda-nvrtc into $venv; see its message above."
}

for part in "$@"; do
  case $part in
    rust) packages gcc g++ make; rust ;;
    r) packages r-base-core r-base-dev; r_packages cli rlang ;;
    test) "$0" r
      r_packages testthat bit64 matrix withr reticulate knitr future vctrs tibble dplyr data.table mass zoo survival ff \
        hdf5r
      packages mpich ;;
    python) python ;;
    packages)
      "$0" r
      in_bioconductor='S4Vectors|IRanges|Biobase|limma|edgeR|SummarizedExperiment|DelayedArray|preprocessCore'
      own='base|stats|methods|splines|stats4|grDevices|graphics|grid|utils'
      mapfile -t calls < <(basename -s .R tests/packages/calls/*.R)
      mapfile -t named < <(printf '%s\n' "${calls[@]}" | grep -vxE "$in_bioconductor|$own" | tr '[:upper:]' '[:lower:]')
      r_packages "${named[@]}"
      mapfile -t named < <(printf '%s\n' "${calls[@]}" | grep -xE "$in_bioconductor" | tr '[:upper:]' '[:lower:]')
      packages "${named[@]/#/r-bioc-}" ;;
    document) "$0" r; r_packages roxygen2 ;;
    site)
      "$0" r; packages pandoc pngquant; r_packages pkgdown knitr rmarkdown bench testthat vctrs progressr
      # tools/doc/check-site.py looks at the pages
      command -v chromium chromium-browser google-chrome >/dev/null || packages chromium ;;
    check) "$0" test; packages pandoc xz-utils devscripts qpdf; r_packages knitr rmarkdown bench future ;;
    bench) "$0" r; r_packages bench ;;
    ptx) packages zstd python3 python3-pip ;;
    guard) packages valgrind ;;
    dist) packages pigz pngquant python3 xz-utils zstd ;;
    debootstrap) packages debootstrap ;;
    windows) packages g++-mingw-w64-x86-64-posix wine wine64 ;;
    *) fail "no part is called $part" ;;
  esac
done
