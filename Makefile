# Everything happens in .venv and build; nothing needs root. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# One after the other, but for what `test` runs side by side.
ifndef SIDE_BY_SIDE
.NOTPARALLEL:
endif

PYTHON ?= python3
ARGS ?=
# Most tests wait for processes that they started: two workers a processor.
WORKERS ?= 4

# No test takes three quarters of an hour: one that does hangs, and its stacks are printed.
HANGS := --timeout 2700
# In `test` none takes ten minutes. What does not come back to Python ends its worker five minutes later.
STUCK := --timeout 600 -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true

# What the debug build checks: bounds. Percentiles as published, laws of large numbers and standard errors
# are of the arithmetic, and are held against the release build.
CHECKED := tests/core --ignore=tests/core/test_simulation_masstree.py \
	-k "not the_known_part_of and not a_bounded_part_of_its_standard_error"

# The runtimes come first in a process, and see the memory of Python's objects, too. Python never frees all.
SANITIZED = LD_PRELOAD="$$(gcc -print-file-name=libasan.so):$$(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
	PYTHONMALLOC=malloc PYTHONPATH=build/sanitized SANDERLING_EXPECT_BUILD=sanitized

BIN := .venv/bin
# One empty file for each step that is done; `make` compares their times with those of the sources.
DONE := .venv/done
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --no-input
CORE := $(wildcard $(foreach folder,_core _core/*,$(addprefix $(folder)/,*.py *.pyx *.pxd *.h)))
COMPILED := $(CORE) $(wildcard agent/edge/*.pyx)

# What remains of pip's output: the file that it downloads, with its size, and what it builds.
PIP_PROGRESS := sed -nuE -e 's,^ *Downloading ([^ ]*/)?([^ /]*\.(whl|tar\.gz))( .*|$$),  \2\4,p' \
	-e 's,^ *Building wheel for ([^ ]*) .*started.*,  unpacking \1 …,p'

.PHONY: help setup pipeline demo test test-kubernetes test-sanitized test-debian13 test-fresh test-systemd test-upgrades test-hosts test-image test-long torture chaos soak fuzz lint bench docs lock upgrade clean

help: ## List the targets
	@echo "Usage: make <target> [PYTHON=python3.12]"
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1 \2/p' $(MAKEFILE_LIST) | awk '{ line = sprintf("  make %-17s", $$1); \
	for (i = 2; i <= NF; i++) { if (length(line " " $$i) > 80) { print line; line = sprintf("%24s", "") } line = line " " $$i } print line }'

setup: $(DONE)/core ## Set up .venv: the commands, and all drivers
	@echo "The commands are in $(BIN): fleet, sanderling-edge, sanderling-master, …"

pipeline: $(DONE)/pipeline ## Add what reports, lakes and plans need: Spark, a Java for it, pyarrow … (640 MB)

demo: $(DONE)/core ## Set up, then run the demo (ARGS=--verbose: every step in detail)
	@exec $(BIN)/fleet demo $(ARGS)

test: $(DONE)/dev $(DONE)/core ## Set up, then run all checks and tests
	@$(MAKE) --no-print-directory SIDE_BY_SIDE=1 -j 2 -O lint $(DONE)/core-debug $(DONE)/tests-compiled
	@echo "Testing, and beside it _core in its debug build …"
	@PYTHONPATH=build/debug SANDERLING_EXPECT_BUILD=debug $(BIN)/pytest $(CHECKED) >build/test-debug.log 2>&1 & \
	debug=$$! ended=0; \
	$(BIN)/pytest -m "not long and not slow" -n $(WORKERS) $(STUCK) --durations=30 || ended=$$?; \
	wait $$debug || ended=$$?; \
	echo "_core in its debug build:"; cat build/test-debug.log; \
	exit $$ended

test-kubernetes: $(DONE)/dev $(DONE)/core ## Build a kube-apiserver (minutes, once; Debian), test against it
	@tools/build_apiserver.sh
	@SANDERLING_KUBERNETES=$(if $(filter record,$(ARGS)),record,1) $(BIN)/pytest --must-run tests/kubernetes

test-sanitized: $(DONE)/dev $(DONE)/core-sanitized ## Test _core with the sanitizers of addresses and undefined behaviour (minutes; ARGS=tests/core/test_civ.py)
	@$(SANITIZED) $(BIN)/pytest $(or $(ARGS),$(CHECKED) tests/wire tests/fuzz/test_frames.py -n 2)

test-long: $(DONE)/dev $(DONE)/core ## Run what takes long: experiments, Spark, kills, all examples (an hour; KILLS=1: a part; ARGS=--turn=2/3)
	@$(if $(KILLS),SANDERLING_KILLS=$(KILLS),SANDERLING_EXAMPLES=all) \
		$(BIN)/pytest -m "long or slow$(if $(KILLS),, or hypothesis)" -n $(if $(KILLS),2,3) $(HANGS) --durations=30 $(ARGS)

torture: $(DONE)/dev $(DONE)/core ## Set up, then cut the edge agent's power, over and over (minutes)
	@$(BIN)/python -m tests.torture $(ARGS)

fuzz: $(DONE)/dev $(DONE)/core $(DONE)/core-debug ## Send mutated frames to every socket, lies within conversations, outages, and hostile connections (FRAMES=10000000 HISTORIES=100 CONNECTIONS=20000; SEED=text)
	@PYTHONPATH=build/debug:. $(BIN)/python -m tests.fuzz --frames $(or $(FRAMES),1000000) --histories $(or $(HISTORIES),20) --connections $(or $(CONNECTIONS),2000) --seed '$(or $(SEED),1)'

chaos: $(DONE)/dev $(DONE)/core ## Set up, then hurt fleets at random (15 seconds each; HISTORIES=1000 SEED=1 ARGS='--jobs 4')
	@$(BIN)/fleet lab chaos --histories $(or $(HISTORIES),1000) --seed $(or $(SEED),1) $(ARGS)

soak: $(DONE)/dev $(DONE)/core ## Set up, then run everything for hours (HOURS=2, or MINUTES=30)
	@$(BIN)/fleet lab soak --minutes $(or $(MINUTES),$(shell echo $$(( $(or $(HOURS),2) * 60 )))) $(ARGS)

test-systemd: $(DONE)/dev $(DONE)/core ## Test the unit under a real systemd (minutes; root, systemd-container)
	@SANDERLING_SYSTEMD=1 $(BIN)/pytest --must-run $(HANGS) --durations=30 tests/systemd

test-debian13: ## Run the tests on a bare Debian 13, as a user without rights (10 minutes; root)
	@WORKERS=$(WORKERS) tools/test_debian.sh trixie tests $(ARGS)

test-fresh: ## Follow README on a bare Debian 12 and 13, then take a wheel and an sdist there (an hour; root)
	@for suite in $(or $(SUITES),bookworm trixie); do tools/test_debian.sh $$suite fresh; done

test-upgrades: $(DONE)/dev $(DONE)/core ## Test beside earlier states of the code (builds them once: minutes)
	@for commit in $$($(BIN)/python -c 'from tests.upgrades.rig import ALL; print(*[each.commit for each in ALL])'); do \
		tools/build_previous.sh $$commit >/dev/null || exit 1; done
	@$(BIN)/pytest --must-run $(HANGS) --durations=30 tests/upgrades

test-hosts: $(DONE)/dev $(DONE)/core ## Deploy to nine Debian hosts that boot here (10 minutes; root)
	@SANDERLING_HOSTS=$(if $(filter results,$(ARGS)),results,1) $(BIN)/pytest --must-run $(HANGS) --durations=30 tests/hosts

test-image: $(DONE)/dev $(DONE)/core ## Boot cards of an image in QEMU (minutes; ARGS=page, slow)
	@SANDERLING_IMAGE=$(or $(filter page slow,$(ARGS)),1) $(BIN)/pytest --must-run $(HANGS) --durations=30 tests/image tests/fleet/release/test_real.py

lint: $(DONE)/dev $(DONE)/core ## Set up, then run the checks without the tests
	@echo "Checking style, types and imports …"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

bench: $(DONE)/dev $(DONE)/core ## Set up, then run the benchmarks: one line of JSON each
	@$(BIN)/python -m bench $(ARGS)

docs: $(DONE)/core ## Write the documents that are made from the code
	@$(BIN)/python -m tools.make_docs

lock: ## Renew locks/ after a change of dependencies, keeping versions where possible
	@tools/lock.sh

upgrade: ## Renew locks/ with the newest versions
	@tools/lock.sh --upgrade

clean: ## Remove .venv, builds and caches; var/ stays
	rm -rf .venv .venv-lock build dist *.egg-info
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -f _core/*.so _core/*/*.so agent/edge/*.so
	find . -name __pycache__ -prune -exec rm -rf {} +

# Progress goes to stderr: what a command answers stays alone on stdout.

$(DONE)/venv:
	@tools/check_prerequisites.sh "$(PYTHON)"
	@echo "Creating .venv …" >&2
	@$(PYTHON) -m venv --clear .venv
	@mkdir -p $(DONE) && touch $@

$(DONE)/run: locks/build.txt locks/run.txt | $(DONE)/venv
	@echo "Installing what running needs, at locked versions …" >&2
	@$(PIP_INSTALL) --require-hashes -r locks/build.txt -r locks/run.txt | $(PIP_PROGRESS) >&2
	@touch $@

# On a terminal pip shows itself how far it is: one of these files takes minutes.
$(DONE)/pipeline: locks/pipeline.txt | $(DONE)/run
	@echo "Installing Spark, a Java for it, pyarrow, and what plans and draws: 640 MB to download …" >&2
	@install="$(PIP_INSTALL) --require-hashes -r locks/pipeline.txt"; \
	if [ -t 2 ]; then $$install >&2; else $$install | $(PIP_PROGRESS) >&2; fi
	@touch $@

$(DONE)/dev: locks/dev.txt | $(DONE)/pipeline
	@echo "Installing what testing needs, at locked versions …" >&2
	@$(PIP_INSTALL) --require-hashes -r locks/dev.txt | $(PIP_PROGRESS) >&2
	@touch $@

# Installing builds everything; where only sources of modules changed, those are built again.
NEEDS_INSTALL := pyproject.toml setup.py $(DONE)/run

$(DONE)/core: $(COMPILED) $(NEEDS_INSTALL)
	@echo "Building _core; on a small Pi this takes minutes …" >&2
	@tools/build_core.sh $(if $(filter $(NEEDS_INSTALL),$?),install,release)
	@touch $@

# In a new checkout all workers would compile all tests at the same time, each for itself.
$(DONE)/tests-compiled: | $(DONE)/dev $(DONE)/core
	@$(BIN)/pytest --collect-only -q >build/tests-compiled.log || { cat build/tests-compiled.log; exit 1; }
	@touch $@

$(DONE)/core-debug: $(CORE) setup.py $(DONE)/run
	@echo "Building _core for debugging …" >&2
	@tools/build_core.sh debug
	@touch $@

$(DONE)/core-sanitized: $(CORE) setup.py $(DONE)/run
	@echo "Building _core with sanitizers …" >&2
	@tools/build_core.sh sanitized
	@touch $@
