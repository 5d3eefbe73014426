#!/usr/bin/env bash
# How well does one config do for other languages? Multi30k in each DIRECTION: plain training with Muon, 4+4 layers and
# 1,650 updates, about 15 minutes of two cores.
#   scripts/experiments/directions.sh DATA DIRECTION...    DIRECTION is de-en, en-de, fr-en, en-fr, cs-en or en-cs
# DATA has Multi30k: train, val and test_2016_flickr. Everything is written to data and runs/presets; the same command
# continues what was stopped. Then: nmt evaluate --run RUN --split test_2016_flickr
set -euo pipefail
[ $# -ge 2 ] || { echo "$0: DATA and DIRECTION are needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1") updates=${UPDATES:-1650}
here=$(dirname "$(realpath "$0")")
shift
mkdir -p data
for direction in "$@"; do
  src=${direction%-*} tgt=${direction#*-}
  files() { echo "{files: {$src: $1.$src, $tgt: $1.$tgt}}"; }
  nmt config --config multi30k.yaml --set data.direction="$direction" --set data.root="$data" \
    --set data.dir=data/multi30k-"$direction" --set data.train="[$(files train)]" --set data.valid="$(files val)" \
    --set data.test="{test_2016_flickr: $(files test_2016_flickr)}" > data/multi30k-"$direction".yaml
  nmt prepare --config data/multi30k-"$direction".yaml
  "$here"/presets.sh data/multi30k-"$direction".yaml data/multi30k-"$direction" 128:4:2048:0.1:none:"$updates"
done
