# make run     virtual environment, install, and the benchmark on the default data set
# make test    the same environment, and the tests
# make lint    ruff and mypy
# make sparse  torch-scatter and torch-sparse as well, which build from source (ten minutes), and
#              torch-geometric-pool, which needs the first
# make campaign  random cases of everything that must not go wrong, for MINUTES; see CONTRIBUTING.md
# make soak    an hour of training, after which memory must be what it was; ARGS="--minutes 5"
# make lock    versions and hashes of all that CI installs, in .ci/lock
# make audit   whether known vulnerabilities are in what is installed; needs the network
# make docs    the documentation, in docs/_build/html
# make gpu     tests and benchmarks of a GPU machine, with the Python that is there; see docs/gpu.md
#
# PYTHON chooses the interpreter (3.10 or later), ARGS are handed to the benchmark or pytest.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
ARGS ?=
MINUTES ?= 30

.PHONY: run test lint campaign soak lock audit sparse docs gpu clean

run: $(VENV)/.ready
	$(BIN)/python benchmark/graph_classification.py $(ARGS)

# One process for each physical core, as a test computes with one thread, and eight at most, as each
# takes half a GiB. ARGS="-n 0 -s" is one process, and shows what tests print.
test: $(VENV)/.ready
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal $(ARGS)

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

campaign: $(VENV)/.ready
	$(BIN)/python test/campaign/run.py --minutes $(MINUTES) $(ARGS)

soak: $(VENV)/.ready
	$(BIN)/python test/campaign/soak.py $(ARGS)

lock: $(VENV)/.sparse
	$(BIN)/python .ci/lock.py

# In an environment of its own, so that what it needs is not audited. An index without vulnerabilities
# would find none, so it is asked for those of an old version first.
CANARY := https://pypi.org/pypi/pip/9.0.1/json
audit: $(VENV)/.ready $(VENV)/audit
	@if $(BIN)/python -c 'import json, urllib.request as web; \
	  assert json.load(web.urlopen("$(CANARY)", timeout=20))["vulnerabilities"]' 2>/dev/null; then \
	  $(BIN)/python -m pip list --format freeze --exclude-editable > $(VENV)/installed.txt && \
	  $(VENV)/audit/bin/pip-audit --no-deps --disable-pip --requirement $(VENV)/installed.txt $(ARGS); \
	else echo 'audit: SKIPPED, as the vulnerabilities at https://pypi.org cannot be read'; fi

sparse: $(VENV)/.sparse

# From an empty folder: what is left of names that are gone would be pages that nothing links to.
docs: $(VENV)/.docs
	rm -rf docs/generated
	$(BIN)/python -m sphinx -W --keep-going docs docs/_build/html
# Such a machine has a PyTorch of its own: nothing is installed.
gpu:
	PYTHONPATH=$(CURDIR) $(PYTHON) benchmark/gpu.py --out out/gpu $(ARGS)

# torch goes first: pinned, so that no dependency asks for another build of it. setuptools builds the
# package in this environment, so that nothing is downloaded that is not named.
$(VENV)/.ready: setup.py pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) torch setuptools wheel
	$(INSTALL) --no-build-isolation --editable '.[benchmark,test]'
	touch $@

# They compile against the torch that is installed, so they must not be built apart from it.
$(VENV)/.sparse: $(VENV)/.ready
	$(INSTALL) ninja
	$(INSTALL) --no-build-isolation --editable '.[sparse,tgp]'
	touch $@

$(VENV)/audit: constraints.txt
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --constraint constraints.txt pip-audit
	touch $@

$(VENV)/.docs: $(VENV)/.ready
	$(INSTALL) --no-build-isolation --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) out docs/_build docs/generated
