#!/usr/bin/env bash
# Runs a command under a newer R than this machine's: Debian 13 (trixie) has R 4.5, Debian unstable
# (sid) R 4.6. The first call makes a root folder with that Debian in it (two minutes, 1.1 GB); each
# call binds cargo and the current folder into it and runs the command there.
#
# usage: tools/test/r-versions.sh trixie|sid COMMAND [ARG ...]        as root
#   R_VERSIONS_ROOT        where the root folders are kept; default /var/tmp/r-versions
#   R_VERSIONS_PACKAGES    Debian packages that the command needs besides R and the tests' packages
set -euo pipefail
suite=${1:?usage: tools/test/r-versions.sh trixie|sid COMMAND [ARG ...]}; shift
root=${R_VERSIONS_ROOT:-/var/tmp/r-versions}/$suite
packages=(r-base-core r-base-dev r-cran-cli r-cran-rlang r-cran-testthat r-cran-bit64 r-cran-matrix r-cran-withr)

# It is this machine, not the command, that does not do: .ci/run tells the two apart by the status.
fail() { echo "NOT CHECKED: $*" >&2; exit 77; }
[ "$(id -u)" = 0 ] || fail "making and entering a root folder needs root: run it with sudo."
command -v apt-get >/dev/null || fail "this needs Debian or Ubuntu, whose debootstrap makes the root folder."
# The mounts live in a namespace of this call's own, and go with it; without namespaces they are taken off at the end.
own=(unshare --mount); "${own[@]}" true 2>/dev/null || own=()
probe=$(mktemp -d); may=yes
"${own[@]}" sh -c 'mount --bind "$0" "$0" && umount "$0"' "$probe" 2>/dev/null || may=no
rmdir "$probe"; [ $may = yes ] || fail "this machine forbids mounts, without which no other Debian can be entered."
mirror=$({ grep -hoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } | head -1 | tr -d ' ')

if [ ! -e "$root/.complete" ]; then
  "$(dirname "$0")/../build/setup.sh" debootstrap || fail "debootstrap could not be installed."
  echo "r-versions.sh: making $root (Debian $suite with R); its log is $root.log"
  rm -rf --one-file-system "$root"; mkdir -p "$root"
  timeout --kill-after=20 900 debootstrap --variant=minbase --include="$(IFS=,; echo "${packages[*]}")" "$suite" "$root" ${mirror:+"$mirror"} </dev/null >"$root.log" 2>&1 ||
    { tail -3 "$root.log" >&2; fail "debootstrap could not make $root."; }
  rm -f "$root"/var/cache/apt/archives/*.deb
  touch "$root/.complete"
fi
[ ! -e /etc/resolv.conf ] || cp /etc/resolv.conf "$root/etc/"

lacking=()
for p in ${R_VERSIONS_PACKAGES:-}; do chroot "$root" dpkg -s "$p" >/dev/null 2>&1 || lacking+=("$p"); done
if [ ${#lacking[@]} -gt 0 ]; then
  echo "r-versions.sh: installing ${lacking[*]} into $root"
  chroot "$root" sh -c 'export DEBIAN_FRONTEND=noninteractive; apt-get update -qq; timeout 900 apt-get install -y -qq --no-install-recommends "$@"' sh "${lacking[@]}" >>"$root.log" 2>&1 ||
    fail "apt-get could not install ${lacking[*]} into $root; see $root.log."
fi

# rustup's toolchain runs on any Debian; without it the suite's own cargo must do.
if [ ! -x "$HOME/.cargo/bin/rustup" ] && [ ! -x "$root/usr/bin/cargo" ]; then
  chroot "$root" sh -c 'apt-get update -qq
    apt-get install -y -qq --no-install-recommends cargo-web rustc-web || apt-get install -y -qq --no-install-recommends cargo rustc' >>"$root.log" 2>&1 ||
    fail "no cargo could be installed into $root; see $root.log."
fi

export root
"${own[@]}" bash -euc '
  bind() { mkdir -p "$root$2"; mount --bind "$1" "$root$2"; bound=("$root$2" "${bound[@]}"); }
  bound=(); trap "umount --lazy \"\${bound[@]}\"" EXIT
  bind /proc /proc
  bind /dev /dev
  bind "$PWD" "$PWD"
  if [ -x "$HOME/.cargo/bin/rustup" ]; then
    bind "${CARGO_HOME:-$HOME/.cargo}" /root/.cargo
    bind "${RUSTUP_HOME:-$HOME/.rustup}" /root/.rustup
  fi
  chroot "$root" env -i HOME=/root TERM="${TERM:-dumb}" LC_ALL=C.UTF-8 ${CI:+CI="$CI"} \
    ${VERDIGRIS_TURN:+VERDIGRIS_TURN="$VERDIGRIS_TURN"} \
    PATH=/root/.cargo/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin sh -c "cd \"\$0\" && exec \"\$@\"" "$PWD" "$@"
' r-versions "$@"
