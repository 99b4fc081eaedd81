# `make help` lists the targets. Two of them are all that a newcomer needs: `make demo` and `make test`.
# Each one sees to its own set-up, so a machine with Python and make is enough.

SHELL := /bin/bash
PYTHON3 ?= $(shell command -v python3 || command -v python)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
OLDEST := .cache/venv-oldest
UI ?= 1
DAYS ?= 7
PORT ?= 3000
SECONDS ?= 600
FUZZ ?= 100
EXAMPLES ?= 20000
MINUTES ?= 115
RECORD ?= 1
KINDS ?= oldest newest python3.12 python3.13
HUDI ?=
COMMA := ,
# Compiled modules are kept, beside neither the sources nor the packages: each of the many processes of a suite would compile them.
export PYTHONPYCACHEPREFIX := $(CURDIR)/.cache/bytecode
export PYTHONDONTWRITEBYTECODE :=
HUDI_JARS = $(filter-out hudi-rs,$(subst $(COMMA), ,$(HUDI)))
TESTS ?= tests

.DEFAULT_GOAL := help
.PHONY: e2e help install java check format test demo interop bench smoke35 environments site release fuzz explore machine reliability mutants soak locks nightly docs screenshots clean

help: ## Show this list
	@grep -hE '^[a-z0-9_-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(INSTALLED) ## Make .venv from requirements.lock (and uv, if the machine has none)

$(INSTALLED): requirements.lock pyproject.toml scripts/install.py
	@test -n "$(PYTHON3)" || { echo "make needs a Python 3 on the PATH to start from"; exit 1; }
	$(PYTHON3) scripts/install.py $(if $(filter file,$(origin PYTHON3)),,--this-python)
	@touch $@

java: ## Find or install Java 17 or newer; print what to do if that fails
	@$(PYTHON3) scripts/java.py

check: $(INSTALLED) ## Formatting, lint, types, import layers, generated pages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict pyhudi pyhudi_core pyhudi_dagster definitions.py benchmarks
	$(BIN)/lint-imports
	$(BIN)/python scripts/generate_docs.py --check
	$(BIN)/python scripts/coverage_table.py --check
	$(BIN)/python scripts/nightly_reach.py
	$(BIN)/python scripts/nightly.py --check
	$(BIN)/python scripts/reliability_page.py --check
	$(BIN)/python scripts/figures.py
	@! git ls-files --stage | grep '^120000' || { echo "links are no part of the repository: git rm --cached them"; exit 1; }

format: $(INSTALLED) ## Format the code and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: $(INSTALLED) java ## The complete quick suite, about 10 minutes on two cores (TESTS=tests/unit: only these)
	$(BIN)/python scripts/quick_suite.py $(TESTS) --ignore=tests/interop

demo: $(INSTALLED) java ## A week of real flights through Dagster, then the UI (UI=0: without; DAYS=7, PORT=3000)
	$(BIN)/python scripts/demo.py --days $(DAYS) --port $(PORT) $(if $(filter 0,$(UI)),--no-ui)

interop: $(INSTALLED) java ## Real Apache Hudi reads and continues our tables (HUDI=1.0.2,hudi-rs: only these)
	$(BIN)/python scripts/interop_env.py $(HUDI_JARS:%=--only hudi-spark3.5-bundle_2.12:%)
	HUDI_VERSIONS="$(HUDI)" $(BIN)/pytest tests/interop -q --durations=5 -m 'not slow'

bench: $(INSTALLED) java ## Measure, and write docs/benchmarks.md
	$(BIN)/python scripts/interop_env.py --local-peers
	$(BIN)/python -m benchmarks

smoke35: $(INSTALLED) java ## The doors and the Spark tests with the oldest release of each package, PySpark 3.5 among them (SLOW=1: slow ones, too)
	$(BIN)/python scripts/environments.py oldest
	$(OLDEST)/bin/python -m pytest tests/spark -q $(if $(filter 1,$(SLOW)),,-m 'not slow')

