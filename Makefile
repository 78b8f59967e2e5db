# Each target sets up what it needs in .venv, and only when pyproject.toml or one of the two lists of
# versions has changed. A fresh machine needs Python 3.11 or newer with pip and venv, and make.

PYTHON ?= python3
BIN := .venv/bin
comma := ,
CLAIMS_ARGS ?=
TEST_ARGS ?=

.PHONY: help claims test lint bench docs browser

help:
	@echo "make claims   check the papers' claims; the report goes to cameraready-claims/report.html"
	@echo "make test     run the tests"
	@echo "make lint     check style, types and import rules"
	@echo "make bench    run every benchmark beside its peers"
	@echo "make docs     build the documentation into site/"

# One stamp for each set of extras: .venv/installed-all+test is made by installing [all,test].
.venv/installed-%: pyproject.toml constraints.txt without-dependencies.txt
	@test -x $(BIN)/python || { echo "== making a virtual environment in .venv"; $(PYTHON) -m venv .venv; }
	@echo "== installing cameraready[$(subst +,$(comma),$*)] into .venv (some minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[$(subst +,$(comma),$*)]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --requirement without-dependencies.txt
	@touch $@

claims: .venv/installed-all
	@$(BIN)/python -m cameraready.datasets.debian r-bioc-destiny || \
		echo "== without these cells, the claims that need them say that they are not testable here"
	@echo "== checking the claims; a finished experiment is not run again"
	@$(BIN)/cameraready claims --out cameraready-claims $(CLAIMS_ARGS)

test: .venv/installed-all+test browser
	@echo "== running the tests"
	@$(BIN)/python -m pytest -n 2 --dist worksteal $(TEST_ARGS)
	@echo "== the tests have passed"

lint: .venv/installed-all+lint
	@echo "== checking style, format, types and import rules"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/ty check
	@$(BIN)/lint-imports
	@echo "== all checks have passed"

bench: .venv/installed-bench
	@for file in benchmarks/*.py; do \
		echo "== $$file"; $(BIN)/python "$$file" || exit 1; \
	done

docs: .venv/installed-docs
	@echo "== building the documentation"
	@$(BIN)/zensical build --strict --clean
	@echo "== the documentation is in site/index.html"

# The report's test opens it in a browser; Debian's chromium is enough.
browser:
	@if command -v chromium >/dev/null || command -v google-chrome >/dev/null; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		echo "== installing chromium for the report's test (apt-get)"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	else \
		echo "== no chromium or google-chrome here: the test of the page will be skipped"; \
	fi
