#!/usr/bin/env bash
# What are captions without translations worth? Multi30k de-en with back-translations of English captions.
#   scripts/experiments/captions.sh DATA
# DATA has Multi30k: train, val and test_2016_flickr, and captions.en: the English captions of task 2, without those of
# the test sets. A short en-de training translates them, and a longer de-en training learns from both. Everything is
# written to data and runs. The same command continues what was stopped.
set -euo pipefail
[ $# -eq 1 ] || { echo "$0: DATA is needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1")
export OMP_NUM_THREADS=1
options=(--config multi30k.yaml --set data.direction=en-de --set data.dir=data/captions --set data.root="$data"
  --set 'training.run_dir=runs/captions-{direction}' --set model.d_ff=512 --set training.consistency=none
  --set training.optimizer=muon --set training.update_tokens=2048 --set training.schedule=inverse_sqrt
  --set training.cooldown=0.3 --set training.warmup_steps=300 --set training.max_steps=1800
  --set training.max_minutes=null --set training.validate_every_steps=900)
nmt prepare "${options[@]}"
if [ -e runs/captions-en-de/run.json ]; then nmt train --resume --run runs/captions-en-de; else
  nmt train "${options[@]}"
fi
nmt back-translate --reverse runs/captions-en-de --mono "$data/captions.en" --how greedy --upsample 2 --train \
  --output data/captions-back --set training.max_steps=8000 --set training.warmup_steps=1000 \
  --set training.validate_every_steps=1000
