# make demo · make test · make lint · make bench · make wheel: each sets up what it needs in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= runs/mnist
# Set e.g. SLOW= to leave the slow tests out: make test SLOW='-m "not slow"'
SLOW ?=

.PHONY: demo test lint bench wheel clean

## Train, prune, export, verify and report the MNIST preset; prints the path of the report.
demo: $(VENV)/.installed
	$(BIN)/tfdiff run mnist --out $(OUT)

## All tests.
test: $(VENV)/.installed-test
	$(BIN)/python -m pytest $(SLOW)

## Style and types.
lint: $(VENV)/.installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy tfdiff export pipelines

## Time the exported files of the demo's run alternately, with the Keras model beside them.
bench: demo
	$(BIN)/tfdiff bench $(OUT) --statistics

## Build the wheel from a clean copy of the tree, install it in an empty environment, run the command line.
wheel: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/wheel_check.py --override-ini addopts= -p no:cacheprovider

clean:
	rm -rf $(VENV) build dist *.egg-info

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info < (3, 13) else \
	  f"tfdiff needs Python 3.11 or 3.12, found {sys.version.split()[0]}: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python setup.cfg pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q -c constraints.txt -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[test]"
	touch $@

$(VENV)/.installed-lint: $(VENV)/.installed
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[lint]"
	touch $@
