#!/usr/bin/env bash
# Muon against AdamW: Multi30k de-en, plain training with updates of 2,048 tokens and otherwise the settings of
# multi30k.yaml, at equal CPU seconds: an update with Muon takes a tenth longer.
#   [UPDATES=750] scripts/experiments/muon.sh DATA SEED ARM...      DATA has train, val and test_2016_flickr
# An ARM is OPTIMIZER:PEAK_LR, such as muon:5e-3 or adamw:2.5e-3. Each is trained in runs/muon with one thread; the same
# command continues what was stopped. Then:
#   nmt compare runs/muon/adamw:2.5e-3-1 runs/muon/muon:5e-3-1 --split test_2016_flickr
set -euo pipefail
[ $# -ge 3 ] || { echo "$0: DATA, SEED and ARM are needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1") seed=$2
shift 2
export OMP_NUM_THREADS=1
for arm in "$@"; do
  optimizer=${arm%:*} peak=${arm#*:} updates=${UPDATES:-750}
  [ "$optimizer" = muon ] || updates=$((updates * 11 / 10))
  run=runs/muon/$arm-$seed resumed=()
  settings=(--config multi30k.yaml --data data/muon --set data.root="$data" --set training.consistency=none
    --set training.update_tokens=2048 --set model.embedding_dropout=0.2 --set model.residual_dropout=0.2
    --set training.schedule=inverse_sqrt --set training.cooldown=0.3 --set training.warmup_steps=$((updates / 6))
    --set training.validate_every_steps=250 --set training.max_steps=$updates --set training.max_minutes=null
    --set training.optimizer="$optimizer" --set training.peak_lr="$peak" --set training.seed="$seed")
  flock data/muon.lock nmt prepare "${settings[@]}" # two may begin at once
  if [ -e "$run/run.json" ]; then resumed=(--resume); fi
  nmt train "${resumed[@]}" "${settings[@]}" --run "$run"
done
