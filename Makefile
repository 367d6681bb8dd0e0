# Looptrap. `make serve` runs it, `make test` checks a change; both set up what they need.

# The Python to run with: without one, the first of these that was built with profile-guided
# optimisation and can make an environment, else python3 (docs/deploy.md says why).
PYTHON ?=
PYTHONS := $(foreach version,3 3.11 3.12 3.13 3.14,python$(version) /usr/bin/python$(version))
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
FUZZ_STAMP := $(VENV)/.installed-fuzz
AUDIT_STAMP := $(VENV)/.installed-audit
LOCK_STAMP := $(VENV)/.installed-lock
FRAMEWORKS := .frameworks
COMPILED := .compiled
# Environments of frameworks and agents: HEAVY="agents mini" tests only these.
HEAVY ?= b c node agents mini aider openhands
# Processes that run tests at the same time.
JOBS ?= 2
TEST := -m pytest -n $(JOBS) --dist worksteal -q
PYTEST := $(BIN)/python $(TEST)
# On a busy machine a test of processes or time may fail once. What failed is tried once more, alone:
# a defect fails again, also in property tests, which begin with the example that failed.
TEST_AGAIN := -m pytest -q --last-failed --last-failed-no-failures none

# Not written as calls of make where they are used: `make -n` would run them.
BUILD_COMPILED := $(MAKE) --no-print-directory $(COMPILED)/.installed
TEST_COMPILED := $(MAKE) --no-print-directory test-compiled

comma := ,
space := $(subst ,, )

.DEFAULT_GOAL := help
.PHONY: help serve demo test test-all test-compiled test-frameworks lint bench bench-check bench-loops fuzz audit lock sbom chaos fleet soak pictures docs wheel-compiled clean

help:  ## Show this help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

serve: $(RUN_STAMP)  ## Start the gateway on 127.0.0.1:4100, the dashboard on 127.0.0.1:4101
	$(BIN)/looptrap serve $(ARGS)

demo: $(RUN_STAMP)  ## Watch a stuck agent being caught, without any network
	$(BIN)/looptrap demo

test: $(DEV_STAMP) lint  ## Lint, types and all fast tests: before every commit
	$(PYTEST) -m "not slow"

# The compiled wheel is built meanwhile.
test-all: $(DEV_STAMP) lint  ## Lint, types and all tests, also slow and compiled ones: before a merge
	tests/system-parts
	@if command -v cc >/dev/null || [ -n "$$CI" ]; then \
		nice $(BUILD_COMPILED) >$(COMPILED).log 2>&1 & building=$$!; \
	fi; \
	set -x; HYPOTHESIS_PROFILE=full $(PYTEST) || HYPOTHESIS_PROFILE=full $(BIN)/python $(TEST_AGAIN); \
	failed=$$?; set +x; \
	if [ -z "$$building" ]; then echo 'not tested as compiled wheel: cc is missing (package gcc)' >&2; exit $$failed; fi; \
	wait $$building || { cat $(COMPILED).log >&2; exit 1; }; \
	[ $$failed = 0 ] && $(TEST_COMPILED)

test-compiled: $(COMPILED)/.installed  ## All fast tests of the compiled wheel, in an environment of its own
	$(COMPILED)/bin/looptrap --version | grep compiled
	$(COMPILED)/bin/python $(TEST) -m "not slow" || $(COMPILED)/bin/python $(TEST_AGAIN)

test-frameworks: $(DEV_STAMP) $(HEAVY:%=$(FRAMEWORKS)/%/.installed)  ## Tests of heavy frameworks and coding agents (6 GB of them)
	LOOPTRAP_FRAMEWORKS=$(subst $(space),$(comma),$(HEAVY)) $(BIN)/python -m pytest -n 2 --dist loadgroup -q tests/frameworks

lint: $(DEV_STAMP)  ## Style and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(DEV_STAMP)  ## Measure everything, and write bench/RESULTS.md; ARGS="--runs RUNS.jsonl.gz"
	$(BIN)/python -m bench.report $(ARGS)

bench-check: $(DEV_STAMP)  ## Measure again, and hold the ratios against bench/RESULTS.md
	$(BIN)/python -m bench.report --check $(ARGS)

bench-loops: $(DEV_STAMP) $(FRAMEWORKS)/loops/.installed  ## Compare loop detectors on LoopBench, packages of PyPI too
	$(BIN)/python -m bench.loops --compare $(ARGS)

fuzz: $(FUZZ_STAMP)  ## Fuzz every parser; ARGS="--seconds 600 --target wire", --list says which
	$(BIN)/python -m fuzz $(ARGS)

audit: $(AUDIT_STAMP)  ## Versions, licences and known vulnerabilities of what runs with Looptrap
	$(BIN)/python -m fuzz.audit $(ARGS)

# Build tools belong to it, as the image is built with them.
lock: $(LOCK_STAMP)  ## Pin what runs with Looptrap anew, with hashes, in requirements.lock
	$(BIN)/python -c 'import tomllib; made = tomllib.load(open("pyproject.toml", "rb")); \
		print(*made["build-system"]["requires"], \
		*made["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]["dependencies"], sep="\n")' \
	| $(BIN)/uv pip compile pyproject.toml - --upgrade --universal --python-version 3.11 --generate-hashes \
		$(addprefix --extra ,embedded jwt apprise otel postgres) --no-header --no-annotate --quiet --output-file requirements.lock

