# make demo · make test · make slow · make check · make docs · make renew: each builds its own virtual environment first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test slow check docs renew format bench fuzz clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.demo
	$(BIN)/prunecast demo -o demo

# One process more than the two cores it is measured on, because many tests wait, each with one thread for arithmetic; modules are compiled once for all
# the processes that tests start.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 3 --dist loadgroup --no-loadscope-reorder -rs

test: $(VENV)/.dev
	$(PYTEST) -m "not slow"

# Kills, clusters, browsers, kernels on the CPU, every command of the docs.
slow: $(VENV)/.dev
	$(PYTEST) -m slow

# Archives, pickles and array files with random damage: 133,000 of them, of which the tests read a twentieth.
.PHONY: fuzz-data
fuzz-data: $(VENV)/.dev
	PRUNECAST_FUZZ=20 $(PYTEST) tests/data/test_fuzz.py

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/.dev
	$(BIN)/zensical build --strict

renew: $(VENV)/.dev
	$(BIN)/python tools/renew.py

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/fit.py

# Tables, plans, laws and files of a store, damaged and forged at random; the tests run a few cases of each.
fuzz: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python tools/fuzz_tables.py --cases 10000
	OMP_NUM_THREADS=1 $(BIN)/python tools/fuzz_plans.py --cases 10000
	OMP_NUM_THREADS=1 $(BIN)/python tools/fuzz_laws.py --cases 10000
	OMP_NUM_THREADS=1 $(BIN)/python tools/fuzz_store.py --cases 5000

# A run that fails or is killed at each of the about 1,300 system calls that touch its store; needs strace.
.PHONY: faults
faults: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python tools/inject_faults.py --cases 10000

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[train,report]'
	touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev,train,report,parquet,slurm,ray,onnx]'
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
