#!/usr/bin/env bash
# What does nmt bidirectional gain? Multi30k de-en and en-de with the settings of multi30k.yaml, but without SimCut: each
# direction for UPDATES (1,800; singles), and both directions in one model for as many, from which each direction
# continues for half as many (pairs). Both ways make 2 × UPDATES updates of 2,048 tokens in total.
#   scripts/experiments/bidirectional.sh DATA [STEP...]     DATA has Multi30k: train, val and test_2016_flickr
# The steps are singles, pairs and compare. Everything is written to data/bidirectional and runs. The same command
# continues what was stopped.
set -euo pipefail
[ $# -ge 1 ] || { echo "$0: DATA is needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1") updates=${UPDATES:-1800}
shift
steps=("$@")
[ $# -gt 0 ] || steps=(singles pairs compare)
common=(--config multi30k.yaml --set data.dir=data/bidirectional --set data.root="$data" --set training.consistency=none
  --set training.optimizer=adamw --set training.update_tokens=2048 --set model.embedding_dropout=0.2
  --set model.residual_dropout=0.2
  --set training.schedule=inverse_sqrt --set training.cooldown=0.3 --set training.warmup_steps=$((updates / 6))
  --set training.validate_every_steps=$((updates / 6)))
nmt prepare "${common[@]}"
singles() {
  local direction run
  for direction in de-en en-de; do
    run=runs/bidirectional-$direction
    if [ -e "$run/run.json" ]; then nmt train --resume --run "$run"; continue; fi
    nmt train "${common[@]}" --set data.direction=$direction --run "$run" --set training.max_steps="$updates" \
      --set training.max_minutes=null
  done
}
pairs() {
  local direction
  for direction in de-en en-de; do
    nmt bidirectional "${common[@]}" --name bidirectional --both "$updates" --one $((updates / 2)) \
      --set data.direction=$direction
  done
}
compare() {
  local direction
  for direction in de-en en-de; do
    nmt compare runs/bidirectional-$direction runs/bidirectional-both-$direction runs/bidirectional-both \
      --split test_2016_flickr --to ${direction#*-} --from ${direction%-*}
  done
}
for step in "${steps[@]}"; do $step; done