sbom: $(DEV_STAMP)  ## Write what runs with Looptrap as CycloneDX into sbom.cdx.json
	$(BIN)/python -m fuzz.sbom --output sbom.cdx.json

chaos: $(DEV_STAMP)  ## Kill store, providers and workers under traffic for 10 minutes
	$(BIN)/python -m bench.chaos $(ARGS)

fleet: $(DEV_STAMP)  ## Restart, kill and cut off gateways behind HAProxy; needs root
	tests/system-parts
	$(BIN)/python -m bench.fleet $(ARGS)

soak: $(DEV_STAMP)  ## Send a million requests; does memory stay flat?
	$(BIN)/python -m bench.soak $(ARGS)

pictures: $(DEV_STAMP)  ## Make the pictures of dashboard and demo in docs/pictures again
	tests/system-parts
	LOOPTRAP_PICTURES=docs/pictures $(BIN)/python -m pytest -q tests/browser/test_look.py tests/docs/test_recording.py

docs: $(DEV_STAMP)  ## Build the documentation into site/
	$(BIN)/zensical build --clean

# Built from an sdist, so that no module of the source tree is compiled.
wheel-compiled: $(DEV_STAMP)  ## Build a wheel with compiled modules for this machine into dist/; needs a C compiler
	HATCH_BUILD_HOOK_ENABLE_MYPYC=true $(BIN)/python -m build --outdir dist

clean:  ## Remove everything that was made here
	rm -rf $(VENV) $(FRAMEWORKS) $(COMPILED) $(COMPILED).log site build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# A virtual environment made by another Python, or half made, is made anew.
$(VENV)/.made:
	@for python in $(if $(PYTHON),,$(PYTHONS)); do \
		found=$$($$python src/looptrap/cli/interpreter.py 2>/dev/null) || continue; \
		$$python -m venv --clear $(VENV) >/dev/null 2>&1 || continue; \
		echo "$(VENV): $$(command -v $$python), $$found; PYTHON=... chooses another"; touch $@; exit; \
	done; \
	python='$(or $(PYTHON),python3)'; set -ex; \
	$$python -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"Looptrap needs Python 3.11 or newer, {sys.executable} is {sys.version}")'; \
	$$python -m venv --clear $(VENV); \
	touch $@

$(RUN_STAMP): pyproject.toml | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(DEV_STAMP): pyproject.toml | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(RUN_STAMP)

# Where atheris has no wheel, inputs are chosen at random.
$(FUZZ_STAMP): $(DEV_STAMP)
	-$(BIN)/python -m pip install --quiet --editable '.[dev,fuzz]'
	touch $@

$(AUDIT_STAMP): $(DEV_STAMP)
	-$(BIN)/python -m pip install --quiet --editable '.[dev,audit]'
	touch $@

$(LOCK_STAMP): $(DEV_STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[dev,lock]'
	touch $@

$(COMPILED)/.installed: pyproject.toml $(shell find src -name '*.py') | $(DEV_STAMP)
	$(BIN)/python -m venv --clear $(COMPILED)
	HATCH_BUILD_HOOK_ENABLE_MYPYC=true $(BIN)/python -m build --outdir $(COMPILED)/dist
	$(COMPILED)/bin/python -m pip install --quiet "$$(echo $(COMPILED)/dist/*.whl)[dev]"
	touch $@

# What does not go with the rest has an environment of its own, with the versions that are documented.
$(FRAMEWORKS)/%/.installed: tests/frameworks/%.txt | $(VENV)/.made
	$(BIN)/python -m venv --clear $(FRAMEWORKS)/$*
	$(FRAMEWORKS)/$*/bin/python -m pip install --quiet --requirement $<
	touch $@

$(FRAMEWORKS)/loops/.installed: bench/loops/packages.txt | $(VENV)/.made
	$(BIN)/python -m venv --clear $(FRAMEWORKS)/loops
	$(FRAMEWORKS)/loops/bin/python -m pip install --quiet --requirement $<
	touch $@

# OpenHands runs on Python 3.12 alone. Without one its tests say so and are skipped (or fail, in CI).
$(FRAMEWORKS)/openhands/.installed: tests/frameworks/openhands.txt
	mkdir -p $(@D)
	for python in $(PYTHON) python3 python3.12 $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.12.*/bin/python; do \
		$$python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null || continue; \
		$$python -m venv --clear $(@D) && $(@D)/bin/python -m pip install --quiet --requirement $< && touch $@; exit; \
	done; echo 'OpenHands is not installed: it needs Python 3.12' >&2

$(FRAMEWORKS)/node/.installed $(FRAMEWORKS)/agents/.installed: $(FRAMEWORKS)/%/.installed: tests/frameworks/%/package.json
	mkdir -p $(FRAMEWORKS)/$*
	cp $< $(FRAMEWORKS)/$*
	npm install --prefix $(FRAMEWORKS)/$* --no-audit --no-fund --no-package-lock
	touch $@
