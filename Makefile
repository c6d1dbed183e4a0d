# make run: everything set up inside this folder, then the main job. See README.md. Once more, it measures again what was
# not measured, failed or was invalid.
PYTHON ?= python3
RUNS   ?= runs/reference
SWEEP  ?= smoke
PAIRLAB = .venv/bin/pairlab
# The user's are for another Python than .venv's: ROS has plugins of pytest on PYTHONPATH.
unexport $(filter PYTHON% PYTEST_PLUGINS PYTEST_DISABLE_PLUGIN_AUTOLOAD,$(.VARIABLES))

.PHONY: run check test test-all test-kernels soak sweep paper outputs docs bench lint lab audit dist tools setup clean
run: setup
	@$(PAIRLAB) sweep sweeps/$(SWEEP).yaml --retry $(ARGS); status=$$?; \
	[ $$status -gt 1 ] || $(PAIRLAB) report --sweep $(SWEEP) && exit $$status  # above 1, nothing was measured

# What holds on any machine, part by part, then the time of each and the ten slowest tests: the gate, .ci/run, has them.
TESTS = .venv/bin/python -m tests
test: setup
	$(TESTS)

# What needs no measurement: for between two changes.
check: setup
	$(TESTS) unit notebooks

# The whole: what wants a quiet machine, further combinations, kills, other kernels, the soak. Part after part; what passed is
# not done again, so it goes on where it ended. PARTS="host-measuring faults-docker" takes some.
test-all: setup
	$(TESTS) --whole $(PARTS)

# In a virtual machine with another kernel: KERNEL is the Debian package of it, SUBJECTS what to test (default: all of the default one).
KERNEL ?= linux-image-cloud-amd64
test-kernels: setup
	.venv/bin/python -m tests.kernels --kernel $(KERNEL) $(SUBJECTS)

soak: setup
	$(TESTS) faults-long soak search

setup:
	@$(PYTHON) lib/bootstrap.py

sweep: setup
	$(PAIRLAB) sweep $(or $(FILE),sweeps/smoke.yaml)

paper: setup
	$(PAIRLAB) report --runs $(RUNS) --need-paper

# Of runs/reference, what is committed: the analysis notebooks' outputs, figures, the paper's tables, values and PDF.
outputs: setup
	.venv/bin/python lib/outputs.py $(ARGS)

# What is made of the code is written into the pages; the site into .cache/site, and a warning is a failure.
docs: setup
	.venv/bin/python docs/site/generated.py
	.venv/bin/python -m sphinx --fail-on-warning --keep-going --jobs auto --quiet --conf-dir docs/site --doctree-dir .cache/doctrees . .cache/site

bench: setup
	@.venv/bin/python -m bench
	@.venv/bin/python -m bench.study

lint: setup
	.venv/bin/ruff check lib tests notebooks docs plugins .ci
	.venv/bin/ruff format --check lib tests docs plugins .ci
	.venv/bin/lint-imports --no-cache
	.venv/bin/deptry lib/pairlab
	for each in plugins/*; do .venv/bin/deptry --config $$each/pyproject.toml $$each/src || exit; done
	.venv/bin/mypy

lab: setup
	@$(PAIRLAB) lab $(ARGS)

# Asks a public database, so it is no part of `make test`. pip-audit is kept out of what it audits.
audit: setup
	.venv/bin/python -m pip install --quiet --require-hashes --target .cache/pip-audit -r lib/requirements/audit.lock
	for lock in lib/requirements/*.lock plugins/*/*.lock; do \
	PYTHONPATH=.cache/pip-audit .venv/bin/python -m pip_audit --strict --disable-pip --require-hashes -r $$lock || exit; done

# A source distribution, and of it a wheel for this machine, in .cache/dist; FLOWGEN_ARCH=aarch64 for another machine, by ziglang.
dist: setup
	rm -rf build .cache/dist
	$(if $(FLOWGEN_ARCH),.venv/bin/python -m pip install --quiet --require-hashes -r lib/requirements/cc.lock)
	mkdir -p .cache/dist
	cd .cache/dist && ../../.venv/bin/python -c 'import os; from setuptools import build_meta; place = os.getcwd(); os.chdir("../.."); build_meta.build_sdist(place)'
	cd .cache/dist && ../../.venv/bin/python -m pip wheel --quiet --no-deps --no-build-isolation --no-index *.tar.gz
	rm -rf build

tools:
	@sh lib/tools.sh

clean:
	rm -rf .venv .cache lib/flowgen/build lib/*.egg-info plugins/*/src/*.egg-info .pytest_cache .ruff_cache paper/build
