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
test check: export OMP_NUM_THREADS = 1

.DEFAULT_GOAL := help
.PHONY: help demo test check clean bad-inputs torture bench-multi30k bench-train bench-translate bench-precision bench-start bench-cost bench-padding bench-memory bench-protection bench-endless bench-constraints compare-engines gpu-check gpu-wheels

help:  ## Show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 26

demo: $(READY)  ## Train a German-English translator on the embedded corpus and score it (minutes)
	$(BIN)/nmt prepare --config sample.yaml
	rm -rf $(DEMO)
	$(BIN)/nmt train --config sample.yaml --run $(DEMO)
	head -n 3 data/sample/test.de | $(BIN)/nmt translate --run $(DEMO)
	$(BIN)/nmt evaluate --run $(DEMO) --samples 10

MULTI30K ?= data/multi30k
bench-multi30k: $(READY)  ## Train on Multi30k as the README's results were made (MULTI30K=folder, over an hour)
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/bench_multi30k.sh $(MULTI30K)

bench-train: $(READY)  ## Compare the speed of training with other toolkits (MULTI30K=folder, 40 minutes, 10 GB of disk)
	TORCH_INDEX="$(TORCH_INDEX)" $(BIN)/python scripts/bench_train.py --data $(MULTI30K)

bench-translate: $(READY)  ## Compare the speed of translating with other toolkits (MULTI30K=folder, half an hour, 10 GB of disk)
	TORCH_INDEX="$(TORCH_INDEX)" $(BIN)/python scripts/bench_translate.py --data $(MULTI30K)

bench-precision: $(READY)  ## Compare what float32 and the number format of auto learn in equal epochs (an hour)
	$(BIN)/python scripts/compare_precision.py

bench-start: $(READY)  ## Print where the seconds from the command to the first update go, on a prepared Multi30k
	$(BIN)/python scripts/start_time.py data/prepared/multi30k

bench-cost: $(READY)  ## Measure a step's cost by width and update size, and draw it (10 minutes at most)
	$(BIN)/python scripts/step_cost.py

bench-padding: $(READY)  ## Print the share of padding on a prepared Multi30k
	$(BIN)/python scripts/padding_share.py data/prepared/multi30k de en

bench-memory: $(READY)  ## Compare the memory of training on 50 thousand and 5 million synthetic pairs (2 GB of disk)
	$(BIN)/python scripts/bench_memory.py

bench-protection: $(READY)  ## Print the share of URLs, numbers, tags … that survive translation by the demo's run
	$(BIN)/python scripts/protection.py $(DEMO)

bench-constraints: $(READY)  ## Ask for terms of the references on Multi30k, print BLEU without and with them (RUN=run, MULTI30K=folder)
	$(BIN)/python scripts/constraints_check.py --run $(RUN) --data $(MULTI30K)

bench-endless: $(READY)  ## Feed the demo's run lines for five minutes, print its memory and how soon it answers
	$(BIN)/python scripts/endless_input.py $(DEMO)

RUN ?= runs/multi30k-de-en
compare-engines: $(READY)  ## Compare native translations with CTranslate2's on Multi30k (RUN=run de-en, MULTI30K=folder)
	$(BIN)/python scripts/compare_engines.py --run $(RUN) \
		--src $(MULTI30K)/test_2016_flickr.de --ref $(MULTI30K)/test_2016_flickr.en

gpu-check: $(READY)  ## Check on one GPU that results are right, and how fast they come (MULTI30K=folder, 9 minutes)
	$(BIN)/python scripts/gpu_check.py $(if $(wildcard $(MULTI30K)),--data $(MULTI30K))

# For a machine with PyTorch but without network: copy the repository and build/gpu-wheels there, and run
#   python scripts/gpu_check.py --wheels build/gpu-wheels --output found.jsonl
GPU_PYTHON ?= 3.12
gpu-wheels: $(READY)  ## Fetch what gpu-check needs beside PyTorch into build/gpu-wheels (Linux x86-64, GPU_PYTHON=3.12)
	mkdir -p build/gpu-wheels
	$(BIN)/python -m pip freeze --exclude-editable >build/installed.txt
	$(BIN)/python -m pip download --quiet --no-deps --only-binary=:all: --python-version $(GPU_PYTHON) \
		$(foreach p,manylinux_2_28 manylinux_2_27 manylinux_2_17 manylinux2014,--platform $(p)_x86_64) \
		-d build/gpu-wheels -c build/installed.txt -r scripts/gpu_wheels.txt

test: check  ## Run every check and the whole test suite with coverage
	$(BIN)/python -m pytest -n auto --dist loadscope --cov --cov-report=term --cov-fail-under=90

check: $(READY)  ## Run ruff and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bad-inputs: $(READY)  ## Give the command line bad input of every kind and print what it says (minutes)
	$(BIN)/python scripts/bad_inputs.py

torture: $(READY)  ## Kill training runs 100 times, resume them each time, and compare with undisturbed ones (3 settings)
	for setting in plain all schedule_free; do $(BIN)/python scripts/torture.py --setting $$setting || exit 1; done

clean:  ## Remove the environment, caches, the prepared sample corpus and the demo's run; other runs stay
	rm -rf .venv build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .coverage.*
	rm -rf data/prepared/sample $(DEMO)
	find nmt scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +

# torch goes first and alone, so that only this one package is looked up in the index of torch builds.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --retries 1 --no-deps -c constraints.txt \
		$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@
