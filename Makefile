# make demo and make test do all their set-up: Python 3.11+ and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test test-all lint types check docs clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--config-settings editable_mode=compat --editable '.[dev]'
	@touch $@

demo: install
	$(BIN)/nobacktrack demo

test: install
	$(BIN)/python -m pytest -n auto -m 'not slow'

test-all: install
	$(BIN)/python -m pytest -n auto

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo

types: install
	$(BIN)/pyright

check: lint types test

# The reference, from docstrings, in out/reference/index.html.
REFERENCE := nobacktrack learner systems estimators updates influence.norms engines live together checkpoint generation growth \
	streams readers.text readers.table readers.rows adapters.river adapters.sklearn diagnostics checks hmm errors

docs: install
	@mkdir -p out
	$(BIN)/pdoc --no-show-source --output-directory out/reference \
		$(patsubst nobacktrack.nobacktrack,nobacktrack,$(addprefix nobacktrack.,$(REFERENCE))) 2> out/reference.log

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache
