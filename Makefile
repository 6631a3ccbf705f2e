# Every command of the project. Needs python3 (3.10 or newer) and make; everything else goes into .venv, or into the folder that
# `make VENV=...` names.

PYTHON  ?= python3
# One more than a small machine has cores: tests wait for processes, timeouts and browsers.
WORKERS ?= 3
# Those of the slower tests wait even more: for agents, clusters and models.
SLOWER  ?= 4
VENV    := .venv
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready
WHEELS  := $(VENV)/.wheels-of-games
GAMES   := $(VENV)/.games
RAY     := $(VENV)/.ray
SITE    := $(VENV)/.site
PYTEST  := $(BIN)/python -m pytest -q
PIP     := $(BIN)/python -m pip install -qq --disable-pip-version-check
SETTING  = $(BIN)/python -m pip config list | sed -n "s/^.*[.]$(1)='\(.*\)'$$/\1/p" | tail -1
UV       = UV_DEFAULT_INDEX="$$($(call SETTING,index-url))" $(BIN)/python -m uv pip install --quiet --compile-bytecode --python $(BIN)/python

# Without bytecode every worker rewrites all assertions anew, and every command a test starts compiles all of src.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help setup demo test test-slow test-real test-slower test-again test-compiled chaos fuzz test-model games-wheels check imports audit lock bench docs screenshots clean

help:                   ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

setup: $(READY)         ## make .venv and install the project with its development tools

# uv installs in a third of pip's time. It does not read pip's settings, so it is told of an index that they name; where it cannot be had
# or fails, or no index may be asked, pip does the work.
DEV = 'pip>=25.1' --editable . --group dev $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))

$(READY): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "No '$(PYTHON)' on the PATH. Install Python 3.10 or newer, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "SkillOpt needs Python 3.10 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.12" >&2; exit 1; }
	@echo "Setting up $(VENV) (once, a minute or so) ..."
	@$(PYTHON) -m venv $(VENV) || { echo "Could not make $(VENV). On Debian and Ubuntu: apt install python3-venv. Then 'make clean' and try again." >&2; exit 1; }
	@{ [ -z "$$($(call SETTING,no-index))" ] && $(PIP) uv && $(UV) $(DEV); } 2>/dev/null \
	  || { $(PIP) --upgrade 'pip>=25.1' || { echo "Could not update pip in $(VENV); is a package index reachable?" >&2; exit 1; }; \
	       $(PIP) $(DEV) || { echo "Could not install the dependencies; the lines above say which one." >&2; exit 1; }; }
	@touch $@

demo: $(READY)          ## train on the simulated world; no key needed
	@$(BIN)/skillopt demo

test: $(READY)          ## the quick tests; ends with what was skipped and why
	@$(PYTEST) -m "not slow and not real and not model" -n $(WORKERS) --dist worksteal

# Only warms the cache: without it every worker of the first run compiles all tests anew. CI does it beside its first stages.
test-compiled: $(READY)
	@$(PYTEST) --collect-only -qq >/dev/null || true

test-slow: $(READY)     ## whole runs, nights and browsers: the tests that need the most CPU
	@$(PYTEST) -m "slow and not real and not model" -n $(WORKERS) --dist worksteal

# Text games are built from source, which takes minutes and a compiler: only the slower tests want them, and go without if need be.
# Building changes nothing that tests import, so CI does it beside its first stages.
games-wheels: $(WHEELS)

$(WHEELS): $(READY)
	@echo "Building the text games (once, some minutes) ..."
	@$(BIN)/python -m pip wheel -qq --disable-pip-version-check --wheel-dir $(VENV)/games --group games || echo "The text games could not be built; their tests are skipped." >&2
	@touch $@

$(GAMES): $(WHEELS)
	@$(PIP) --no-index --find-links $(VENV)/games --group games || echo "The text games could not be installed; their tests are skipped." >&2
	@touch $@

# 79 MB to fetch and 240 MB on disk: only the tests on real components want a cluster.
$(RAY): $(READY)
	@$(UV) --group cluster 2>/dev/null || $(PIP) --group cluster || echo "Ray could not be installed; its tests are skipped." >&2
	@touch $@

# pytest ends with 5 when a marker selects nothing; that is no failure.
test-real: $(READY) $(GAMES) $(RAY) ## tests on real components: other programs, wheels, servers
	@$(PYTEST) -m "real and not model" -n $(WORKERS) --dist loadgroup || [ $$? -eq 5 ]

# One session: the long tests of real components wait while the others compute, and files are collected once. The time
# limit finds what hangs; how long a test takes beside three others is no fault of it.
test-slower: $(READY) $(GAMES) $(RAY) ## the tests of test-slow and test-real in one go, as CI runs them
	@$(PYTEST) -m "(slow or real) and not model" -n $(SLOWER) --dist loadgroup -o timeout=300

test-again: $(READY)    ## the tests that failed last time, one after another
	@$(PYTEST) --last-failed --last-failed-no-failures none -v -o timeout=300

chaos: $(READY)         ## 200 rounds of training, nights, adoptions and checks, each struck by a fault; all simulated
	@$(BIN)/python tests/claims/chaos/run.py --rounds 200

fuzz: $(READY)          ## 100,000 broken inputs for each reader of what others write
	@SKILLOPT_TEST_FUZZ=100000 $(PYTEST) tests/claims/fuzz -n $(WORKERS) --dist worksteal -o timeout=0

test-model: $(READY)    ## tests with a real model, by hand; SKILLOPT_TEST_MODELS names the folder of models
	@$(PYTEST) -m model || [ $$? -eq 5 ]

check: $(READY)         ## format, lint, types, layers, the grammar of Python 3.10, licences
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(PYTEST) tests/test_layers.py tests/test_grammar.py
	@$(BIN)/python docs/licences.py

imports: $(READY)
	@$(BIN)/python .ci/imports.py

# pip-audit asks a service on the network, and not every index has it: apart from check, which must work without both.
audit: $(READY)         ## look for known faults in the installed packages; needs the network
	@$(PIP) pip-audit || { echo "The package index has no pip-audit; nothing was looked at." >&2; exit 1; }
	@$(BIN)/python -m pip_audit --local --skip-editable

# The versions that the tests last ran with; `make setup CONSTRAINTS=constraints.txt` installs exactly these.
lock: $(READY)          ## write the versions of .venv to constraints.txt
	@{ echo "# Written by 'make lock' with Python $$($(BIN)/python -c 'import platform; print(platform.python_version())')."; $(BIN)/python -m pip freeze --exclude-editable --disable-pip-version-check | grep '=='; } > constraints.txt

bench: $(READY)         ## run every program in perf/
	@set -e; for program in $(filter-out perf/_%,$(sort $(wildcard perf/*.py))); do echo "== $$program"; $(BIN)/python $$program; done

docs: $(SITE)           ## write the generated pages, check all links, and make the site in site/ (works offline)
	@$(BIN)/python docs/generate.py
	@$(PYTEST) tests/test_docs.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --clean
	@echo "Open site/index.html"

$(SITE): $(READY)
	@$(PIP) --group docs
	@touch $@

screenshots: $(READY)   ## make the pictures of docs/dashboard.md anew; needs a Chromium
	@$(BIN)/python docs/screenshots.py

# Never outputs/ or runs/: they hold work somebody paid for.
clean:                  ## remove .venv, builds and caches
	@rm -rf .venv build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find src tests perf -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
