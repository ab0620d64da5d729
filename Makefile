PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-external test-lowest test-part nightly soak bench docs site vignettes matrix calibration lint dist clean

# The install is editable: only a change of the packaging files asks for a new one.
$(STAMP): setup.cfg pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $@

demo: $(STAMP)
	mkdir -p demo
	MPLBACKEND=Agg $(BIN)/nrmmix fit "accel_g ~ times_ms" --data mcycle --time-limit 15 --plot demo/mcycle.png --report demo/mcycle.html
	MPLBACKEND=Agg $(BIN)/nrmmix fit "eruptions_min + waiting_min ~ 1" --data faithful --plot demo/faithful.png --report demo/faithful.html

# numba's cache does not notice edits in other modules: tests start from an empty one.  Threads of OpenBLAS would wait for each other.
FRESH := cache=$$(mktemp -d) && trap 'rm -rf "$$cache"' EXIT && \
	MPLBACKEND=Agg OPENBLAS_NUM_THREADS=1 NRMMIX_COMPILE_PROCESSES=1 NUMBA_CACHE_DIR="$$cache" $(BIN)/python
PYTEST := $(FRESH) -m pytest -q

# Two processes, which share what they compile.  Files in their order, for long tests are in the first folders: short ones fill the end.
test: lint
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder

# Those that need files that do not come with the package, in the folder that NRMMIX_DATA_DIR names.
test-external: $(STAMP)
	test -d "$$NRMMIX_DATA_DIR" || { echo "NRMMIX_DATA_DIR must name the folder of the files; it is '$$NRMMIX_DATA_DIR'." >&2; exit 1; }
	$(PYTEST) -m external

# A few of each kind with the lowest versions that setup.cfg allows, in an environment of their own: .venv-lowest.
test-lowest:
	PYTHON="$(PYTHON)" .ci/lowest

# A part of them on another version of Python, in an environment of its own: make test-part PYTHON=python3.13.
test-part:
	.ci/part "$(PYTHON)"

# What takes hours: the whole enumeration matrix, the tests that are left out by day, long joint distribution tests, more of what fuzzing
# makes up, simulation-based calibration, the output of pages.  In parts, PARTS="fuzz units" some of them; what has passed with the same
# sources is not run again, and docs/nightly.md says when each part last passed.
nightly: $(STAMP)
	$(FRESH) -m tests.nightly $(PARTS)

# Kills, interrupts, hostile tables and damaged files by the hundreds, a million rows, half an hour of chains: tests/reliability/soak.json
# has what the last one has found.
soak: $(STAMP)
	rm -f tests/reliability/soak.json
	export NRMMIX_SOAK=$(CURDIR)/tests/reliability/soak.json && $(PYTEST) -m "nightly or not nightly" tests/reliability

# This commit beside another, in one table: by default the one from which on speed was worked on.  Floors are in the benchmarks themselves.
BASE ?= b3a547d

bench: $(STAMP)
	MPLBACKEND=Agg $(BIN)/python -m benchmarks.compare $(BASE) --rounds 3

# Each page of docs/ is a script of vignettes/ with its output.
docs: $(STAMP)
	MPLBACKEND=Agg $(BIN)/python -m nrmmix.report.vignette vignettes/*.py --to docs

# Those on papers: they read what benchmarks have recorded in vignettes/results, and compute small forms themselves.
vignettes: $(STAMP)
	MPLBACKEND=Agg OPENBLAS_NUM_THREADS=1 $(BIN)/nrmmix vignettes papers --format md --to docs/papers

# The pages of docs/ and the reference as a site, site/html: it asks nothing of the network, warnings and dead links are errors.
site: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable ".[site]"
	MPLBACKEND=Agg $(BIN)/python docs/site/build.py
	$(BIN)/python docs/site/check.py site/html

# Every prior with every family against enumeration, and samplers of density regression, at length: docs/exactness*.md.
matrix: $(STAMP)
	export PYTHONPATH=tests && $(FRESH) -m exact.matrix --to docs/exactness.md
	export PYTHONPATH=tests && $(FRESH) -m exact.regression_matrix --to docs/exactness_regression.md

# Ranks of true parameters among draws, at length: docs/calibration.md.
calibration: $(STAMP)
	export PYTHONPATH=tests && $(FRESH) -m calibration --processes 2 --to docs/calibration.md

# Style, and the types of what users call.
lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy

# What a package index is given, checked as it checks it: dist/.
dist: $(STAMP)
	rm -rf dist
	$(BIN)/python -m pip install --quiet "build>=1.2" "twine>=6.0"
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

clean:
	rm -rf $(VENV) .venv-* build dist demo site *.egg-info .numba_cache .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
