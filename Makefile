PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test bench docs matrix lint clean

# The install is editable: only a change of the packaging files asks for a new one.
$(STAMP): setup.cfg pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $@

demo: $(STAMP)
	mkdir -p demo
	MPLBACKEND=Agg $(BIN)/nrmmix fit "accel_g ~ times_ms" --data mcycle --plot demo/mcycle.png
	MPLBACKEND=Agg $(BIN)/nrmmix fit "eruptions_min + waiting_min ~ 1" --data faithful --plot demo/faithful.png

# numba's cache does not notice edits in other modules: tests start from an empty one.
# NRMMIX_DATA_DIR reaches the tests through the environment.
test: lint
	cache=$$(mktemp -d) && trap 'rm -rf "$$cache"' EXIT && \
	MPLBACKEND=Agg NUMBA_CACHE_DIR="$$cache" $(BIN)/python -m pytest -q

bench: $(STAMP)
	MPLBACKEND=Agg $(BIN)/python -m benchmarks

# Each page of docs/ is a script of vignettes/ with its output.
docs: $(STAMP)
	MPLBACKEND=Agg $(BIN)/python -m nrmmix.report.vignette vignettes/*.py --to docs

# Every prior with every family against enumeration, at length: docs/exactness.md.
matrix: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m exact.matrix --to docs/exactness.md

lint: $(STAMP)
	$(BIN)/ruff check .

clean:
	rm -rf $(VENV) build dist demo *.egg-info .numba_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
