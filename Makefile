# Targets: setup demo test lint corpus bench mutants soak clean. Everything is installed into .venv from the package index.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: help setup demo test lint corpus bench bench-frontend mutants soak clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	@touch $@

setup: $(VENV)/.ready ## create .venv with everything the project needs

demo: setup ## inspect, rewrite, compile and compare the shipped module
	$(BIN)/zluda-rr demo

lint: setup ## ruff, its format, and mypy --strict
	$(BIN)/ruff check zluda_rr tests hatch_build.py
	$(BIN)/ruff format --check -q zluda_rr tests hatch_build.py
	$(BIN)/mypy

test: setup lint ## lint, then the whole test suite
	$(BIN)/pytest -n 2 -m 'not soak and not device'

corpus: setup ## rebuild the reference modules and the large benchmark modules from their CUDA sources
	$(BIN)/python -m tests.corpus.build
	$(BIN)/python -m tests.corpus.large

bench: setup ## instruction mix of translated against rewritten
	$(BIN)/zluda-rr bench --layer enc0

bench-frontend: setup ## time, memory and growth of inspect and rewrite on modules of 30,000 to 250,000 lines
	$(BIN)/python -m tests.corpus.bench_frontend

mutants: setup ## judge every mutant of the direct body (hours; goes on where it stopped), then list the survivors
	nice -n 10 $(BIN)/python -m tests.kernels.mutants

soak: setup ## long sweeps
	$(BIN)/pytest -n 2 -m soak

clean: ## remove everything that was built
	rm -rf $(VENV) .corpus build dist
