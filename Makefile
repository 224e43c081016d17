# make run       creates .venv, installs the package, and trains on the default data set
# make test      the tests, in the same environment; slow ones are left out
# make test-all  all tests
# make lint      ruff and mypy
# make sparse    installs torch-scatter and torch-sparse, which build from source (ten minutes), and
#                torch-geometric-pool
# make docs      builds the documentation in docs/_build/html
# make lock      writes the versions and hashes of the packages that CI installs to .ci/lock
# make audit     looks for known vulnerabilities in the installed packages; needs the network
# make gpu       tests and benchmarks on a GPU machine, with its own Python
#
# PYTHON chooses the interpreter (3.10 or later), ARGS are passed to the benchmark or to pytest.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
# One process for each physical core, at most eight, as each takes half a GiB. A test computes with
# one thread. ARGS="-n 0 -s" runs one process and shows what tests print.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal
ARGS ?=

.PHONY: run test test-all lint lock audit sparse docs gpu clean

run: $(VENV)/.ready
	$(BIN)/python benchmark/graph_classification.py $(ARGS)

test: $(VENV)/.ready
	$(PYTEST) -m 'not slow' $(ARGS)

test-all: $(VENV)/.ready
	$(PYTEST) $(ARGS)

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lock: $(VENV)/.sparse
	$(BIN)/python .ci/lock.py

# pip-audit gets its own environment, so that its dependencies are not audited.
audit: $(VENV)/.ready
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet --constraint constraints.txt pip-audit
	$(BIN)/python -m pip list --format freeze --exclude-editable > $(VENV)/installed.txt
	$(VENV)/audit/bin/pip-audit --no-deps --disable-pip --requirement $(VENV)/installed.txt $(ARGS)

sparse: $(VENV)/.sparse

# Old pages and pictures would stay in the site, so they are removed first.
docs: $(VENV)/.docs
	rm -rf docs/generated docs/_build
	$(BIN)/python -m sphinx -W --keep-going docs docs/_build/html

# A GPU machine brings its own PyTorch and pytest-xdist, so nothing is installed.
gpu:
	PYTHONPATH=$(CURDIR) $(PYTHON) -m pytest -q --numprocesses 4 test/test_gpu.py
	PYTHONPATH=$(CURDIR) $(PYTHON) benchmark/speed.py pooling --device cuda --out out/gpu/pooling.json $(ARGS)
	PYTHONPATH=$(CURDIR) $(PYTHON) benchmark/speed.py training --device cuda --out out/gpu/training.json $(ARGS)
	PYTHONPATH=$(CURDIR) $(PYTHON) benchmark/speed.py topk --device cuda --threads 16 --seconds 0 --out out/gpu/topk.json $(ARGS)

# torch is installed first, in the pinned version, so that no dependency asks for another build.
# The package is built without isolation, so that pip downloads no other setuptools.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) torch setuptools wheel
	$(INSTALL) --no-build-isolation --editable '.[benchmark,test]'
	touch $@

# These packages compile against the installed torch, so they are built without isolation.
$(VENV)/.sparse: $(VENV)/.ready
	$(INSTALL) ninja
	$(INSTALL) --no-build-isolation --editable '.[sparse,tgp]'
	touch $@

$(VENV)/.docs: $(VENV)/.ready
	$(INSTALL) --no-build-isolation --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) out docs/_build docs/generated
