# The short commands. Each installs what it needs first (tools/build/setup.sh: Debian packages, as root).
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
export PATH := $(HOME)/.cargo/bin:$(PATH)
CARGO = R CMD cargo
MANIFEST = --manifest-path src/rust/Cargo.toml
# build/library is where the package is installed for the commands below; `make install` is for you
USE = R_LIBS=$(CURDIR)/build/library$${R_LIBS:+:$$R_LIBS}
SUITES = trixie sid

help:
	@echo "make demo              install into build/library and run examples/basket-option.R"
	@echo "make install           install into R's own library"
	@echo "make test              the engine's tests and the package's"
	@echo "make test-one F=index  tests/testthat/test-array-index.R alone: F is a name or its end"
	@echo "make full              the slow gates (.ci/slow), of which each CI run takes one"
	@echo "make examples          R's own examples, all of them, with their numbers in arrays"
	@echo "make windows           the engine's tests for Windows under Wine, and the package's library linked for it"
	@echo "make packages          calls of other packages' functions, on ordinary vectors and on arrays"
	@echo "make kernels           compile the CUDA kernels with NVRTC, which needs no GPU"
	@echo "make ptx               write the prebuilt kernels; run it after a change of kernels/ or of the operation table"
	@echo "make guard             instructions of recording, planning, the cpu device and kernels, against bench/bounds.csv"
	@echo "make guard-bounds      make those the bounds"
	@echo "make lint              formatting, clippy, documentation up to date, lines of at most 120 columns"
	@echo "make document          write man/ and NAMESPACE"
	@echo "make site              the site, into build/site (pkgdown), and a look at it"
	@echo "make bench             the cpu device against base R; bench/run.sh compares GPU libraries"
	@echo "make dist              the release tarball, crates included, in build/"
	@echo "make check             R CMD check --as-cran of that tarball, and its installation offline"
	@echo "make test-r-versions   the tests under R 4.5 and 4.6"
	@echo "make check-r-versions  R CMD check --as-cran under R 4.5 and 4.6"
	@echo "make licenses          write LICENSE.note"
	@echo "make gpu-pack          pack R and the package for a GPU machine that has neither: .gpu/"
	@echo "make clean             remove build/ and cargo's target folder"

demo: library
	$(USE) Rscript examples/basket-option.R

install: setup-rust setup-r
	R CMD INSTALL --no-multiarch .

library: setup-rust setup-r
	mkdir -p build/library
	R CMD INSTALL --no-multiarch --library=build/library .

test: setup-rust setup-test setup-python
	tools/test/test.sh

test-one: library setup-test
	$(USE) Rscript --vanilla tools/test/test.R R '(^|-)($(F))$$'

full:
	.ci/full

kernels: setup-rust setup-test setup-python
	tools/gpu/kernels.sh

examples: library setup-test
	VERDIGRIS_EXAMPLES=all $(USE) Rscript --vanilla tools/test/test.R examples '^diff-(examples|everyday-long)$$'

packages: library setup-packages
	$(USE) Rscript --vanilla tests/packages/run.R

emulate: library setup-test
	tools/test/emulate.sh

windows: setup-rust setup-r setup-windows
	tools/test/windows.sh

ptx: setup-rust setup-r setup-ptx
	tools/gpu/ptx.sh

guard: library setup-python setup-guard
	tools/test/guard.sh

guard-bounds: library setup-python setup-guard
	tools/test/guard.sh --write

lint: lint-rust lint-docs lint-columns

lint-rust: lint-format lint-clippy

lint-format: setup-rust
	@if cargo fmt --version >/dev/null 2>&1; then set -x; cd src/rust && cargo fmt --all --check; \
	else echo "NOT CHECKED: this cargo has no rustfmt"; fi

lint-clippy: setup-rust setup-r
	@if cargo clippy --version >/dev/null 2>&1; then \
	  set -x; $(CARGO) clippy --release --workspace --all-targets $(MANIFEST) -- -D warnings; \
	else echo "NOT CHECKED: this cargo has no clippy"; fi

lint-docs: library setup-document setup-dist
	tools/doc/document.sh --check
	tools/build/licenses.py --check

lint-columns:
	tools/test/columns.py

document: library setup-document
	tools/doc/document.sh

site: library setup-site
	tools/doc/site.sh

bench: library setup-bench
	$(USE) Rscript bench/cpu.R

dist: setup-rust setup-check setup-dist
	tools/build/dist.sh

check: dist
	tools/build/check-offline.sh
	tools/build/check.sh

test-r-versions: setup-debootstrap
	tools/test/test-r-versions.sh $(SUITES)

check-r-versions: dist setup-debootstrap
	export R_VERSIONS_PACKAGES="pandoc devscripts qpdf r-cran-knitr r-cran-rmarkdown r-cran-vctrs"; \
	for suite in $(SUITES); do tools/test/r-versions.sh $$suite tools/build/check.sh; done

licenses: setup-rust setup-dist
	tools/build/licenses.py

gpu-pack: library setup-test setup-bench
	tools/gpu/gpu-pack.sh

clean:
	./cleanup
	rm -rf build src/rust/target

setup-%:
	@tools/build/setup.sh $*

.PHONY: help demo install library test test-one full examples packages kernels emulate windows ptx guard guard-bounds lint lint-rust lint-format lint-clippy lint-docs lint-columns document site bench dist check test-r-versions check-r-versions licenses gpu-pack clean
