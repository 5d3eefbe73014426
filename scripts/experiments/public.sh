#!/usr/bin/env bash
# What is adapting a public model worth, and what does it forget? A Marian model with random weights is imported, learns
# all text but the domain (libreoffice) for MINUTES (90), and is exported to transformers: that directory is the public
# model from there on. It is imported again and adapted for ten minutes with the settings of configs/adapt.yaml: to the
# domain and general text (adapted), to the domain only (alone), and with a cut vocabulary (adapted-cut). A model is
# trained from random weights in the same minutes (scratch). A student of the adapted model learns from 46,000 lines for
# STUDENT_MINUTES (24).
#   scripts/experiments/public.sh DATA [STEP...]     DATA has the corpora of general.yaml
# The steps are public, adapt, scratch, cut, student, alone, compare and calibrate. Everything is written to data/public
# and runs/public. The same command continues what was stopped.
set -euo pipefail
[ $# -ge 1 ] || { echo "$0: DATA is needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1")
shift
steps=("$@")
[ $# -gt 0 ] || steps=(public adapt scratch cut student alone compare calibrate)
here=$(dirname "$0") text=data/public/text runs=runs/public
train() { # NAME CONFIG OPTIONS...
  local run=$runs/$1 config=$2
  shift 2
  [ ! -e "$run/run.json" ] || set -- --resume
  [ "${1-}" = --resume ] || set -- --config "$config" "$@"
  nmt train --run "$run" "$@"
}
public() {
  [ -e $text ] || python -m scripts.experiments.public "$data" $text "${WIDTH:-256}" "${LAYERS:-3}"
  [ -e $runs/random ] || nmt import $text/marian --run $runs/random
  nmt prepare --config "$here/public.yaml" --tokenizer-from $runs/random
  train general "$here/public.yaml" --set training.max_minutes="${MINUTES:-90}"
  [ -e $runs/model ] || nmt export --run $runs/general --format transformers --output $runs/model
  [ -e $runs/public ] || nmt import $runs/model --run $runs/public
  [ -e $runs/cut ] || nmt import $runs/model --keep-pieces-of $text/domain-some.de \
    --keep-pieces-of $text/domain-some.en --run $runs/cut
}
adapt() {
  nmt prepare --config "$here/public-adapt.yaml" --tokenizer-from $runs/public
  train adapted "$here/public-adapt.yaml" --init-from $runs/public
}
scratch() {
  nmt prepare --config "$here/public-scratch.yaml"
  train scratch "$here/public-scratch.yaml" --set model.d_model="${WIDTH:-256}" --set model.d_ff=$((4 * ${WIDTH:-256}))
}
cut() {
  nmt prepare --config "$here/public-adapt.yaml" --tokenizer-from $runs/cut --data data/public/cut
  train adapted-cut "$here/public-adapt.yaml" --init-from $runs/cut --data data/public/cut
}
student() {
  cat $text/domain-train.de <(shuf -n 15000 --random-source=$text/general.de $text/general.de) > data/public/mono.de
  nmt distil --teacher $runs/adapted --student tiny --mono data/public/mono.de --test-src $text/domain-test.de \
    --test-ref $text/domain-test.en --output data/public/student --beam 2 --train \
    --set training.max_minutes="${STUDENT_MINUTES:-24}" --set data.valid=500
}
alone() {
  local data=(--set 'data.train=[{files: {de: domain-train.de, en: domain-train.en}}]' --data data/public/alone)
  nmt prepare --config "$here/public-adapt.yaml" --tokenizer-from $runs/public "${data[@]}"
  train alone "$here/public-adapt.yaml" --init-from $runs/public "${data[@]}"
}
compare() { # files of translations, since the runs have different tokenizers
  local test run hyps pair one other out=data/public/translations
  mkdir -p $out
  for test in domain-test tatoeba-test europarl-test newstest2014; do
    hyps=()
    for run in public adapted scratch adapted-cut alone; do
      [ -e $runs/$run ] || continue
      hyps+=("$out/$run.$test.en")
      [ -e "$out/$run.$test.en" ] || nmt translate --run $runs/$run --input $text/$test.de --output "$out/$run.$test.en"
    done
    nmt compare --hyp "${hyps[@]}" --ref $text/$test.en
    for pair in "scratch adapted" "adapted adapted-cut"; do
      read -r one other <<< "$pair"
      [ ! -e "$out/$other.$test.en" ] || nmt compare --hyp "$out/$one.$test.en" "$out/$other.$test.en" --ref $text/$test.en
    done
  done
}
calibrate() { # confidence on captions, and on the domain
  nmt calibrate --run $runs/adapted --src "$data/multi30k/val.de" --ref "$data/multi30k/val.en"
  nmt calibrate --run $runs/adapted --src $text/domain-test.de --ref $text/domain-test.en \
    --plot data/public/reliability.png
}
for step in "${steps[@]}"; do $step; done
