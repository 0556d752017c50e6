# Everything a clone needs: `make demo` shows it working, `make test` proves it.
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
OUT    ?= out
export ENLCN_DATA ?= $(realpath ../shared/data)

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow lint format bench reproduce-smoke docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' Makefile

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# torch first and pinned: later steps find it satisfied and bring no other build.
$(VENV)/.torch: | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	@touch $@

$(VENV)/.base: pyproject.toml $(VENV)/.torch
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# spandrel without its dependencies: torchvision would bring another build of torch.
$(VENV)/.dev: pyproject.toml $(VENV)/.torch
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps 'spandrel>=0.4'
	@touch $@ $(VENV)/.base

demo: $(VENV)/.base ## install, then upscale a bundled photo with the bundled weights
	@$(BIN)/python -m enlcn.demo --out $(OUT)

test: lint ## install what tests need, lint, type-check, run every test but the slow ones
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: $(VENV)/.dev ## the proofs that take minutes
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.dev ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev ## time and memory of the attentions on this CPU
	$(BIN)/python benchmarks/scaling.py

reproduce-smoke: $(VENV)/.dev ## every table and figure of the paper at a tiny budget; the figures mean nothing
	$(BIN)/enlcn reproduce all --preset smoke --budget 5 --device cpu --data $(or $(ENLCN_DATA),enlcn/assets) --out $(OUT)/reproduce-smoke --overwrite

docs: $(VENV)/.dev ## build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## remove the environment and what was built
	rm -rf $(VENV) build dist site $(OUT) *.egg-info .mypy_cache .ruff_cache .pytest_cache
