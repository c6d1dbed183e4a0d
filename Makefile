# make run: everything set up inside this folder, then the main job. See README.md.
# What failed before is measured again with: make run ARGS=--retry
PYTHON ?= python3
RUNS   ?= runs/reference
PAIRLAB = .venv/bin/pairlab

# .cache/*.xml, .cache/soak and .cache/bench are what tests.trust reads.
.PHONY: run test test-faults soak sweep paper docs bench lint lab audit tools setup clean
run: setup
	@$(PAIRLAB) sweep sweeps/smoke.yaml $(ARGS); status=$$?; \
	[ $$status -gt 1 ] || $(PAIRLAB) report --sweep smoke && exit $$status  # above 1, nothing was measured

# The notebooks write into .cache/, so that a test changes nothing in the tree. What measures has the machine to itself;
# what only computes takes all of its CPUs, a file on each.
AT_ONCE = -n auto --dist loadfile
# RERUNS=3: a test that fails is run once more, three at most, and how they failed is printed. As in CI.
AGAIN = $(if $(RERUNS),--reruns 1 --max-suite-reruns $(RERUNS) --rerun-show-tracebacks)
test: setup lint
	rm -rf .cache/figures .cache/paper
	.venv/bin/python -m pytest tests --ignore=tests/analysis $(AGAIN) --junit-xml=.cache/test.xml
	.venv/bin/python -m pytest tests/analysis $(AT_ONCE) --junit-xml=.cache/analysis.xml
	PAIRLAB_OUT=$(CURDIR)/.cache .venv/bin/python -m pytest -p tests.kernels --nbval notebooks/analysis $(AT_ONCE)

# Interrupted at its bound as by Ctrl-C, so that it tidies up and tells what it was at.
WITHIN ?= 15m
test-faults: setup
	timeout --foreground --signal=INT --kill-after=60 $(WITHIN) .venv/bin/python -m pytest tests/faults -m "not long" $(AGAIN) --junit-xml=.cache/faults.xml

soak: setup
	.venv/bin/python -m pytest tests/faults -m long --junit-xml=.cache/faults-long.xml
	.venv/bin/python -m tests.soak $(ARGS)
	.venv/bin/python -m pytest $(shell grep -rl '^@given' tests) $(AT_ONCE) --hypothesis-profile=search

setup:
	@$(PYTHON) lib/bootstrap.py

sweep: setup
	$(PAIRLAB) sweep $(or $(FILE),sweeps/smoke.yaml)

paper: setup
	$(PAIRLAB) report --runs $(RUNS) --need-paper

# Into .cache/site; a warning is a failure. The variable keeps Material from advertising its successor.
docs: setup
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict -f docs/site/mkdocs.yml

bench: setup
	@.venv/bin/python -m tests.bench
	@.venv/bin/python -m tests.study

lint: setup
	.venv/bin/ruff check lib tests notebooks docs
	.venv/bin/ruff format --check lib tests docs
	.venv/bin/lint-imports --no-cache

lab: setup
	@.venv/bin/python -m pairlab.lab $(ARGS)

# Asks a public database, so it is no part of `make test`. Status of the script: 1 vulnerable, 3 not checked.
audit:
	@$(PYTHON) lib/audit.py

tools:
	@sh lib/tools.sh

clean:
	rm -rf .venv .cache lib/flowgen/build lib/*.egg-info .pytest_cache .ruff_cache paper/build
