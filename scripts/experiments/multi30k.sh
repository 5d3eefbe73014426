#!/usr/bin/env bash
# Trainings on Multi30k de-en that cost the same, each on one core, to choose the settings of multi30k.yaml by.
#   scripts/experiments/multi30k.sh FOLDER SEED ARM...     FOLDER has the files (data/README.md); runs/multi30k/ARM-SEED
# An update with consistency training takes 2.1 times as long as one without, hence the numbers of updates. Two at once
# on two cores; run the same command again to continue with what was stopped. Then: python scripts/experiments/table.py runs/multi30k/*
set -euo pipefail
[ $# -ge 3 ] || { echo "$0: FOLDER, SEED and ARM are needed; the first lines of the script explain" >&2; exit 2; }
root=$1 seed=$2
shift 2
export OMP_NUM_THREADS=1

# arm NAME: the settings of an arm
arm() {
  pieces=8000 steps=3700 warmup=700
  consistency=simcut weight=1.5 dropout=0.1 more=()
  case $1 in
    plain) consistency=none weight= dropout=0.3 steps=7860 warmup=1500 ;;
    rdrop) consistency=rdrop weight=5 ;;
    simcut) ;;
    plain-long) consistency=none weight= dropout=0.3 steps=17000 warmup=2500 ;;
    simcut-long) weight=2 steps=8000 warmup=1500 ;;
    # SimCut for half an hour, with one thing changed
    brief) steps=1480 warmup=280 ;;
    brief-4k) pieces=4000 steps=1650 warmup=310 ;; # a smaller softmax: more updates in the same time
    brief-bpe) steps=1480 warmup=280 more=(--set training.bpe_dropout=0.1) ;;
    brief-post) steps=1480 warmup=280 more=(--set model.norm=post) ;;
    *) echo "$0: no such arm: $1" >&2; exit 2 ;;
  esac
  data=data/prepared/multi30k-$pieces
  settings=(--config multi30k.yaml --data "$data" --set "data.root=$root" --set "tokenizer.vocab_size=$pieces"
    --set "training.seed=$seed" --set "training.consistency=$consistency"
    ${weight:+--set "training.consistency_weight=$weight"}
    --set "model.embedding_dropout=$dropout" --set "model.residual_dropout=$dropout" --set training.ema=0.998
    --set training.optimizer=adamw --set "training.max_steps=$steps"
    --set "training.warmup_steps=$warmup" --set training.max_minutes=null
    --set "training.validate_every_steps=$((steps / 10))" --set "training.save_every_steps=$((steps / 20))" "${more[@]}")
}

for name in "$@"; do arm "$name"; done # a name that is none is found before hours have passed
for name in "$@"; do
  arm "$name"
  run=runs/multi30k/$name-$seed resumed=()
  mkdir -p data/prepared
  flock "$data.lock" nmt prepare "${settings[@]}" # two may begin at once
  if [ -e "$run/run.json" ]; then resumed=(--resume); fi
  nmt train "${resumed[@]}" "${settings[@]}" --run "$run"
done
