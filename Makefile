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
FUZZ ?= 100
KINDS ?= oldest newest python3.12 python3.13 airflow-oldest airflow-newest
HUDI ?=
COMMA := ,
# Compiled modules are kept, beside neither the sources nor the packages: each of the many processes of a suite would compile them.
export PYTHONPYCACHEPREFIX := $(CURDIR)/.cache/bytecode
export PYTHONDONTWRITEBYTECODE :=
HUDI_JARS = $(filter-out hudi-rs,$(subst $(COMMA), ,$(HUDI)))
# Tests of Spark and of Hudi wait most of their time for one JVM, so two processes with a JVM each take little more than half the time.
# If several releases are tested, each has a JVM, and two processes would need their memory twice.
BY_TWO := -n 2 --dist loadfile
TESTS ?= tests

# A symlink leads to the environment of another checkout: nothing is installed into it, and Python imports from this one.
ifeq ($(shell test -L $(VENV) && echo linked),linked)
INSTALLED :=
export PYTHONPATH := $(CURDIR)
$(shell cmp -s requirements.lock $(VENV)/../requirements.lock || echo "$(VENV) is a symlink, so nothing is installed; the other checkout has another requirements.lock" >&2)
endif

.DEFAULT_GOAL := help
.PHONY: e2e help install lock-file java check format test demo demo-airflow interop bench smoke35 cluster environments site release fuzz locks evidence docs clean

help: ## Show this list
	@grep -hE '^[a-z0-9_-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(INSTALLED) ## Make .venv from requirements.lock (and uv, if the machine has none)
	@$(if $(INSTALLED),true,echo "$(VENV) is a symlink: nothing is installed. Remove it for an environment of this checkout")

lock-file: ## Write requirements.lock from pyproject.toml: what is new there is added, what fits stays
	$(PYTHON3) scripts/install.py --lock-file

$(VENV)/.installed: requirements.lock pyproject.toml scripts/install.py
	@test -n "$(PYTHON3)" || { echo "make needs a Python 3 on the PATH to start from"; exit 1; }
	$(PYTHON3) scripts/install.py $(if $(filter file,$(origin PYTHON3)),,--this-python)
	@touch $@

java: ## Find or install Java 17 or newer; print what to do if that fails
	@$(PYTHON3) scripts/java.py

check: $(INSTALLED) ## Formatting, lint, types, layers, links, generated pages, house rules: silent if all is well
	@$(BIN)/python scripts/check.py

format: $(INSTALLED) ## Format the code and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: $(INSTALLED) java ## The complete quick suite, about 10 minutes on two cores (TESTS=tests/unit: only these)
	$(BIN)/python scripts/quick_suite.py $(TESTS) --ignore=tests/interop

demo: $(INSTALLED) java ## A week of real flights through Dagster, then the UI (UI=0: without; DAYS=7, PORT=3000)
	$(BIN)/python scripts/demo.py --days $(DAYS) --port $(PORT) $(if $(filter 0,$(UI)),--no-ui)

demo-airflow: $(INSTALLED) ## The same lake through Airflow: a backfill of a week, then the UI (UI=0: without; DAYS=7, PORT=8080)
	$(BIN)/python scripts/demo_airflow.py --days $(DAYS) $(if $(filter command line,$(origin PORT)),--port $(PORT)) $(if $(filter 0,$(UI)),--no-ui)

interop: $(INSTALLED) java ## Real Apache Hudi reads and continues our tables (HUDI=1.0.2,hudi-rs: only these)
	$(BIN)/python scripts/interop_env.py $(HUDI_JARS:%=--only hudi-spark3.5-bundle_2.12:%)
	HUDI_VERSIONS="$(HUDI)" $(BIN)/python scripts/quick_suite.py tests/interop $(if $(filter 1,$(words $(HUDI_JARS))),$(BY_TWO),-n 0)

ifeq ($(LOCAL),1)
bench: $(INSTALLED)
	$(BIN)/python -m benchmarks.local_loads
else
bench: $(INSTALLED) java ## Install the peers, and measure beside them: the parts bench-* of make evidence (LOCAL=1: first loads in this process only)
	$(BIN)/python scripts/interop_env.py --local-peers
	$(BIN)/python scripts/evidence.py 'bench-*'
endif

smoke35: $(INSTALLED) java ## The doors and the Spark tests with the oldest release of each package, PySpark 3.5 among them (SLOW=1: slow ones, too)
	$(BIN)/python scripts/environments.py oldest
	$(OLDEST)/bin/python $(if $(filter 1,$(SLOW)),-m pytest -q tests/spark,scripts/quick_suite.py tests/spark $(BY_TWO))

cluster: $(INSTALLED) java ## Spark clusters: a master and two workers with an empty environment, two executors in processes of their own, and Spark Connect
	$(BIN)/python scripts/servers.py versitygw
	$(BIN)/python -m pytest tests/spark/test_standalone_cluster.py tests/spark/test_failures_on_a_cluster.py tests/spark/test_local_cluster.py \
		tests/spark/test_connect.py -q

environments: $(INSTALLED) ## The doors with the oldest and the newest packages, and on other Pythons (KINDS="newest": only this)
	$(BIN)/python scripts/environments.py $(KINDS)

site: $(INSTALLED) ## The documentation as a site in .cache/site; a broken link is an error
	$(BIN)/mkdocs build --strict

release: $(INSTALLED) ## Build the sdist and the wheel into dist, check them, and use the wheel in empty environments; publishes nothing
	$(BIN)/python scripts/release.py

fuzz: $(INSTALLED) ## Damaged input for every parser, 50,000 cases each (FUZZ=1: 500, as in the quick suite)
	PYHUDI_FUZZ=$(FUZZ) $(BIN)/pytest tests/hostile/test_fuzz_formats.py tests/hostile/test_fuzz_timeline.py tests/hostile/test_fuzz_plans.py -q --durations=5

locks: $(INSTALLED) java ## Locks and storages on real servers: installs, starts and stops them (ONLY="zookeeper": tests by name)
	$(BIN)/python scripts/servers.py
	$(BIN)/python scripts/interop_env.py --only hudi-spark3.5-bundle_2.12:1.0.2 --only hudi-spark3.5-bundle_2.12:1.2.0
	$(BIN)/pytest tests/locks -q --durations=10 $(if $(ONLY),-k "$(ONLY)")

e2e: $(INSTALLED) java ## Real servers: `dagster dev` with its daemon, and Airflow: schedules, backfills, killed processes
	$(BIN)/python scripts/servers.py postgresql
	$(BIN)/pytest tests/e2e -q -m slow --durations=10

evidence: $(INSTALLED) ## All that is slow, in parts of an hour; continues where it stopped (PARTS="fuzz bench-*"; ANEW=1); docs/evidence.md
	$(BIN)/python scripts/evidence.py $(if $(PARTS),$(foreach part,$(PARTS),'$(part)')) $(if $(filter 1,$(ANEW)),--anew)

docs: $(INSTALLED) ## Write the pages that are generated from the code
	$(BIN)/python scripts/generate_docs.py

clean: ## Remove the demo's lake and the files of the tools; the environments stay
	rm -rf .data .mypy_cache .ruff_cache .pytest_cache .hypothesis .tmp_dagster_home_*
