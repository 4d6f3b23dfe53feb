# One environment for everything; the stamp is remade when the pins change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
TORCH := $(VENV)/.torch
S3 := .s3
MKDOCS := $(VENV)/.mkdocs
FRAMEWORKS := $(VENV)/.frameworks

# Tests of real processes wait more than they compute: one tester more than there are cores.
TESTERS := $(shell expr $$(nproc) + 1)

# Hundreds of interpreters start here: none should compile what another has compiled before.
export PYTHONDONTWRITEBYTECODE :=

# What the page is built with: Node from PyPI, packages of npm by the lock file.
NODE := $(VENV)/.node

.PHONY: demo play page web browser test live engines integrations slurm s3 daemon check format bench perf sim runtime matrix torch docs docs-test site clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[dev,otel,remote,report]'
	touch $@

demo: $(TORCH)  ## six real trainings share eight virtual devices, live in the terminal (under 4 minutes)
	$(BIN)/python examples/demo/demo.py

play: $(STAMP)  ## place a dozen example jobs on an example cluster and show why
	$(BIN)/muster play examples/clusters/lab.yaml examples/jobs/*.yaml

page: $(NODE)  ## build the dashboard into src/muster/api/page/static (Node comes from PyPI)
	$(BIN)/python -m tools.openapi web/openapi.json
	cd web && PATH="$(abspath $(BIN)):$$PATH" npm run --silent types && PATH="$(abspath $(BIN)):$$PATH" npm run --silent check
	cd web && PATH="$(abspath $(BIN)):$$PATH" npm run --silent build

web: browser page  ## the tests of the dashboard in a real browser, the slow ones too
	$(BIN)/pytest -m 'slow or not slow' tests/web

browser:  ## install Chromium from Debian, for the tests of the dashboard (apt, as root)
	command -v chromium >/dev/null || tools/install-chromium

$(NODE): $(STAMP) web/package.json web/package-lock.json
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[page]'
	cd web && PATH="$(abspath $(BIN)):$$PATH" npm ci --silent
	touch $@

test: $(TORCH)  ## every test, real training included
	$(BIN)/pytest -n $(TESTERS) --dist worksteal

live: $(TORCH)  ## the tests with real processes, the slow ones too (some 10 minutes)
	$(BIN)/pytest -n auto --dist worksteal -m 'slow or not slow' tests/live tests/runtime

engines: $(TORCH)  ## the tests on a real Ray and a real Slurm (`make slurm` first), the slow ones too
	$(BIN)/pytest -m 'slow or not slow' tests/engines

integrations: $(FRAMEWORKS)  ## the tests with transformers, Accelerate and Lightning (some 10 minutes)
	$(BIN)/pytest -m 'slow or not slow' tests/integrations

$(FRAMEWORKS): $(TORCH)
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[hf,lightning,test-integrations]' peft
	touch $@

s3: $(S3)/.ready  ## add an S3 server (OpenStack Swift, from PyPI) for the tests of checkpoints at a URL

$(S3)/.ready: Makefile
	$(PYTHON) -m venv $(S3)
	$(S3)/bin/pip install --quiet --no-compile --disable-pip-version-check swift==2.38.3
	touch $@

slurm:  ## install Slurm and munge from Debian, for `make engines` (apt, as root; starts no service)
	tools/install-slurm

matrix: $(FRAMEWORKS)  ## resize and kill every everyday training feature, and write docs/reference/matrix.md
	$(BIN)/python -m tests.matrix --jobs 2

docs-test: $(TORCH)  ## type what README, tutorials and how-tos say, the slow ones too (some 8 minutes)
	$(BIN)/pytest -m 'slow or not slow' tests/docs

check: $(STAMP)  ## ruff, mypy --strict, the import rules, the links of all pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.links

format: $(STAMP)  ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## print the core's figures against their targets
	$(BIN)/python benchmarks/core.py

perf: torch  ## print the figures of the performance models and the planner (some 10 minutes; root)
	$(BIN)/python benchmarks/perf.py

sim: $(STAMP)  ## print the figures of the policies and the simulator (some 17 minutes)
	$(BIN)/python benchmarks/sim.py

daemon: torch  ## print the figures of the daemon: load, memory, start-up, simulated against real
	$(BIN)/python benchmarks/daemon.py
	$(BIN)/python benchmarks/daemon_sim.py

runtime: torch  ## print the figures of the elastic runtime (some minutes; root, for network namespaces)
	$(BIN)/python benchmarks/runtime.py

torch: $(TORCH)  ## add torch to the environment: for real training and the benchmarks that run it

$(TORCH): $(STAMP)
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt torch==2.13.0
	touch $@

docs: $(STAMP)  ## regenerate the generated pages and pictures
	$(BIN)/python -m tools.profiles
	$(BIN)/python docs/generate.py

site: $(MKDOCS)  ## build the documentation with search into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo 'site/index.html is built; search needs a server: $(BIN)/python -m http.server -d site'

$(MKDOCS): $(STAMP)
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

clean:  ## remove the environment and caches
	rm -rf web/node_modules src/muster/api/page/static $(VENV) $(S3) site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