environments: $(INSTALLED) ## The doors with the oldest and the newest packages, and on other Pythons (KINDS="newest": only this)
	$(BIN)/python scripts/environments.py $(KINDS)

site: $(INSTALLED) ## The documentation as a site in .cache/site; a broken link is an error
	$(BIN)/mkdocs build --strict --quiet

release: $(INSTALLED) ## Build the sdist and the wheel into dist, check them, and use the wheel in empty environments; publishes nothing
	$(BIN)/python scripts/release.py

fuzz: $(INSTALLED) ## Damaged input for every parser, 50,000 cases each (FUZZ=1: 500, as in the quick suite)
	PYHUDI_FUZZ=$(FUZZ) $(BIN)/pytest tests/hostile/test_fuzz_formats.py tests/hostile/test_fuzz_timeline.py tests/hostile/test_fuzz_plans.py -q --durations=5

explore: $(INSTALLED) ## Two writers in every order, with crashes (PYHUDI_EXPLORE=n: larger bounds)
	PYTHONPATH=.:tests $(BIN)/pytest -p reliability.counting tests/reliability -q -s -m 'not slow' --timeout=1200

machine: $(INSTALLED) ## 20,000 random sequences of writes, crashes, wrong clocks, expiring locks and archival (EXAMPLES=n)
	PYHUDI_MACHINE=$(EXAMPLES) $(BIN)/pytest tests/reliability/test_table_machine.py -q

reliability: $(INSTALLED) ## Slow reliability tests and the cost of commits; writes docs/reliability.md (RECORD=0: without figures)
	PYHUDI_RECORD=$(RECORD) PYTHONPATH=.:tests $(BIN)/pytest -p reliability.counting tests/reliability -q --durations=10
	$(BIN)/python -m benchmarks.commits
	$(BIN)/python scripts/reliability_page.py

mutants: $(INSTALLED) ## Small changes to the code, which the tests must detect (MINUTES=115; continues where it stopped; writes docs/reliability.md)
	nice -n 5 $(BIN)/python -m scripts.mutants --minutes $(MINUTES); code=$$?; $(BIN)/python scripts/reliability_page.py; exit $$code

soak: $(INSTALLED) ## Writers, readers and table services that are killed every two seconds (SECONDS=600; KEEP=1 stores the figures)
	$(BIN)/python scripts/soak.py --seconds $(SECONDS) $(if $(filter 1,$(KEEP)),--keep)
	$(if $(filter 1,$(KEEP)),$(BIN)/python scripts/reliability_page.py)

locks: $(INSTALLED) java ## Locks and storages on real servers: installs, starts and stops them (ONLY="zookeeper": tests by name)
	$(BIN)/python scripts/servers.py
	$(BIN)/python scripts/interop_env.py --only hudi-spark3.5-bundle_2.12:1.0.2
	$(BIN)/pytest tests/locks -q --durations=10 $(if $(ONLY),-k "$(ONLY)")

e2e: $(INSTALLED) java ## Real servers: `dagster dev` with its daemon, and Airflow (in .airflow): schedules, backfills, killed processes
	@test -x .airflow/bin/airflow || { $(BIN)/python -m venv .airflow && .airflow/bin/python -m pip install --quiet -r requirements-airflow.lock; }
	$(BIN)/pytest tests/e2e -q -m slow --durations=10

nightly: $(INSTALLED) ## All slow targets, in parts of an hour; continues where it stopped (PARTS="interop fuzz"; ANEW=1); results in docs/nightly.md
	$(BIN)/python scripts/nightly.py $(PARTS) $(if $(filter 1,$(ANEW)),--anew)

docs: $(INSTALLED) ## Write the pages that are generated from the code
	$(BIN)/python scripts/generate_docs.py

screenshots: $(INSTALLED) ## Pictures of the demo's UI into docs/images (needs Debian's chromium; run `make demo` first)
	$(BIN)/python scripts/screenshots.py

clean: ## Remove the demo's lake and the files of the tools; the environments stay
	rm -rf .data .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .tmp_dagster_home_*
