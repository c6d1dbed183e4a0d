# make run: everything set up inside this folder, then the main job. See README.md.
# What failed before is measured again with: make run ARGS=--retry
PYTHON ?= python3
RUNS   ?= runs/reference
PAIRLAB = .venv/bin/pairlab

.PHONY: run test sweep paper bench lint lab tools setup clean
run: setup
	@$(PAIRLAB) sweep sweeps/smoke.yaml $(ARGS); status=$$?; \
	[ $$status -gt 1 ] || $(PAIRLAB) report --sweep smoke && exit $$status  # above 1, nothing was measured

# The notebooks write into .cache/, so that a test changes nothing in the tree.
test: setup lint
	rm -rf .cache && mkdir .cache
	.venv/bin/python -m pytest tests
	PAIRLAB_OUT=$(CURDIR)/.cache .venv/bin/python -m pytest --nbval notebooks/analysis

setup:
	@$(PYTHON) lib/bootstrap.py

sweep: setup
	$(PAIRLAB) sweep $(or $(FILE),sweeps/smoke.yaml)

paper: setup
	$(PAIRLAB) report --runs $(RUNS) --need-paper

bench: setup
	@.venv/bin/python -m tests.bench
	@.venv/bin/python -m tests.study

lint: setup
	.venv/bin/ruff check lib tests notebooks
	.venv/bin/ruff format --check lib tests
	.venv/bin/lint-imports --no-cache

lab: setup
	.venv/bin/jupyter lab --ip=127.0.0.1 notebooks

tools:
	@sh lib/tools.sh

clean:
	rm -rf .venv .cache lib/flowgen/build lib/*.egg-info .pytest_cache .ruff_cache paper/build
