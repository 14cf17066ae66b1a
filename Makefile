# Set-up, tests and the demonstration. Everything is installed into .venv; needs Python 3.11, 3.12 or 3.13 with venv
# (Debian: python3-venv), bash and make.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?=
VENV ?= .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/installed
PYTEST = -m pytest -q -n $(WORKERS) --maxprocesses=4 --dist=loadfile --no-loadscope-reorder
WORKERS := auto
LOCK ?=# that of the Python in VENV
SEED ?= 0

export PIP_DISABLE_PIP_VERSION_CHECK ?= 1

.PHONY: same-python help install demo test test-rest test-all test-lowest learning torture lint benchmark docs tutorial lock clean distclean

help:  ## this list
	@echo 'usage: make TARGET [PYTHON=/path/to/python3.12]'
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)$$/\1\t\2/p' Makefile | while IFS=$$'\t' read -r target text; do \
		printf '  make %-13s %s\n' "$$target" "$$text"; \
	done

install: $(STAMP)  ## set up .venv from the lock of its Python in requirements/, if that or setup.py has changed

demo: $(STAMP)  ## train on MinAtar Breakout and Atari Pong, export, evaluate and plot: 5 to 10 minutes on 2 cores
	$(RUN) -m acer_tf demo

test: $(STAMP)  ## the core of the tests, without processes and trainings: 2 to 5 minutes on 2 cores
	$(RUN) $(PYTEST) -m core

# One more than the cores: tests of clusters wait for most of their time.
test-rest: WORKERS := $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores < 4 ? cores + 1 : 4)))
test-rest: $(STAMP)
	$(RUN) $(PYTEST) -m 'not core and not learning'

test-all: test test-rest  ## all tests but the claims of hours; those of Ray and Slurm start a cluster on this machine

test-lowest:  ## tests of agents, replay, environments, runs, sweeps and policies with the lowest versions, in .venv-lowest
	$(MAKE) VENV=.venv-lowest LOCK=requirements/lowest.lock install
	.venv-lowest/bin/python $(PYTEST) -m 'not learning and not slow and not cluster' \
		tests/agents tests/replay tests/envs tests/training tests/reproduction tests/policies/test_policy.py tests/networks/test_networks.py

learning: $(STAMP)  ## claims about learning over several seeds, their table in results/learning/: hours
	$(RUN) -m pytest -q -m learning tests/learning --claims=results/learning/claims.md

torture: $(STAMP)  ## a campaign of signals, kills, damage, full disks and hostile input, its table in results/reliability: an hour
	$(RUN) -m tests.torture --seed=$(SEED) --minutes=60 --output=results/reliability

lint: $(STAMP)  ## ruff and mypy
	$(RUN) -m ruff check .
	$(RUN) -m mypy

benchmark: $(STAMP)  ## speed of the parts and of the whole loop, compared with this machine's limits: under 10 minutes
	$(RUN) -m benchmarks

tutorial: $(STAMP)  ## execute docs/tutorial.ipynb, and keep its outputs there: 2 to 4 minutes on 2 cores
	$(RUN) docs/run_tutorial.py

docs: $(STAMP)  ## regenerate the table of docs/presets.md
	$(RUN) docs/presets.py

clean:  ## remove caches, build files and demo_output; keeps .venv and runs/
	rm -rf build dist demo_output .mypy_cache .pytest_cache .ruff_cache
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## clean, and remove .venv too
	rm -rf $(VENV) .venv-lowest acer_tf.egg-info

# Sets `python` to a Python that has a lock: $(PYTHON) if given, else the first of the usual names that is one.
define find_python
python=; seen=; \
for name in $(or $(PYTHON),python3.11 python3.12 python3.13 python3 python); do \
	version=$$("$$name" -c 'import platform; print(platform.python_version())' 2>/dev/null) || version=; \
	case "$$version" in \
		3.11.*|3.12.*|3.13.*) python=$$name; break;; \
		'') seen="$$seen, no $$name";; \
		*) seen="$$seen, $$name is $$version";; \
	esac; \
