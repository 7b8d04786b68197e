#!/usr/bin/env bash
# Packs what a GPU machine without R and without a network needs to run verdigris:
#   .gpu/r-runtime.tar.xz   R with the packages below, their imports and the shared libraries they
#                           load (not the C and C++ runtimes: the target's serve); made once
#   .gpu/library.tar.xz     verdigris, as build/library has it; packed at every call
# On the target (Linux, x86_64, glibc no older than this machine's), as root, in a copy of the checkout:
#   tar -C / -xJf .gpu/r-runtime.tar.xz && . /opt/r-runtime/env
#   mkdir -p /opt/library && tar -C /opt/library -xJf .gpu/library.tar.xz
#   R_LIBS=/opt/library VERDIGRIS_TEST_DEVICE=cuda Rscript tools/test/test.R cuda
#
# usage: tools/gpu/gpu-pack.sh [--fresh] [R-PACKAGE ...]     --fresh: make the runtime again
set -euo pipefail
cd "$(dirname "$0")/../.."
fresh=no; [ "${1:-}" != --fresh ] || { fresh=yes; shift; }
packages=(cli rlang testthat bit64 bench Matrix withr "$@")
runtime=.gpu/r-runtime.tar.xz

mkdir -p .gpu
tar -C build/library --owner=0 --group=0 -c verdigris | xz -T0 -3 >.gpu/library.tar.xz

pack_runtime() {
  local stage; stage=$(mktemp -d); trap 'rm -rf "$stage"' RETURN
  local lib=$stage/usr/lib/R own=$stage/opt/r-runtime/lib
  mkdir -p "$lib/library" "$stage/usr/share" "$stage/usr/bin" "$stage/etc" "$own"

  # R itself, without documentation, headers and the modules that draw, download or speak German
  cp -a /usr/lib/R/{bin,etc,lib,modules} "$lib/"
  for link in doc include share; do [ ! -L /usr/lib/R/$link ] || cp -a /usr/lib/R/$link "$lib/"; done
  cp -a /usr/share/R "$stage/usr/share/"; cp -a /etc/R "$stage/etc/"; cp -a /usr/bin/R /usr/bin/Rscript "$stage/usr/bin/"
  rm -rf "$stage"/usr/share/R/{doc,include} "$lib"/modules/{R_X11,R_de}.so

  # the base packages, and the named ones with all that they import
  Rscript --vanilla - "${packages[@]}" >"$stage/folders" <<'RS'
wanted <- commandArgs(TRUE)
have <- installed.packages()
lacking <- setdiff(wanted, rownames(have))
if (length(lacking)) stop("not installed here: ", paste(lacking, collapse = ", "))
needed <- unlist(tools::package_dependencies(wanted, have, c("Depends", "Imports", "LinkingTo"), recursive = TRUE))
base <- setdiff(rownames(have)[have[, "Priority"] %in% "base"], "tcltk")
all <- intersect(unique(c(base, wanted, needed)), rownames(have))
writeLines(file.path(have[all, "LibPath"], all))
RS
  local folder
  while read -r folder; do
    cp -aL "$folder" "$lib/library/"
    rm -rf "$lib/library/$(basename "$folder")"/{help,html,doc,tests,po,include,demo,translations,lib-dynload}
  done <"$stage/folders"
  rm -f "$stage/folders" "$lib/library/grDevices/libs/cairo.so"

  # the shared libraries that all these load
  local system='/(ld-linux|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libcuda|libnvidia)[^/]*\.so'
  find "$lib" -type f \( -name '*.so' -o -perm -u+x \) -print0 |
    { xargs -0 -n1 env LD_LIBRARY_PATH=/usr/lib/R/lib ldd 2>/dev/null || true; } |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | grep -Ev "$system" | grep -v '^/usr/lib/R/' |
    xargs -I{} cp -L {} "$own/"
  find "$stage" -type f -name '*.so*' -exec strip --strip-unneeded {} + 2>/dev/null || true

  mkdir "$stage/opt/r-runtime/library"
  cat >"$stage/opt/r-runtime/env" <<'ENV'
export LD_LIBRARY_PATH=/usr/lib/R/lib:/opt/r-runtime/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LC_ALL=C.UTF-8 R_LIBS_SITE=/opt/r-runtime/library R_LIBS_USER=/opt/r-runtime/library
ENV
  tar -C "$stage" --owner=0 --group=0 -c etc opt usr | xz -T0 -6 >"$runtime.part"
  mv "$runtime.part" "$runtime"
}

[ -e $runtime ] && [ $fresh = no ] && [ $# = 0 ] || pack_runtime
du -sh $runtime .gpu/library.tar.xz
megabytes=$(du -sm .gpu | cut -f1)
[ "$megabytes" -lt 60 ] || { echo "gpu-pack.sh: .gpu has $megabytes MB; at most 60 can be taken along." >&2; exit 1; }
