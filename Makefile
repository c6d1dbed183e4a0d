# make run: everything set up inside this folder, then the main job. See README.md.
# What failed before is measured again with: make run ARGS=--retry
PYTHON ?= python3
RUNS   ?= runs/reference
PAIRLAB = .venv/bin/pairlab

# .cache/*.xml, .cache/soak and .cache/bench are what tests.trust reads.
.PHONY: run test test-faults test-kernels soak sweep paper outputs docs bench lint lab audit tools setup clean
run: setup
	@$(PAIRLAB) sweep sweeps/smoke.yaml $(ARGS); status=$$?; \
	[ $$status -gt 1 ] || $(PAIRLAB) report --sweep smoke && exit $$status  # above 1, nothing was measured

# Tier by tier, then the time of each and the ten slowest. ALL=1, as in CI: every driver with every workload in every
# backend, and flowgen's sanitized build.
TESTS = .venv/bin/python -m tests
NBVAL = -p nbval -p tests.support.kernels --nbval --nbval-sanitize-with=lib/nbval.cfg
ONLY = $(if $(ALL),,-m "not ci and not long")
test: setup lint
	$(TESTS) -- $(ONLY)
ifdef ALL  # each analysis in a kernel of its own; `tests notebooks` has executed them in one process
	PAIRLAB_OUT=$(CURDIR)/.cache .venv/bin/python -m pytest $(NBVAL) notebooks/analysis -n auto --dist loadfile
endif

# Interrupted at its bound as by Ctrl-C, so that it cleans up and prints what it was doing.
WITHIN ?= 20m
test-faults: setup
	timeout --foreground --signal=INT --kill-after=60 $(WITHIN) $(TESTS) faults -- -m "not long"

# In a virtual machine with another kernel: KERNEL is the Debian package of it, SUBJECTS what to test (default: all of the default one).
KERNEL ?= linux-image-cloud-amd64
test-kernels: setup
	.venv/bin/python -m tests.kernels --kernel $(KERNEL) $(SUBJECTS)

soak: setup
	$(TESTS) faults -- -m long
	.venv/bin/python -m tests.soak $(ARGS)
	$(TESTS) unit host -- -m "ci or hypothesis" --hypothesis-profile=search

setup:
	@$(PYTHON) lib/bootstrap.py

sweep: setup
	$(PAIRLAB) sweep $(or $(FILE),sweeps/smoke.yaml)

paper: setup
	$(PAIRLAB) report --runs $(RUNS) --need-paper

# Of runs/reference, what is committed: the analysis notebooks' outputs, figures, the paper's tables, values and PDF.
outputs: setup
	.venv/bin/python lib/outputs.py $(ARGS)

# Into .cache/site; a warning is a failure. The variable keeps Material from advertising its successor.
docs: setup
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict -f docs/site/mkdocs.yml

bench: setup
	@.venv/bin/python -m tests.bench
	@.venv/bin/python -m tests.bench.study

lint: setup
	.venv/bin/ruff check lib tests notebooks docs
	.venv/bin/ruff format --check lib tests docs
	.venv/bin/lint-imports --no-cache
	.venv/bin/deptry lib/pairlab
	.venv/bin/mypy

lab: setup
	@.venv/bin/python -m pairlab.apps.lab $(ARGS)

# Asks a public database, so it is no part of `make test`. Status of the script: 1 vulnerable, 3 not checked.
audit:
	@$(PYTHON) lib/audit.py

tools:
	@sh lib/tools.sh

clean:
	rm -rf .venv .cache lib/flowgen/build lib/*.egg-info .pytest_cache .ruff_cache paper/build
