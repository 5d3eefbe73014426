#!/usr/bin/env bash
# How deep should encoder and decoder be? Multi30k de-en, plain training with updates of 2,048 tokens and otherwise the
# settings of multi30k.yaml, for UPDATES (1,500), with other numbers of layers. SEED is 1 and OPTIMIZER adamw by default.
#   scripts/experiments/shapes.sh DATA [SHAPE...]     DATA has Multi30k: train, val and test_2016_flickr
# Shapes are ENCODER+DECODER, by default 4+4 6+2 8+2 8+1 12+1; each is trained in runs/shapes with one thread. The same
# command continues what was stopped. Then, on a quiet machine:
#   nmt compare runs/shapes/* --split test_2016_flickr
#   python -m scripts.measure.shapes --src DATA/test_2016_flickr.de --ref DATA/test_2016_flickr.en runs/shapes/*
set -euo pipefail
[ $# -ge 1 ] || { echo "$0: DATA is needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1") updates=${UPDATES:-1500} seed=${SEED:-1} optimizer=${OPTIMIZER:-adamw}
shift
shapes=("$@")
[ $# -gt 0 ] || shapes=(4+4 6+2 8+2 8+1 12+1)
common=(--config multi30k.yaml --data data/shapes --set data.root="$data" --set training.consistency=none
  --set training.optimizer="$optimizer" --set training.update_tokens=2048 --set model.embedding_dropout=0.2
  --set model.residual_dropout=0.2
  --set training.schedule=inverse_sqrt --set training.cooldown=0.3 --set training.warmup_steps=$((updates / 6))
  --set training.validate_every_steps=$((updates / 6)) --set training.max_steps="$updates" --set training.max_minutes=null
  --set training.seed="$seed")
nmt prepare "${common[@]}"
export OMP_NUM_THREADS=1
for shape in "${shapes[@]}"; do
  run=runs/shapes/$shape-$optimizer-$seed
  if [ -e "$run/run.json" ]; then nmt train --resume --run "$run"; continue; fi
  nmt train "${common[@]}" --run "$run" --set model.encoder_layers="${shape%+*}" --set model.decoder_layers="${shape#*+}"
done
