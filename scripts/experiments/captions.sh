#!/usr/bin/env bash
# What are captions without translations worth? Multi30k in both directions, with back-translations of other captions of
# the training pictures, and with noisy-channel reranking by the other direction and a language model.
#   [UPDATES=6000] [LAYERS=2] scripts/experiments/captions.sh DATA [STEP...]
# DATA has Multi30k (train, val, test_2016_flickr) and captions.de and captions.en, the captions of task 2 without those of
# the test sets. The steps: translate (short trainings of both directions, see directions.sh, translate the captions),
# de-en and en-de (plain training with Muon on the pairs, twice, and the captions of the target language), lm-en and
# lm-de (language models of that text), rerank-de-en and rerank-en-de. Everything is written to data and runs. The same
# command continues what was stopped.
set -euo pipefail
[ $# -ge 1 ] || { echo "$0: DATA is needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1") folder=$PWD/data/captions layers=${LAYERS:-2} updates=${UPDATES:-6000}
here=$(dirname "$(realpath "$0")")
shift
steps=("$@")
[ $# -gt 0 ] || steps=(translate de-en en-de lm-en lm-de rerank-de-en rerank-en-de)
export OMP_NUM_THREADS=1
mkdir -p "$folder"
short() { echo "runs/presets/multi30k-$1-128:4:2048:0.1:none:1650-1"; }
translate() {
  local direction
  "$here"/directions.sh "$data" de-en en-de
  for direction in de-en en-de; do
    [ -e "$folder/back.${direction#*-}" ] || nmt translate --run "$(short $direction)" --input \
      "$data/captions.${direction%-*}" --output "$folder/back.${direction#*-}" --set search.beam=1
  done
}
learn() {  # RUN DIRECTION UPDATES OPTION...
  local run=runs/$1 src=${2%-*} tgt=${2#*-} updates=$3
  local options=(--config multi30k.yaml --set data.direction="$2" --set data.dir=data/captions-"$2"
    --set data.root="$data" --set data.train="[{files: {$src: train.$src, $tgt: train.$tgt}, repeat: 2},
      {files: {$src: $folder/back.$src, $tgt: captions.$tgt}}]"
    --set model.d_ff=512 --set training.consistency=none --set training.optimizer=muon --set training.update_tokens=2048
    --set training.schedule=inverse_sqrt --set training.cooldown=0.3 --set training.warmup_steps=$((updates / 6))
    --set training.max_steps="$updates" --set training.validate_every_steps=$((updates / 6))
    --set training.max_minutes=null "${@:4}")
  nmt prepare "${options[@]}" --tokenizer-from "$(short de-en)"
  if [ -e "$run/run.json" ]; then nmt train --resume --run "$run"; else nmt train "${options[@]}" --run "$run"; fi
}
translation() {  # DIRECTION
  learn captions-"$1" "$1" "$updates" --set model.encoder_layers="$layers" --set model.decoder_layers="$layers"
}
language_model() {  # DIRECTION
  learn captions-lm-"${1#*-}" "$1" 1200 --set model.kind=decoder --set training.objective=causal \
    --set training.select_by=loss
}
rerank() {  # DIRECTION
  local src=${1%-*} tgt=${1#*-}
  local options=(--run runs/captions-"$1" --reverse runs/captions-"$tgt-$src" --lm runs/captions-lm-"$tgt"
    --weights-file "$folder/weights-$1.json")
  nmt rerank "${options[@]}" --tune --src "$data/val.$src" --ref "$data/val.$tgt"
  nmt rerank "${options[@]}" --src "$data/test_2016_flickr.$src" --output "$folder/reranked.$tgt"
  nmt translate --run runs/captions-"$1" --input "$data/test_2016_flickr.$src" --output "$folder/search.$tgt"
  nmt compare --hyp "$folder/search.$tgt" "$folder/reranked.$tgt" --ref "$data/test_2016_flickr.$tgt"
}
for step in "${steps[@]}"; do
  case $step in
    translate) translate ;;
    de-en | en-de) translation "$step" ;;
    lm-en) language_model de-en ;;
    lm-de) language_model en-de ;;
    rerank-*) rerank "${step#rerank-}" ;;
    *) echo "$0: no such step: $step" >&2; exit 2 ;;
  esac
done
