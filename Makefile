# The targets are exactly what CI runs. Nothing here needs root or apt.
#
#     make demo    train and certify a classifier on a bundled data set
#     make test    run every test but the long ones
#
# PYTHON=/path/to/python3 chooses the Python that .venv is made with.

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
RENYI := $(BIN)/python -m renyi
# Many small matrices: one BLAS thread per process is faster than two, and
# JOBS processes already fill the machine.
# Bytecode is written whatever the environment says: many tests start a process.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest

export PATH := $(CURDIR)/.tools/usr/bin:$(PATH)

.PHONY: help demo test test-long test-floors test-pythons fuzz lint format bench paper docs wheel tools clean

help:
	@echo "make demo       train and certify a classifier on a bundled data set"
	@echo "make test       every test but the long ones (JOBS=2 processes)"
	@echo "make test-long  every test, simulations at their full count; branch coverage"
	@echo "make test-floors  every test with the oldest versions that are admitted"
	@echo "make test-pythons  every test with the newer Pythons (PYTHONS) that are here"
	@echo "make fuzz       a million mutated files (INPUTS); findings go to fuzz-found"
	@echo "make lint       ruff, mypy, the direction of imports, plain words"
	@echo "make format     let ruff rewrite what lint would complain about"
	@echo "make bench      the benchmarks, peers in the same run"
	@echo "make paper      the paper's experiments, resumable, into results/; SPLITS=3 in short"
	@echo "make docs       the documentation, into docs/_build/html"
	@echo "make wheel      a wheel, into dist/"
	@echo "make tools      system programs for some tests, into .tools/"
	@echo "make clean      remove what these made, .venv and .tools excepted"

# A .venv copied along with its checkout still imports the old one's sources;
# setup.sh notes in it where it belongs.
ifneq ($(file < $(VENV)/.checkout),$(CURDIR))
MOVED := moved
endif
.PHONY: moved

# One stamp per set of extras, inside .venv so that it vanishes with it.
$(VENV)/.installed-%: pyproject.toml scripts/setup.sh $(MOVED)
	PYTHON="$(PYTHON)" scripts/setup.sh $(filter-out core,$*)
	@touch $@

demo: $(VENV)/.installed-core
	@mkdir -p demo
	$(RENYI) fit kr-vs-kp --out demo/kr-vs-kp
	@echo
	@echo "The scorecard: points of every category, the features that matter first."
	@$(BIN)/python -c 'import renyi; print(renyi.Scorecard.load("demo/kr-vs-kp.json"))'
	@echo
	$(RENYI) report demo/kr-vs-kp.json -o demo/report.html

# Tests of one group share a server, and so a process.
test: $(VENV)/.installed-test
	$(PYTEST) -n $(JOBS) --dist loadgroup $(PYTEST_ARGS)

test-long: $(VENV)/.installed-test test-floors test-pythons
	$(PYTEST) -n $(JOBS) --dist loadgroup -m "" \
		--cov=renyi --cov-branch --cov-report=term:skip-covered

# The oldest versions that pyproject.toml admits, in an environment of their own; what
# is newer than they are tells them that it deprecates something, and the oldest pyspark
# leaves sockets open.
test-floors:
	rm -rf .floors
	$(PYTHON) -m venv .floors
	.floors/bin/python scripts/floors.py > .floors/constraints.txt
	.floors/bin/python -m pip install --quiet --constraint .floors/constraints.txt \
		--editable ".[test]"
	$(PYTEST:$(BIN)/%=.floors/bin/%) -n $(JOBS) --dist loadgroup \
		-W ignore::DeprecationWarning -W ignore::FutureWarning -W ignore::ResourceWarning

# The newer Pythons, each in an environment of its own; the last lines say which were
# absent. PYTHONS=/path/to/python3.13 names others.
PYTHONS ?= python3.12 python3.13
test-pythons:
	@set -e; absent=; for python in $(PYTHONS); do \
		home=.pythons/$${python##*/}; rm -rf $$home; \
		$$python -m venv $$home 2>/dev/null || { absent="$$absent $$python"; continue; }; \
		echo "test-pythons: $$($$home/bin/python --version)"; \
		$$home/bin/python -m pip install --quiet --editable ".[test]"; \
		$(PYTEST:$(BIN)/%=$$home/bin/%) -n $(JOBS) --dist loadgroup $(PYTEST_ARGS); \
	done; \
	for python in $$absent; do echo "test-pythons: no $$python here, not tested"; done

# One finding is a failure; its file comes with the command that tries it again.
INPUTS ?= 1000000
fuzz: $(VENV)/.installed-test
	PYTHONPATH=tests $(BIN)/python -m fuzz --inputs $(INPUTS) --jobs $(JOBS)

lint: $(VENV)/.installed-lint
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check
	$(BIN)/python -m mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/lint_words.py

format: $(VENV)/.installed-lint
	$(BIN)/python -m ruff check --fix
	$(BIN)/python -m ruff format

bench: $(VENV)/.installed-bench
	set -e; for script in benchmarks/bench_*.py; do \
		OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python $$script; \
	done

# Hours in full. SPLITS=3 is a short version, in a folder of its own: fewer tables, draws
# and simulations, and pairs of columns of adult on one split. What is finished is kept.
# Those of data sets have seed 1: their grids were widened after looking at seed 0.
EXPERIMENTS := theorems information cycles best_subset selection runtime genome diagnose table1
SEEDED := selection diagnose table1
SHORT_theorems := --tables 30
SHORT_information := --tables 30
SHORT_cycles := --tables 100
SHORT_selection = --splits $(SPLITS)
SHORT_runtime := --repetitions 20 --columns 1000 10000 100000 --rows 100 200 400
SHORT_genome := --repetitions 1
SHORT_diagnose = --splits $(SPLITS) --large 1 --pairs 1
SHORT_table1 = --splits $(SPLITS) --pairs 1
PAPER := $(EXPERIMENTS:%=paper-%)
.PHONY: $(PAPER)
paper: $(PAPER)
$(PAPER): paper-%: $(VENV)/.installed-exact,fast,plot
	OMP_NUM_THREADS=1 $(BIN)/python -m experiments.$* $(if $(filter $*,$(SEEDED)),--seed 1) \
		$(if $(SPLITS),$(SHORT_$*) --out results/short/$*)

# The picture of the report is made anew if there is a Chromium ('make tools').
# Pages of names that are gone would stay behind, so the reference is made anew; no
# page may load anything from the network.
docs: $(VENV)/.installed-docs
	$(BIN)/python scripts/screenshot.py
	rm -rf docs/generated
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	! grep -rlE '(src=|@import )"?https?://' --include=*.html docs/_build/html

wheel: $(VENV)/.installed-core
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

tools:
	scripts/tools.sh

clean:
	rm -rf .boot .floors .hypothesis .mypy_cache .pytest_cache .pythons .ruff_cache demo dist fuzz-found \
		docs/_build docs/auto_examples docs/generated docs/sg_execution_times.rst
