VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-floats test-slow test-browser explorer check format bench clean

demo: $(VENV)/.installed            ## cluster real images end to end and write a report
	$(BIN)/selfsort demo

# Two workers of one thread each: with two threads each they wait for each other most of the time.
test: $(VENV)/.installed            ## the test suite
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 -m "not slow and not gpu and not browser"

# What an older processor would add in another order; and one thread or two, that do not spin where others need the core.
FLOATS := OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -qq -m floats tests
test-floats: $(VENV)/.installed     ## the tests that depend on rounding, as four kinds of processor round
	OMP_NUM_THREADS=2 $(FLOATS)
	OMP_NUM_THREADS=1 ATEN_CPU_CAPABILITY=default $(FLOATS)
	OMP_NUM_THREADS=2 ONEDNN_MAX_CPU_ISA=SSE41 $(FLOATS)
	OMP_NUM_THREADS=1 ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 $(FLOATS)

test-slow: $(VENV)/.installed       ## the tests that train for minutes
	$(BIN)/python -m pytest -q -m "slow and not gpu and not browser"

test-browser: $(VENV)/.installed    ## the report and the explorer in a real browser
	command -v chromium > /dev/null && command -v chromedriver > /dev/null || apt-get install --yes --no-install-recommends chromium chromium-driver
	$(BIN)/python -m pytest -q -m browser

explorer:                           ## build the page of `selfsort explore` (needs Node; the result is committed)
	npm --prefix explorer ci
	npm --prefix explorer test
	npm --prefix explorer run build

check: $(VENV)/.installed           ## what a change must pass: format, lint, types, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(MAKE) test

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.installed           ## ratios of speed and memory, written to benchmarks/results
	$(BIN)/python -m benchmarks

# torch is installed first and by exact version: the constraint then keeps any later step from replacing it.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) torch==2.13.0
	$(PIP_INSTALL) -e ".[dev,approx,umap,explore,onnx,heic,datasets]"
	touch $@

clean:
	rm -rf $(VENV) build dist
