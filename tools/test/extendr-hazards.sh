#!/usr/bin/env bash
# What extendr-api 0.9.0 does where R jumps or an entry fails: the reproduction of docs/decisions/022. Needs R and
# crates.io. Prints a line a case; those that do not say "as wished" are why the package does not use #[extendr].
set -u
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
mkdir "$probe/src"
cat >"$probe/Cargo.toml" <<'TOML'
[package]
name = "probe"
version = "0.0.0"
edition = "2021"
[lib]
crate-type = ["cdylib"]
[dependencies]
extendr-api = "=0.9.0"
TOML
cat >"$probe/src/lib.rs" <<'RUST'
use extendr_api::prelude::*;
#[extendr]
fn named(device: &str) -> i32 { device.len() as i32 }
#[extendr]
fn any(_x: Robj) {}
#[extendr]
fn fail(message: &str) -> std::result::Result<i32, String> { Err(message.into()) }
#[extendr]
fn fail_nul() -> std::result::Result<i32, String> { Err("a\0b".into()) }
#[extendr]
fn attribute(mut x: Robj) -> bool { x.set_attrib("dim", 7).is_ok() }
RUST
cargo build --quiet --release --manifest-path "$probe/Cargo.toml" || exit 1
# R's vector heap is filled but for 480 kB and may not grow; a list of owned objects of extendr's needs more.
cat >"$probe/short.R" <<'R'
any <- function(x) .Call("wrap__any", x)
under_shortage <- function(body) {
  invisible(mem.maxVSize(gc()[2L, 4L]))
  g <- gc()
  hold <- numeric(g[2L, 3L] - g[2L, 1L] - 60000)
  try(body(), silent = TRUE)
  invisible(mem.maxVSize(Inf))
}
R

try() { # CASE WISHED-OUTPUT CODE
  local out status
  out=$(cd "$probe" && timeout 30 Rscript --vanilla -e "dyn.load('target/release/libprobe.so'); source('short.R'); $3" 2>error | tr -d '\0'; exit "${PIPESTATUS[0]}")
  status=$?
  case $status in
    0) [[ "$out" == *"$2"* ]] && echo "$1: as wished" || echo "$1: \"$out\"" ;;
    124) echo "$1: HANGS" ;;
    *) echo "$1: R ENDS, status $status" ;;
  esac
}
try "a refused argument is named" '`device`' \
  'cat(conditionMessage(tryCatch(.Call("wrap__named", 1), error = identity)))'
try "a message with %d" "at 100%d" 'cat(conditionMessage(tryCatch(.Call("wrap__fail", "at 100%d of"), error = identity)))'
try "a message with %s %n" "at 100%s" 'cat(conditionMessage(tryCatch(.Call("wrap__fail", "at 100%s of %n"), error = identity)))'
try "a message with NUL" "a" 'cat(conditionMessage(tryCatch(.Call("wrap__fail_nul"), error = identity)))'
try "an attribute that R refuses" "FALSE" 'cat(tryCatch(.Call("wrap__attribute", 1), error = identity))'
try "the first Robj while memory is short" "next" 'under_shortage(function() any(1)); any(2); cat("next")'
try "the first Robj while memory is short, after a warm-up" "next" \
  'any(0); under_shortage(function() any(1)); any(2); cat("next")'
try "argument 100000 while memory is short, after a warm-up" "next" \
  'x <- as.list(as.double(1:100100)); k <- 0; grow <- function(to) while (k < to) { k <<- k + 1; any(x[[k]]) };
   grow(99900); under_shortage(function() grow(100100)); any(2); cat("next")'
