#!/usr/bin/env bash
# Does a model that has learned joined lines translate lines of three sentences, and how well single lines? A model of
# Multi30k de-en learns single captions (base), with the settings of multi30k.yaml for UPDATES (3,000). It continues for
# MORE (2,400) smaller updates without SimCut, which take a quarter of the time, with joined pairs (joined), and as long
# without (single). They translate the test set, and its captions in lines of three (three), which single models read as
# they are, and split into sentences (split).
#   scripts/experiments/context.sh DATA [STEP...]     DATA has Multi30k: train, val and test_2016_flickr
# The steps are base, single, joined and compare. Everything is written to data/context and runs/context. The same command
# continues what was stopped.
set -euo pipefail
[ $# -ge 1 ] || { echo "$0: DATA is needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1")
shift
steps=("$@")
[ $# -gt 0 ] || steps=(base single joined compare)
runs=runs/context text=data/context/text
common=(--config multi30k.yaml --data data/context/pairs --set data.root="$data" --set data.documents=true
  --set training.optimizer=adamw)
train() { # NAME OPTIONS...
  local run=$runs/$1
  shift
  if [ -e "$run/run.json" ]; then nmt train --resume --run "$run"; else nmt train --run "$run" "${common[@]}" "$@"; fi
}
base() {
  nmt prepare "${common[@]}"
  train base --set training.schedule=inverse_sqrt --set training.warmup_steps=800 \
    --set training.max_steps="${UPDATES:-3000}" --set training.cooldown=0.2
}
continued() { # NAME OPTIONS...
  train "$1" --init-from $runs/base --set training.schedule=inverse_sqrt --set training.peak_lr=1.5e-3 \
    --set training.warmup_steps=100 --set training.cooldown=0.4 --set training.max_steps="${MORE:-2400}" \
    --set training.validate_every_steps=300 --set training.consistency=none --set training.update_tokens=2048 \
    --set model.embedding_dropout=0.2 --set model.residual_dropout=0.2 "${@:2}"
}
single() { continued single; }
joined() { continued joined --set training.modifiers.join=0.7; }
three() { paste -d ' ' - - - < "$data/test_2016_flickr.$1" | sed 's/ *$//' > "$text/three.$1"; }
compare() {
  mkdir -p $text
  three de
  three en
  nmt compare $runs/single $runs/joined --split test_2016_flickr
  local options
  for run in "single --set search.split=never" "single --set search.split=always" "joined" "joined --set search.split=always"; do
    read -ra options <<< "$run"
    echo "$run"
    nmt evaluate --run "$runs/${options[0]}" "${options[@]:1}" --src $text/three.de --ref $text/three.en
    nmt translate --run "$runs/${options[0]}" "${options[@]:1}" --input $text/three.de --output "$text/${run// /_}.en"
    python - "$text/${run// /_}.en" $text/three.en <<'PY'
import sys

shares = [len(one.split()) / len(other.split()) for one, other in zip(*map(open, sys.argv[1:]), strict=True)]
print(f"lines with less than 0.7 of the words of the reference: {sum(share < 0.7 for share in shares)} of {len(shares)}")
PY
  done
}
for step in "${steps[@]}"; do $step; done
