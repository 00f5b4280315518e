VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
# Wheels only: building a source archive would fetch build tools that have no hash here.
LOCKED := --require-hashes --only-binary :all: --no-deps
EXTRAS := dev approx umap tsne explore onnx hf heic datasets hdf5 handcrafted pretrained
# Not in the lock: torch, and what only a Python inside a browser needs.
OMIT := torch httpx2-jsfetch
SUPPLY := $(VENV)-supply
LOWEST := $(VENV)-lowest
PROBE := $(VENV)-probe
DOCS := $(VENV)-docs
UV_COMPILE := $(SUPPLY)/bin/uv pip compile --quiet --universal --generate-hashes --no-annotate \
	--custom-compile-command "make lock"

.PHONY: demo test test-floats test-slow test-lowest test-wheel test-browser fuzz explorer check format bench bench-scale lock licences sbom docs clean

demo: $(VENV)/.installed            ## cluster real images end to end and write a report
	$(BIN)/selfsort demo

# Two workers of one thread each, whoever makes the threads: with two threads each they wait for each other most of the
# time. A worker that has nothing left takes over tests of the other.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
TWO_WORKERS := -m pytest -q -n 2 --dist worksteal
QUICK := "not slow and not gpu and not browser"
test: $(VENV)/.installed            ## the test suite
	$(ONE_THREAD) $(BIN)/python $(TWO_WORKERS) -m $(QUICK)

# What an older processor would add in another order; and one thread or two, that do not spin where others need the core.
FLOATS := OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -qq -m floats tests
test-floats: $(VENV)/.installed     ## the tests that depend on rounding, as four kinds of processor round
	OMP_NUM_THREADS=2 $(FLOATS)
	OMP_NUM_THREADS=1 ATEN_CPU_CAPABILITY=default $(FLOATS)
	OMP_NUM_THREADS=2 ONEDNN_MAX_CPU_ISA=SSE41 $(FLOATS)
	OMP_NUM_THREADS=1 ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 $(FLOATS)

test-slow: $(VENV)/.installed       ## the tests that train for minutes
	$(ONE_THREAD) $(BIN)/python $(TWO_WORKERS) -m "slow and not gpu and not browser"

# With an editable install, a file that the wheel lacks would not be missed. Here there is nothing but the wheel and what
# it asks for, and no folder of ours.
test-wheel: $(VENV)/.installed      ## the wheel alone, without extras, in an empty environment: its demo
	rm -rf $(PROBE) && $(PYTHON) -m venv $(PROBE)
	$(BIN)/hatchling build -t wheel -d $(abspath $(PROBE))/dist
	$(PROBE)/bin/python $(PIP_INSTALL) -c constraints.txt torch==2.13.0
	$(PROBE)/bin/python $(PIP_INSTALL) -c constraints.txt $(PROBE)/dist/*.whl
	cd $(PROBE) && env -u PYTHONPATH bin/selfsort demo
	rm -rf $(PROBE)

# The floats of other versions differ, what the supply tests ask for is the lock, and old versions warn about new ones below
# them: here no warning is an error.
test-lowest: $(LOWEST)/.installed   ## the suite with the oldest versions that pyproject.toml allows (torch stays)
	$(ONE_THREAD) PYTHONPATH=$(CURDIR)/src $(LOWEST)/bin/python $(TWO_WORKERS) -m $(QUICK)" and not floats" -o filterwarnings=default \
		--ignore tests/test_supply.py tests

test-browser: $(VENV)/.installed    ## the report and the explorer in a real browser
	command -v chromium > /dev/null && command -v chromedriver > /dev/null || apt-get install --yes --no-install-recommends chromium chromium-driver
	$(BIN)/python -m pytest -q -m browser

MINUTES ?= 30
fuzz: $(VENV)/.installed            ## random commands on damaged input, others each time: make fuzz MINUTES=30
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.attacks.fuzz --minutes $(MINUTES)

# Not `npm ci`: it refuses a lock file that does not name the compiled parts of other systems.
explorer: $(VENV)/.installed        ## build the page of `selfsort explore` (needs Node; the result is committed)
	$(BIN)/python -m explorer.typescript
	npm --prefix explorer install --no-save
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

N ?= 1000000
bench-scale: $(VENV)/.installed     ## N images from features to clusters: seconds, share, memory and growth by stage
	$(BIN)/python -m benchmarks.scale --n $(N)

lock: $(SUPPLY)/.installed          ## requirements.lock anew from constraints.txt, and the lock of the tools for it
	$(UV_COMPILE) pyproject.toml $(EXTRAS:%=--extra %) -c constraints.txt $(OMIT:%=--no-emit-package %) -o requirements.lock
	$(UV_COMPILE) --group supply -o supply/tools.lock
	$(UV_COMPILE) --group docs -c constraints.txt -o supply/docs.lock

licences: $(VENV)/.installed        ## docs/licences.md anew from what is installed
	$(BIN)/python supply/licences.py

sbom: $(VENV)/.installed $(SUPPLY)/.installed ## every installed package as CycloneDX: build/sbom.json
	mkdir -p build
	$(SUPPLY)/bin/cyclonedx-py environment $(BIN)/python --pyproject pyproject.toml --output-reproducible \
		--output-format JSON --output-file build/sbom.json --validate

# Every warning is an error: a link that leads nowhere, a page that no list names, a docstring that cannot be read.
docs: $(VENV)/.installed $(DOCS)/.installed ## the site: build/docs/index.html
	$(BIN)/python docs/generate.py
	$(DOCS)/bin/sphinx-build --builder html --nitpicky --fail-on-warning --keep-going --quiet \
		--doctree-dir build/doctrees docs build/docs

# The lock has everything that torch and we need, so torch fetches nothing else (on a machine with a CUDA build: its
# libraries), and we fetch nothing at all. Nothing in the lock asks for torch.
$(VENV)/.installed: pyproject.toml constraints.txt requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) $(LOCKED) -r requirements.lock
	$(BIN)/python $(PIP_INSTALL) -c constraints.txt torch==2.13.0
	$(BIN)/python $(PIP_INSTALL) --no-deps --no-build-isolation -e .
	touch $@

$(SUPPLY)/.installed: supply/tools.lock
	$(PYTHON) -m venv $(SUPPLY)
	$(SUPPLY)/bin/python $(PIP_INSTALL) $(LOCKED) -r supply/tools.lock
	touch $@

$(DOCS)/.installed: supply/docs.lock
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python $(PIP_INSTALL) $(LOCKED) -r supply/docs.lock
	touch $@

# uv finds the oldest versions together. The tools of the tests are new, and take these even where they ask for later ones.
$(LOWEST)/.installed: pyproject.toml $(SUPPLY)/.installed
	$(PYTHON) -m venv $(LOWEST)
	echo torch==2.13.0 | $(SUPPLY)/bin/uv pip compile --quiet --resolution lowest-direct --only-binary :all: --no-annotate \
		pyproject.toml - $(addprefix --extra ,$(filter-out dev,$(EXTRAS))) --no-emit-package torch -o $(LOWEST)/lowest.txt
	$(SUPPLY)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --only-binary :all: --override $(LOWEST)/lowest.txt \
		-r $(LOWEST)/lowest.txt pytest pytest-xdist hypothesis httpx 'schemathesis>=4' selenium
	$(LOWEST)/bin/python $(PIP_INSTALL) torch==2.13.0 efficientnet_lite_pytorch
	touch $@

clean:
	rm -rf $(VENV) $(SUPPLY) $(DOCS) $(LOWEST) $(PROBE) build dist
