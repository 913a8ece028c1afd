# Two commands do everything on a machine with Python 3.11 or newer: `make demo` and `make test`.
# Each builds the environment it needs; stamps in build/ make the second time quick.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PIP_FLAGS := --disable-pip-version-check --no-input -qq
VENV := .venv
BIN := $(VENV)/bin
DEMO_VENV := build/venv-demo
DEMO_BIN := $(DEMO_VENV)/bin
EXAMPLE ?= examples/long-session.jsonl
DEMO_WINDOW ?= 128000
DEMO_RESULT := build/demo/compacted.jsonl
DEMO_PAGE := build/demo/compact.html
GATES := tests/test_budgets.py tests/test_layers.py tests/test_tree.py
# The directories are there so that a file which was removed makes a new wheel too.
SOURCES := $(shell find src -name __pycache__ -prune -o -name '.*' -prune -o -print) pyproject.toml README.md LICENSE NOTICE.md
PINS := pyproject.toml constraints/base.txt constraints/dev.txt
CHROMIUM := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)

.PHONY: help demo test check check-format check-lint check-types check-changelog check-gates fix changelog pins browser clean

help:
	@echo 'make demo       compact a recorded session that is too long, offline, and bring it back; writes $(DEMO_PAGE)'
	@echo 'make test       all tests, against the built wheel'
	@echo 'make check      format, lint, types, changelog, budgets'
	@echo 'make fix        format, and mend what the linter can'
	@echo 'make changelog  show what the next release will say'
	@echo 'make pins       resolve the dependencies anew and write constraints/'
	@echo 'make clean      remove all that these commands made'

# --- what a user does

demo: build/stamps/demo
	@mkdir -p $(dir $(DEMO_PAGE))
	$(DEMO_BIN)/fivefold compact $(EXAMPLE) --window $(DEMO_WINDOW) -o $(DEMO_RESULT) --force --html $(DEMO_PAGE)
	$(DEMO_BIN)/fivefold undo $(DEMO_RESULT)

# --- the gates

test: build/stamps/wheel browser
	@$(BIN)/python -m pytest -n auto

# One failing gate does not hide the next.
check: build/stamps/wheel
	@$(MAKE) --no-print-directory --keep-going check-format check-lint check-types check-changelog check-gates

check-format:
	$(BIN)/ruff format --check --diff .

check-lint:
	$(BIN)/ruff check .

check-types:
	$(BIN)/mypy

check-changelog:
	@echo '$(BIN)/towncrier build --draft'
	@said=$$($(BIN)/towncrier build --draft --version next 2>&1) || { echo "$$said"; exit 1; }

check-gates:
	$(BIN)/python -m pytest -q $(GATES)

fix: build/stamps/env
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

changelog: build/stamps/env
	@$(BIN)/towncrier build --draft --version next

# --- the environments

# One place says how an environment comes to be: $(call venv,DIRECTORY). Debian's python3 has no ensurepip.
define venv
	@test -n '$(PYTHON)' || { echo 'Python 3.11 or newer is needed; PYTHON=/path/to/python names one' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || $(call apt,python3-venv) || \
		{ echo '$(PYTHON) has no venv module: install your system'\''s package for it (python3-venv)' >&2; exit 1; }
	@rm -rf $(1) && $(PYTHON) -m venv $(1)
endef

apt = { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && export DEBIAN_FRONTEND=noninteractive && \
	apt-get update -qq >/dev/null && apt-get install -qq -y --no-install-recommends $(1) >/dev/null 2>&1 </dev/null; }

build/stamps/env: $(PINS)
	$(call venv,$(VENV))
	@echo 'environment: $(VENV), from constraints/dev.txt'
	@$(BIN)/python -m pip install $(PIP_FLAGS) -r constraints/dev.txt
	@mkdir -p $(@D) && touch $@

build/stamps/wheel: build/stamps/env $(SOURCES)
	@rm -rf build/wheel
	@$(BIN)/python -m pip wheel $(PIP_FLAGS) --no-deps --no-build-isolation --wheel-dir build/wheel .
	@$(BIN)/python -m pip install $(PIP_FLAGS) --no-deps --force-reinstall build/wheel/*.whl
	@$(BIN)/python -m pip check >/dev/null || $(BIN)/python -m pip check
	@touch $@

build/stamps/demo: $(PINS) $(SOURCES)
	@test -x $(DEMO_BIN)/python || $(MAKE) --no-print-directory $(DEMO_BIN)/python
	@echo 'environment: $(DEMO_VENV), from constraints/base.txt'
	@$(DEMO_BIN)/python -m pip install $(PIP_FLAGS) -r constraints/base.txt
	@$(DEMO_BIN)/python -m pip install $(PIP_FLAGS) -c constraints/dev.txt hatchling
	@$(DEMO_BIN)/python -m pip install $(PIP_FLAGS) --no-deps --no-build-isolation --force-reinstall .
	@mkdir -p $(@D) && touch $@

$(DEMO_BIN)/python:
	$(call venv,$(DEMO_VENV))

# The browser tests drive a real Chromium. Where it can't be installed they fail and say so; none is skipped.
browser:
	@test -n '$(CHROMIUM)' || { echo 'installing Debian packages: chromium fonts-liberation'; $(call apt,chromium fonts-liberation); } || \
		echo 'chromium is not here and could not be installed: the browser tests will fail'

# --- the pins

pins:
	$(call venv,build/venv-pins)
	@build/venv-pins/bin/python -m pip install $(PIP_FLAGS) .
	@build/venv-pins/bin/python -m pip freeze --exclude fivefold >build/base.txt
	@build/venv-pins/bin/python -m pip install $(PIP_FLAGS) -c build/base.txt '.[dev]'
	@build/venv-pins/bin/python -m pip freeze --exclude fivefold >build/dev.txt
	@mv build/base.txt build/dev.txt constraints/
	@rm -rf build/venv-pins

clean:
	rm -rf .venv build .mypy_cache .pytest_cache .ruff_cache .hypothesis
