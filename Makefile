# Every target works in a fresh clone: the first one makes the environment in .venv.

PYTHON ?= python3

# The small CPU build of torch comes from here. With an NVIDIA GPU take the CUDA build instead, for example
#   make demo TORCH_INDEX=https://download.pytorch.org/whl/cu130
# or TORCH_INDEX= (empty) for the build on the default package index.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

BIN := .venv/bin
READY := .venv/.ready
DEMO := runs/demo

# One thread: the tests' models are so small that more threads only wait for each other.
test test-all test-fast test-processors check: export OMP_NUM_THREADS = 1
# Compiled modules are kept, whatever the environment says: pytest takes seconds to rewrite the tests' assertions.
test test-all test-fast test-processors: export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-fast test-processors check pytest bench-train bench-translate bench-serve bench-prepare damage \
	dist site compare-engines torture task-torture gpu-check memory clean

help:  ## Show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 26

demo: $(READY)  ## Train a German-English translator on the embedded corpus and score it (minutes)
	rm -rf $(DEMO)
	$(BIN)/nmt demo --run $(DEMO)

# Half more processes than cores: many tests wait for other processes. Twice as many are not faster.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 3 / 2)

# what else pytest is given
PYTEST_OPTIONS ?=

test: $(READY)  ## Run every check, and the tests with coverage, as CI does (minutes)
	@began=$$(date +%s); $(MAKE) --no-print-directory --jobs 2 check pytest && \
		echo "make test: $$(($$(date +%s) - began)) seconds"

test-all: export PYTEST_OPTIONS = --exhaustive
test-all: test  ## Run every check and all tests, also the long ones that CI leaves out (half an hour)

# Collecting once compiles all modules while mypy is busy; else each worker would compile them.
pytest: $(READY)
	@$(BIN)/python -m pytest -q --collect-only >/dev/null || true
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder --cov --cov-report=term --cov-fail-under=90 \
		$(PYTEST_OPTIONS)

test-fast: $(READY)  ## Run ruff and the unit tests (under a minute)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python -m pytest -q -n auto --dist loadscope --hypothesis-profile fast tests/unit

# Each is one run. On a CPU with bf16 matrix units oneDNN rounds to bf16 unless it is told not to use them.
PROCESSORS ?= NMT_TEST_FLOAT32=mkl NMT_TEST_FLOAT32=onednn,ONEDNN_MAX_CPU_ISA=AVX512_CORE \
	ATEN_CPU_CAPABILITY=default ATEN_CPU_CAPABILITY=avx2 ATEN_CPU_CAPABILITY=avx512 \
	MKL_CBWR=COMPATIBLE MKL_ENABLE_INSTRUCTIONS=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX512 \
	ONEDNN_MAX_CPU_ISA=AVX2 ONEDNN_MAX_CPU_ISA=AVX512_CORE ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 \
	OMP_NUM_THREADS=2 OMP_NUM_THREADS=4

test-processors: $(READY)  ## Run the tests in this process as other processors would compute them (PROCESSORS="A=1 B=2", an hour)
	@failed=; for settings in $(PROCESSORS); do \
		echo "$$settings"; \
		env $$(echo $$settings | tr , ' ') $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadscope \
			--no-loadscope-reorder tests/unit tests/runs $(PYTEST_OPTIONS) || failed="$$failed $$settings"; \
	done; [ -z "$$failed" ] || { echo "tests failed with:$$failed"; exit 1; }

check: $(READY)  ## Run ruff and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

dist: $(READY)  ## Build the sdist and the wheel, and try the wheel in an empty environment (minutes)
	rm -rf dist
	$(BIN)/python -m build
	TORCH_INDEX="$(TORCH_INDEX)" TORCH="$$(grep ^torch== constraints.txt)" scripts/checks/dist.sh dist/*.whl $(PYTHON)

site: $(READY)  ## Build the documentation as a website, in build/site
	$(BIN)/python -m mkdocs build --strict

# scripts/README.md lists these and the other measurements, with the commands to run them.
RUN ?= runs/multi30k-de-en
MULTI30K ?= data/multi30k

bench-train: $(READY)  ## Compare training speed with other toolkits (MULTI30K=folder, 40 minutes, 10 GB of disk)
	TORCH_INDEX="$(TORCH_INDEX)" $(BIN)/python -m scripts.bench.train --data $(MULTI30K)

bench-translate: $(READY)  ## Compare translation speed with other toolkits (MULTI30K=folder, 45 minutes, 10 GB of disk)
	TORCH_INDEX="$(TORCH_INDEX)" $(BIN)/python -m scripts.bench.translate --data $(MULTI30K)

bench-serve: $(READY)  ## Measure nmt serve under load beside LibreTranslate (RUN=run, TEXT=file, 10 minutes, 2 GB of disk)
	$(BIN)/python -m scripts.bench.serve --run $(RUN) --text $(or $(TEXT),$(MULTI30K)/train.de)

# BASELINE=checkout compares with another version of nmt
bench-prepare: $(READY)  ## Measure the cost of preparing a pair, beside OpusFilter (MULTI30K=folder, 15 minutes)
	$(BIN)/python -m scripts.bench.prepare $(MULTI30K)/train.de $(MULTI30K)/train.en --pairs 300000 --opusfilter \
		--workers 1 2 $(if $(BASELINE),--baseline $(BASELINE))

damage: $(READY)  ## Measure how much damage cleaning finds in parallel text (FOLDERS="folder ...", minutes)
	$(BIN)/python -m scripts.measure.damage $(or $(FOLDERS),$(MULTI30K))

compare-engines: $(READY)  ## Compare PyTorch's translations of Multi30k with CTranslate2's (RUN=run de-en, MULTI30K=folder)
	$(BIN)/python -m scripts.checks.compare_engines --run $(RUN) \
		--src $(MULTI30K)/test_2016_flickr.de --ref $(MULTI30K)/test_2016_flickr.en

torture: test-all  ## Run all tests, then kill training runs 100 times and resume them (five settings)
	for setting in plain all rdrop denoising pretrain; do \
		$(BIN)/python -m scripts.checks.torture --setting $$setting || exit 1; done

task-torture: $(READY)  ## Kill workers and drivers of tasks in 50 rounds, compare with undisturbed ones (minutes)
	$(BIN)/python -m scripts.checks.task_torture --rounds 50
	$(BIN)/python -m scripts.checks.task_torture --rounds 50 --prepare

gpu-check: $(READY)  ## Check on one GPU that results are right, and measure the speed (MULTI30K=folder, 12 minutes)
	$(BIN)/python -m scripts.gpu.check $(if $(wildcard $(MULTI30K)),--data $(MULTI30K))

memory: $(READY)  ## Measure memory, start and speed of training on 20 million pairs (an hour, 3 GB of disk)
	$(BIN)/python -m scripts.measure.memory

clean:  ## Remove the environment, caches, the prepared sample corpus and the demo's run; other runs stay
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .coverage.*
	rm -rf data/prepared/sample $(DEMO)
	find nmt scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +

# torch goes first and alone, so that only this one package is looked up in the index of torch builds.
# pip first: the one that comes with Python may be years old, and 23.2 takes a minute longer to choose the packages.
# --no-compile: Python compiles the modules that are imported. To compile all 20,000 takes a minute.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --no-compile --upgrade pip
	$(BIN)/pip install --quiet --no-compile --retries 1 --no-deps -c constraints.txt \
		$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch
	$(BIN)/pip install --quiet --no-compile -c constraints.txt -e '.[dev]'
	touch $@
