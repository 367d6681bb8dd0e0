# Looptrap. `make serve` runs it, `make test` checks everything; both set up what they need.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help serve demo test lint bench pictures docs clean

help:  ## Show this help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

serve: $(RUN_STAMP)  ## Start the gateway on 127.0.0.1:4100, the dashboard on 127.0.0.1:4101
	$(BIN)/looptrap serve $(ARGS)

demo: $(RUN_STAMP)  ## Watch a stuck agent being caught, without any network
	$(BIN)/looptrap demo

test: $(DEV_STAMP) lint  ## Lint, types and all tests
	tests/system-parts
	$(BIN)/python -m pytest -n 2 --dist loadfile -q

lint: $(DEV_STAMP)  ## Style and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(DEV_STAMP)  ## Measure what Looptrap costs; ratios of things measured in one run
	$(BIN)/python -m bench.core
	$(BIN)/python -m bench.gateway $(ARGS)

pictures: $(DEV_STAMP)  ## Make the pictures of the dashboard in docs/pictures anew
	tests/system-parts
	LOOPTRAP_PICTURES=docs/pictures $(BIN)/python -m pytest -q tests/browser/test_look.py

docs: $(DEV_STAMP)  ## Build the documentation into site/
	$(BIN)/zensical build --clean

clean:  ## Remove everything that was made here
	rm -rf $(VENV) site build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# A virtual environment made by another Python, or half made, is made anew.
$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Looptrap needs Python 3.11 or newer, $(PYTHON) is " + sys.version)'
	$(PYTHON) -m venv --clear $(VENV)
	touch $@

$(RUN_STAMP): pyproject.toml | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(DEV_STAMP): pyproject.toml | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(RUN_STAMP)
