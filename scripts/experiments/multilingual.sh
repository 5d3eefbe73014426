#!/usr/bin/env bash
# Is one model of six directions better than six models? One model learns Multi30k in four languages, to and from
# English, for 60 minutes; a model of each direction for ten minutes with the settings of multi30k.yaml, and two of them
# for 60. Then the first model continues for 20 minutes with crossconst, and without (control), to translate between
# languages of which it has no pairs: directly, or via English.
#   scripts/experiments/multilingual.sh DATA [STEP...]     DATA has the four languages of Multi30k
# The steps are all, singles, long, zero-shot and compare. Everything is written to data/multilingual and
# runs/multilingual. The same command continues what was stopped.
set -euo pipefail
[ $# -ge 1 ] || { echo "$0: DATA is needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1")
shift
steps=("$@")
[ $# -gt 0 ] || steps=(all singles long zero-shot compare)
config=$(dirname "$0")/multilingual.yaml runs=runs/multilingual root=(--set data.root="$data")
directions=(de-en en-de fr-en en-fr cs-en en-cs) others=(de-fr fr-de de-cs cs-de fr-cs cs-fr)
train() { # NAME OPTIONS...
  local run=$runs/$1
  shift
  if [ -e "$run/run.json" ]; then nmt train --resume --run "$run"; else nmt train --run "$run" "$@"; fi
}
single() { # NAME DIRECTION MINUTES
  local src=${2%-*} tgt=${2#*-}
  files() { echo "files: {$src: $1.$src, $tgt: $1.$tgt}"; }
  local options=(--config multi30k.yaml "${root[@]}" --set data.direction="$2" --set "data.train=[{$(files train)}]"
    --set "data.valid={$(files val)}" --set "data.test={flickr: {$(files test_2016_flickr)}}")
  nmt prepare "${options[@]}" --data "data/multilingual/$2"
  train "$1" "${options[@]}" --data "data/multilingual/$2" --set training.max_minutes="$3"
}
all() {
  nmt prepare --config "$config" "${root[@]}"
  train all --config "$config" "${root[@]}" --set training.max_minutes="${MINUTES:-60}"
}
singles() { for direction in "${directions[@]}"; do single "$direction" "$direction" 10; done; }
long() { for direction in de-en en-fr; do single "$direction-long" "$direction" 60; done; }
zero-shot() {
  local options=(--config "$config" "${root[@]}" --init-from $runs/all --set training.max_minutes=20
    --set training.peak_lr=5e-4 --set training.warmup_steps=100)
  train control "${options[@]}"
  train crossconst "${options[@]}" --set training.consistency=crossconst
}
compare() {
  for direction in "${directions[@]}"; do
    nmt compare $runs/all "$runs/$direction" --split flickr --to "${direction#*-}" --from "${direction%-*}"
  done
  for direction in de-en en-fr; do
    nmt compare $runs/all "$runs/$direction-long" --split flickr --to "${direction#*-}" --from "${direction%-*}"
  done
  for direction in "${others[@]}"; do
    local src=${direction%-*} tgt=${direction#*-}
    for run in control crossconst; do
      for via in "" "--via en"; do
        nmt evaluate --run $runs/$run --to "$tgt" --from "$src" $via --src "$data/test_2016_flickr.$src" \
          --ref "$data/test_2016_flickr.$tgt"
      done
    done
  done
}
for step in "${steps[@]}"; do $step; done
