# make run: everything set up inside this folder, then the main job. See README.md.
PYTHON ?= python3
RUNS   ?= runs/reference
PAIRLAB = .venv/bin/pairlab

.PHONY: run test sweep paper bench lint lab tools setup clean
run: setup
	@$(PAIRLAB) sweep sweeps/smoke.yaml; status=$$?; $(PAIRLAB) report --sweep smoke && exit $$status

# The notebooks write into .cache/, so that a test changes nothing in the tree.
test: setup lint
	rm -rf .cache && mkdir .cache
	.venv/bin/python -m pytest tests
	PAIRLAB_OUT=$(CURDIR)/.cache .venv/bin/python -m pytest --nbval notebooks/analysis
	PAIRLAB_RUNS=$(CURDIR)/.cache/runs .venv/bin/python -m pytest --nbval-lax notebooks/experiments

setup:
	@$(PYTHON) lib/bootstrap.py

sweep: setup
	$(PAIRLAB) sweep $(or $(FILE),sweeps/smoke.yaml)

paper: setup
	$(PAIRLAB) report --runs $(RUNS) --need-paper

bench: setup
	@.venv/bin/python -m tests.bench

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
