#!/usr/bin/env bash
# Trainings on Multi30k de-en that cost the same, each on one core, to choose the settings of multi30k.yaml by.
#   scripts/experiments/multi30k.sh FOLDER SEED ARM...     FOLDER has the files (data/README.md); runs/multi30k/ARM-SEED
# An update with consistency training takes 2.1 times as long as one without, hence the numbers of updates. Two at once
# on two cores; the same command goes on with what was stopped. Then: python scripts/experiments/table.py runs/multi30k/*
set -euo pipefail
root=$1 seed=$2
shift 2
export OMP_NUM_THREADS=1

light=(--set model.embedding_dropout=0.1 --set model.residual_dropout=0.1)
rdrop=(--set training.consistency=rdrop --set training.consistency_weight=5)
simcut=(--set training.consistency=simcut)

for arm in "$@"; do
  run=runs/multi30k/$arm-$seed
  pieces=8000 steps=3700 warmup=700 settings=()
  case $arm in
    plain) steps=7860 warmup=1500 ;;
    rdrop) settings=("${light[@]}" "${rdrop[@]}") ;;
    simcut) settings=("${light[@]}" "${simcut[@]}" --set training.consistency_weight=1.5) ;;
    *) echo "$0: no such arm: $arm" >&2; exit 2 ;;
  esac
  data=data/prepared/multi30k-$pieces
  settings+=(--set "data.root=$root" --set "tokenizer.vocab_size=$pieces" --set "training.seed=$seed"
    --set "training.max_steps=$steps" --set "training.warmup_steps=$warmup" --set training.max_minutes=null
    --set "training.validate_every_steps=$((steps / 10))" --set "training.save_every_steps=$((steps / 20))"
    --set training.ema=0.998)
  if [ ! -e "$run/run.json" ]; then
    [ -e "$data" ] || nmt prepare --config multi30k.yaml "${settings[@]}" --data "$data"
    nmt train --config multi30k.yaml "${settings[@]}" --data "$data" --run "$run"
  else
    nmt train --resume --run "$run"
  fi
done
