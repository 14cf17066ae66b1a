# Set-up, tests and the demonstration. Everything is installed into .venv; only Python 3.11, pip, bash and make are needed.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?=
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/installed
EXTRAS := control,minatar,ray,reproduction,dev

export TF_CPP_MIN_LOG_LEVEL ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1

.PHONY: help install demo test learning lint benchmark docs lock clean distclean

help:  ## this list
	@echo 'usage: make TARGET [PYTHON=/path/to/python3.11]'
	@sed -nE 's/^([a-z]+):[^#]*## (.*)$$/\1\t\2/p' Makefile | while IFS=$$'\t' read -r target text; do \
		printf '  make %-10s %s\n' "$$target" "$$text"; \
	done

install: $(STAMP)  ## set up .venv from requirements.lock (again only when that or setup.py has changed)

demo: $(STAMP)  ## train on MinAtar Breakout and Atari Pong, export, evaluate and plot: at most 8 minutes on 2 cores
	$(RUN) -m acer_tf demo

test: $(STAMP)  ## all tests but the long ones: 13 minutes on 2 cores
	$(RUN) -m pytest -q -n auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder

learning: $(STAMP)  ## the learning claims over several seeds: hours
	$(RUN) -m pytest -q -m learning --durations=0

lint: $(STAMP)  ## ruff and mypy
	$(RUN) -m ruff check .
	$(RUN) -m mypy

benchmark: $(STAMP)  ## speed of the parts and of the whole loop beside the limits of this machine: under 10 minutes
	$(RUN) -m benchmarks

docs:  ## write the generated tables of docs/ anew
	$(RUN) docs/presets.py

clean:  ## remove caches, build leftovers and demo_output; .venv and runs/ stay
	rm -rf build dist demo_output .mypy_cache .pytest_cache .ruff_cache
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## clean, and remove .venv too
	rm -rf $(VENV) acer_tf.egg-info

# Sets `python` to a Python 3.11: $(PYTHON) where it is given, else the first of the usual names that is one.
define find_python
python=; seen=; \
for name in $(or $(PYTHON),python3.11 python3 python); do \
	version=$$("$$name" -c 'import platform; print(platform.python_version())' 2>/dev/null) || version=; \
	case "$$version" in \
		3.11.*) python=$$name; break;; \
		'') seen="$$seen, no $$name";; \
		*) seen="$$seen, $$name is $$version";; \
	esac; \
done; \
if [ -z "$$python" ]; then \
	echo "error: acer_tf needs Python 3.11 (found: $${seen#, }); install it, or name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; \
	exit 1; \
fi
endef

# A .venv made by hand, or left half made by an interrupted set-up, is completed, not made anew.
$(STAMP): requirements.lock setup.py
	@if [ -x $(RUN) ] && ! $(RUN) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then \
		echo "error: $(VENV) is not a working Python 3.11 environment: run 'make distclean', then again" >&2; exit 1; \
	fi; \
	if ! $(RUN) -m pip --version >/dev/null 2>&1; then \
		$(find_python); \
		echo "Making $(VENV) with $$python ($$version)"; \
		"$$python" -m venv $(VENV); \
	fi; \
	total=$$(grep -c '==' requirements.lock); count=0; \
	echo "Installing $$total packages from requirements.lock into $(VENV): 1 GB to download at the first time, some minutes"; \
	$(RUN) -m pip install --no-deps --progress-bar off -r requirements.lock 2>&1 | tee $(VENV)/install.log | \
	while read -r word name _; do \
		case "$$word" in \
			Collecting|Processing|Requirement) count=$$((count + 1)); name=$${name##*/}; \
				if [ -t 1 ]; then printf '\r\033[K  %d/%d %s' $$count $$total "$$name"; \
				elif ((count % 20 == 0)); then echo "  $$count/$$total"; fi;; \
			Installing) if [ -t 1 ]; then printf '\r\033[K'; fi; echo "  all there; unpacking";; \
		esac; \
	done || { echo; grep -v '^WARNING' $(VENV)/install.log | tail -n 15; echo "error: pip failed (all it said: $(VENV)/install.log)"; exit 1; } >&2
	@$(RUN) -m pip install --quiet --no-deps --no-build-isolation --editable . >>$(VENV)/install.log 2>&1 || \
		{ tail -n 15 $(VENV)/install.log; exit 1; } >&2
	@touch $(STAMP); echo "Installed: $(RUN) has acer_tf and all its extras"

lock:  ## renew requirements.lock with the newest versions that setup.py allows
	@$(find_python); \
	work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; \
	echo "Resolving acer_tf[$(EXTRAS)] in a fresh environment: some minutes"; \
	"$$python" -m venv "$$work/venv"; \
	"$$work/venv/bin/python" -m pip install --quiet --upgrade setuptools wheel; \
	"$$work/venv/bin/python" -m pip install --quiet --no-build-isolation --editable '.[$(EXTRAS)]'; \
	"$$work/venv/bin/python" -m pip check; \
	{ \
		echo '# Every package of the environment that `make install` sets up, at the version that the tests pass with'; \
		echo '# (Linux x86-64, Python 3.11). Renewed by `make lock` from the ranges in setup.py; not edited by hand.'; \
		"$$work/venv/bin/python" -m pip freeze --all --exclude pip --exclude-editable; \
	} >"$$work/lock"; \
	mv "$$work/lock" requirements.lock; \
	echo "requirements.lock: $$(grep -c '==' requirements.lock) packages"