done; \
if [ -z "$$python" ]; then \
	echo "error: acer_tf needs Python 3.11, 3.12 or 3.13 (found: $${seen#, }); install one, or give its path: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" >&2; \
	exit 1; \
fi
endef

# PYTHON chooses what .venv is made with; one of another Python is not used in its stead.
same-python:
	@version='import sys; print("Python %d.%d" % sys.version_info[:2])'; \
	if [ -e $(RUN) ] || [ -L $(RUN) ]; then \
		there=$$($(RUN) -c "$$version" 2>/dev/null) || there=broken; \
		asked=$$($(PYTHON) -c "$$version" 2>/dev/null) || asked='no Python'; \
		if [ "$$there" != "$$asked" ]; then \
			echo "error: $(VENV) is $$there, and PYTHON=$(PYTHON) is $$asked: run 'make distclean' first, or give VENV=.venv-other" >&2; \
			exit 1; \
		fi; \
	fi

# A .venv made by hand, or left incomplete by an interrupted set-up, is completed.
$(STAMP): $(wildcard requirements/*.lock) setup.py $(if $(PYTHON),| same-python)
	@if { [ -e $(RUN) ] || [ -L $(RUN) ]; } && ! $(RUN) -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12), (3, 13)))' 2>/dev/null; then \
		echo "error: $(VENV) is not a working environment of Python 3.11, 3.12 or 3.13: run 'make distclean', then again" >&2; exit 1; \
	fi; \
	if ! $(RUN) -m pip --version >/dev/null 2>&1; then \
		$(find_python); \
		echo "Making $(VENV) with $$python ($$version)"; \
		"$$python" -m venv $(VENV); \
	fi; \
	lock=$(or $(LOCK),requirements/py$$($(RUN) -c 'import sys; print("%d%d" % sys.version_info[:2])').lock); \
	total=$$(grep -c '==' $$lock); count=0; \
	echo "Installing $$total packages from $$lock into $(VENV): downloads 1 GB the first time; takes some minutes"; \
	$(RUN) -m pip install --no-deps --progress-bar off -r $$lock 2>&1 | tee $(VENV)/install.log | \
	while read -r word name _; do \
		case "$$word" in \
			Collecting|Processing|Requirement) count=$$((count + 1)); name=$${name##*/}; \
				if [ -t 1 ]; then printf '\r\033[K  %d/%d %s' $$count $$total "$$name"; \
				elif ((count % 20 == 0)); then echo "  $$count/$$total"; fi;; \
			Installing) if [ -t 1 ]; then printf '\r\033[K'; fi; echo "  downloaded; installing";; \
		esac; \
	done || { echo; grep -v '^WARNING' $(VENV)/install.log | tail -n 15; echo "error: pip failed (its output: $(VENV)/install.log)"; exit 1; } >&2
	@$(RUN) -m pip install --quiet --no-deps --no-build-isolation --editable . >>$(VENV)/install.log 2>&1 || \
		{ tail -n 15 $(VENV)/install.log; exit 1; } >&2
	@touch $(STAMP); echo "Installed: $(RUN) has acer_tf and all its extras"

lock:  ## regenerate requirements/ with the newest versions that setup.py allows, and with the lowest
	@$(find_python); \
	work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; \
	"$$python" -m venv "$$work/venv"; \
	"$$work/venv/bin/python" -m pip install --quiet uv; \
	for name in py311 py312 py313 lowest; do \
		case $$name in \
			lowest) version=3.11 options='--resolution lowest-direct';; \
			*) version=3.$${name#py3} options='';; \
		esac; \
		{ \
			echo "# Every package of the environment that acer_tf is tested in (Linux x86-64, Python $$version)."; \
			echo '# Generated by `make lock` from the ranges in setup.py; do not edit.'; \
			"$$work/venv/bin/uv" pip compile --quiet setup.py requirements/also.in --all-extras $$options \
				--override requirements/override.in --python-version $$version --no-annotate --no-header --upgrade; \
		} >"$$work/lock"; \
		mv "$$work/lock" requirements/$$name.lock; \
		echo "requirements/$$name.lock: $$(grep -c '==' requirements/$$name.lock) packages"; \
	done
