#!/usr/bin/env bash
# What are translations of one's own training text worth (data diversification, Nguyen et al., 2020)? Multi30k de-en.
#   scripts/experiments/diversify.sh DATA [STEP...]     DATA has Multi30k: train, val and test_2016_flickr
# The steps: translate (short trainings of both directions, see directions.sh, translate the training text), train (SimCut
# on that text, its back-translation and its forward translation) and captions, which needs the captions of task 2 without
# those of the test sets in DATA (translated by the same short trainings, see captions.sh; plain training).
# Everything is written to data/diversify and runs. The same command continues what was stopped.
set -euo pipefail
[ $# -ge 1 ] || { echo "$0: DATA is needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1") folder=$PWD/data/diversify captions=$PWD/data/captions
here=$(dirname "$(realpath "$0")")
shift
steps=("$@")
[ $# -gt 0 ] || steps=(translate train captions)
export OMP_NUM_THREADS=1
mkdir -p "$folder"
short() { echo "runs/presets/multi30k-$1-128:4:2048:0.1:none:1650-1"; }
translated() {  # RUN TEXT OUTPUT
  [ -e "$folder/$3" ] || nmt translate --run "$1" --input "$data/$2" --output "$folder/$3"
}
learned() {  # RUN CORPORA OPTION...
  local run=runs/$1 options=(--config multi30k.yaml --set data.dir=data/"$1" --set data.root="$data" --set data.train="$2"
    --set training.optimizer=muon --set training.max_minutes=null "${@:3}")
  nmt prepare "${options[@]}" --tokenizer-from "$(short de-en)"
  if [ -e "$run/run.json" ]; then nmt train --resume --run "$run"; else nmt train "${options[@]}" --run "$run"; fi
}
translate() {
  "$here"/directions.sh "$data" de-en en-de
  translated "$(short en-de)" train.en train-back.de
  translated "$(short de-en)" train.de train-forward.en
}
train() {
  learned diversify-text "[{files: {de: train.de, en: train.en}}, {files: {de: $folder/train-back.de, en: train.en}},
    {files: {de: train.de, en: $folder/train-forward.en}}]" \
    --set training.max_steps=2200 --set training.warmup_steps=400 --set training.validate_every_steps=400
}
captions() {
  "$here"/captions.sh "$data" translate
  learned diversify-captions "[{files: {de: train.de, en: train.en}, repeat: 2},
    {files: {de: $captions/back.de, en: captions.en}}, {files: {de: captions.de, en: $captions/back.en}}]" \
    --set model.d_ff=512 --set training.consistency=none --set training.update_tokens=2048 \
    --set training.schedule=inverse_sqrt --set training.cooldown=0.3 --set training.warmup_steps=750 \
    --set training.max_steps=4500 --set training.validate_every_steps=750
}
for step in "${steps[@]}"; do $step; done
