#!/usr/bin/env bash
# The Multi30k figures of the README, from the files to the scores: 67 to 90 minutes a direction on two CPU cores.
#   scripts/measure/multi30k.sh [FOLDER WITH THE FILES] [DIRECTION]
set -euo pipefail
root=${1:-data/multi30k}
direction=${2:-de-en}
run=runs/multi30k-$direction
settings=(--config multi30k.yaml --set "data.root=$root" --set "data.direction=$direction")

nmt prepare "${settings[@]}"
nmt train "${settings[@]}" --run "$run"
nmt runs --curve "$run"
nmt evaluate --run "$run" --split test_2016_flickr
nmt evaluate --run "$run" --split test_2016_flickr --weights raw
