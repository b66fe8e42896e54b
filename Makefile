# Every target makes the environment it needs: a virtual environment in .venv, with the exact versions of constraints.txt.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test test-slow test-extras hooks dp bench reproduce reproduce-quick reproduce-toy lock clean

help:
	@echo "make demo   protect a model of an embedded census and look at the result"
	@echo "make test   tests, linters and type checks"
	@echo "make test-slow  tests that take long"
	@echo "make test-extras  the extras for large tables, each in an environment with nothing else"
	@echo "make hooks  linters and type checks before every commit"
	@echo "make dp     what the baselines with differential privacy need, for their tests to run too"
	@echo "make bench  benchmarks against peers"
	@echo "make reproduce        the papers' tables and figures, and docs/papers.md, in two and a half hours on two cores;"
	@echo "                      it goes on where it was stopped"
	@echo "make reproduce-quick  the same in minutes, with a page of its own in experiments/results/quick"
	@echo "make lock   pin the newest versions in constraints.txt"

demo: $(VENV)/.core
	$(BIN)/shoal demo --out demo

# Compiled kernels are kept for this very state of all of them: one that calls an edited one in another file would
# otherwise be taken from the cache unchanged.
KERNELS := $(shell cat src/shoal/_kernels/*.py | cksum | cut -d ' ' -f 1)
demo test test-slow reproduce reproduce-quick reproduce-toy: export NUMBA_CACHE_DIR ?= $(CURDIR)/.numba_cache/$(KERNELS)

# While linters look at the code, kernels are compiled that every worker would else compile for itself.
test: $(VENV)/.test
	{ for part in trees cuts clusters questions; do $(BIN)/python -m shoal.jobs.warm_up $$part || exit 1; done; } & \
	rehearsal=$$!; \
	{ $(BIN)/ruff check . && $(BIN)/lint-imports && $(BIN)/mypy; } || { kill $$rehearsal; exit 1; }; \
	wait $$rehearsal
	$(BIN)/python -m pytest -n auto -m 'not slow'

# Those that take long, up to a minute each, such as a cluster of which a worker is killed.
test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -n auto -m slow

# Tests have all extras: what one of them lacks is only seen where it is alone.
test-extras: test-duckdb-alone test-spark-alone

test-%-alone: .alone-%/.made
	.alone-$*/bin/python tests/extra_alone.py $*

.alone-%/.made: pyproject.toml constraints.txt $(shell find src -name '*.py')
	test -d .alone-$* || $(PYTHON) -m venv .alone-$*
	.alone-$*/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt '.[$*]'
	touch $@

.PRECIOUS: .alone-%/.made

hooks: $(VENV)/.test
	$(BIN)/pre-commit install

# The forest of diffprivlib does not run beside current scikit-learn, so it has an environment of its own.
DIFFPRIVLIB := $(CURDIR)/.peer-diffprivlib/bin/python
reproduce reproduce-quick reproduce-toy: export SHOAL_DIFFPRIVLIB_PYTHON ?= $(DIFFPRIVLIB)
ifneq ($(wildcard .peer-diffprivlib/.made),)
test: export SHOAL_DIFFPRIVLIB_PYTHON ?= $(DIFFPRIVLIB)
endif

dp: $(VENV)/.dp

$(VENV)/.dp: $(VENV)/.test .peer-diffprivlib/.made
	$(PIP) torch==2.13.0 opacus==1.6.0
	touch $@

.peer-diffprivlib/.made:
	$(PYTHON) -m venv .peer-diffprivlib
	.peer-diffprivlib/bin/python -m pip install --quiet --disable-pip-version-check diffprivlib==0.6.6 'scikit-learn<1.8'
	touch $@

bench: $(VENV)/.test
	$(PIP) --no-deps -r benchmarks/peers.txt
	for file in benchmarks/bench_*.py; do $(BIN)/python $$file || exit 1; done

reproduce: $(VENV)/.dp
	$(BIN)/python experiments/reproduce.py

reproduce-quick reproduce-toy: reproduce-%: $(VENV)/.dp
	$(BIN)/python experiments/reproduce.py --$*

lock: $(VENV)/.test
	$(BIN)/uv pip compile --quiet --universal --upgrade --extra dev --no-header --no-annotate pyproject.toml -o constraints.txt

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Shoal needs Python 3.11 or newer: make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e .
	touch $@

# pycanon judges our privacy models. It pins versions of numpy and pandas of its own, none of which it needs.
$(VENV)/.test: pyproject.toml constraints.txt tests/judges.txt | $(VENV)/bin/python
	$(PIP) -e '.[dev]'
	$(PIP) --no-deps -r tests/judges.txt
	touch $@ $(VENV)/.core

clean:
	rm -rf $(VENV) .peer-* .alone-* .numba_cache .mypy_cache .ruff_cache .pytest_cache .hypothesis demo
