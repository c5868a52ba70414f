# Every target sets itself up in .venv, and needs no network once it has.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev
# One more than cores, for tests wait for servers and browsers much of the time.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(4, (os.cpu_count() or 1) + 1))')
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help install install-dev chat web mcp studio reindex mcpb test test-fast check format bench docs hooks constraints clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

install: $(READY) ## Make .venv and install PersonaLab into it

install-dev: $(READY_DEV) ## Install what tests, checks and Studio need as well

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "PersonaLab needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(READY): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable .
	@touch $@

$(READY_DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[dev]'
	@touch $@ $(READY)

chat: $(READY) ## Begin a story, or go on with one, in the terminal
	@$(BIN)/personalab chat

web: $(READY) ## Start the page in a browser, its API and MCP
	@$(BIN)/personalab serve

mcp: $(READY) ## Show how Claude Desktop, VS Code or Cursor start PersonaLab
	@$(BIN)/personalab mcp-config

studio: $(READY_DEV) ## Open the graphs in LangGraph Studio (langgraph dev)
	$(BIN)/langgraph dev --n-jobs-per-worker 10

reindex: $(READY) ## Rebuild the event library from the session files
	@$(BIN)/personalab reindex

mcpb: $(READY_DEV) ## Build the bundle for Claude Desktop into dist/
	@$(BIN)/python -m tools.build_mcpb --out dist

test: $(READY_DEV) ## Run the tests that need only Python; with PERSONALAB_TEST_ALL=1 all of them
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

test-fast: $(READY_DEV) ## Run the tests of rules and records, in under a minute
	PERSONALAB_TEST_PROFILE=fast $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile \
		tests/unit/story tests/unit/memory tests/unit/archive tests/contract

check: $(READY_DEV) ## Check format, lint, types and import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(READY_DEV) ## Format the code and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY_DEV) ## Measure speed, growth and recall, as ratios
	$(BIN)/python -m bench $(BENCH)

docs: $(READY_DEV) ## Build the documentation site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

hooks: $(READY_DEV) ## Run checks before each commit and push (git hooks by pre-commit)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pre-commit
	$(BIN)/pre-commit install --hook-type pre-commit --hook-type pre-push

constraints: $(READY_DEV) ## Write the versions at hand into constraints.txt
	$(BIN)/python -m pip freeze --exclude-editable | grep -E '^[A-Za-z0-9._-]+==' > constraints.txt

clean: ## Remove what was built (not your data)
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .langgraph_api
