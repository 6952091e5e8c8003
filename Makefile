# Every target does its own set-up, in .venv, or .venv-lint for ruff; it needs Python 3.11 or 3.12
# with pip, and a network or a local package index for the first run.

PYTHON ?= python3
BIN := .venv/bin
LINT := .venv-lint/bin
# Python compiles a module when it is first imported: pip would compile all, which takes as long as
# to install them.
PIP_INSTALL = python -m pip install -qq --no-compile --disable-pip-version-check
PIP = $(BIN)/$(PIP_INSTALL) -c constraints.txt

# Compiled modules are kept, also where the environment says otherwise: without them TensorFlow
# takes 7 seconds longer in every process.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help demo test docs docs-serve fuzz fuzz-coverage kills check lint format parity install-tpu tpu-check

help:  ## Lists what can be made
	@sed -n 's/^\([a-z-]*\):.*## /make \1	/p' $(MAKEFILE_LIST) | expand -t 20

demo: .venv/installed  ## PubMed XML to a pretrained and fine-tuned encoder, in demo/
	@$(BIN)/python scripts/demo.py

# More processes than cores: tests often wait for processes that they have started. What TensorFlow
# traced stays in a process, so the largest programs have processes of their own: else 24 GB are full.
# They are in three files, which processes share test by test: one a core, as tracing never waits.
PYTEST = $(BIN)/python -m pytest --durations=10 --dist=loadfile --no-loadscope-reorder \
	--numprocesses=$$($(BIN)/python -c 'import os; print(os.cpu_count() * 3 // 2)')

# Types are a test, too, which runs beside others.
test: lint .venv/installed-test .venv-tpu/installed  ## Lint and every test
	@$(PYTEST) --ignore-glob='*_on_tpu.py'
	@$(PYTEST) --dist=worksteal --numprocesses=$$(nproc) tests/tfbio/*/*_on_tpu.py

docs: .venv/installed-docs  ## The documentation site, in site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: .venv/installed-docs  ## The same at http://127.0.0.1:8000, anew with every change
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

PROFILE ?= ci
fuzz: .venv/installed-test  ## Mutated inputs for every reader: PROFILE=ci (minutes) or hour
	@$(BIN)/python scripts/fuzz.py --profile=$(PROFILE)

fuzz-coverage: .venv/installed-test  ## The branches of each reader that those inputs reach (minutes)
	@$(BIN)/python scripts/fuzz.py --coverage

kills: .venv/installed  ## Kills each stage as it writes, and fills its disk
	@TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python scripts/kills.py

check: lint .venv/installed-test  ## make lint, and types
	@$(BIN)/mypy

lint: .venv-lint/installed  ## ruff, and that each room imports only rooms below it (seconds)
	@$(LINT)/ruff check . && $(LINT)/ruff format --check .
	@$(LINT)/lint-imports --no-logo

format: .venv-lint/installed  ## ruff, which rewrites what it can
	@$(LINT)/ruff check --fix . && $(LINT)/ruff format .

.venv/installed: setup.cfg constraints.txt
	@echo "Installing tfbio into .venv (about 3 minutes) ..."
	@$(PYTHON) -m venv .venv
	@$(PIP) -e '.[data,report]'
	@touch $@

# Not after .venv/installed: to resolve all requirements twice takes half a minute.
.venv/installed-test: setup.cfg constraints.txt
	@echo "Installing tfbio and what the tests need into .venv (about 4 minutes) ..."
	@$(PYTHON) -m venv .venv
	@$(PIP) -e '.[data,report,docs,test]'
	@touch .venv/installed $@

.venv/installed-docs: .venv/installed
	@echo "Installing what the site needs into .venv (about 1 minute) ..."
	@$(PIP) -e '.[docs]'
	@touch $@

# Both only read the source: tfbio and what it needs (5 GB) are not installed for them.
.venv-lint/installed: constraints.txt
	@echo "Installing ruff and import-linter into .venv-lint (seconds) ..."
	@$(PYTHON) -m venv --clear --without-pip .venv-lint
	@$(PYTHON) -m pip --python=.venv-lint install -qq --no-compile --disable-pip-version-check \
		-c constraints.txt ruff import-linter
	@touch $@

parity: .venv/installed  ## Compares with a recording of the authors' code, RECORDING=FOLDER
	@PYTHONPATH=. TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python scripts/parity.py --recording='$(RECORDING)'

tpu-check: .venv/installed .venv-tpu/installed  ## Compiles the steps of four recipes for TPUs (hours)
	@$(BIN)/python scripts/tpu_check.py --tpu=v3-8 --tpu=v5e-8 \
		--hparams=hparams/quickstart.json --hparams=hparams/small.json \
		--hparams=hparams/base.json --hparams=hparams/large.json

.venv-tpu/installed: requirements/tpu_compiler.txt
	@echo "Installing the TPU's compiler into .venv-tpu (about 1 minute) ..."
	@$(PYTHON) -m venv .venv-tpu
	@.venv-tpu/bin/$(PIP_INSTALL) -r $<
	@touch $@

install-tpu: .venv-tpu-vm/installed  ## tfbio for a machine with a TPU, in .venv-tpu-vm (docs/tpu.md)

# Not in .venv: uninstalling its tensorflow would take files of tensorflow-tpu with it. Nor beside
# JAX and the newer libtpu that scripts/tpu_compiler.py wants.
.venv-tpu-vm/installed: BIN := .venv-tpu-vm/bin
.venv-tpu-vm/installed: setup.cfg constraints.txt requirements/tpu/pyproject.toml
	@echo "Installing tfbio with tensorflow-tpu into .venv-tpu-vm (about 10 minutes) ..."
	@$(PYTHON) -m venv .venv-tpu-vm
	@$(PIP) ./requirements/tpu -e '.[gcs]'
	@touch $@
