#!/usr/bin/env bash
# What are captions without translations worth? Multi30k de-en with back-translations of English captions.
#   scripts/experiments/captions.sh DATA
# DATA has Multi30k: train, val and test_2016_flickr, and captions.en: the English captions of task 2, without those of
# the test sets. A short en-de training translates them, and a longer de-en training learns from both. Everything is
# written to data and runs. The same command continues what was stopped.
set -euo pipefail
[ $# -eq 1 ] || { echo "$0: DATA is needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1")
common=(--config scripts/experiments/captions.yaml --set data.root="$data")
export OMP_NUM_THREADS=1
nmt prepare "${common[@]}"
if [ -e runs/captions-en-de/run.json ]; then nmt train --resume --run runs/captions-en-de; else
  nmt train "${common[@]}" --set data.direction=en-de --set training.max_steps=1800 --set training.warmup_steps=300 \
    --set training.validate_every_steps=900
fi
nmt back-translate --reverse runs/captions-en-de --mono "$data/captions.en" --how greedy "${common[@]}" --upsample 2 \
  --output data/captions-back --train
