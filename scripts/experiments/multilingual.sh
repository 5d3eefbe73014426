#!/usr/bin/env bash
# Is one model of six directions better than six models? One model learns Multi30k in four languages, to and from
# English, for 60 minutes (all); a model of each direction for ten minutes with the same settings (singles), and two of
# them for 60 with those of multi30k.yaml (long).
# The first model then continues for 20 minutes, to translate directly between languages of which it has no pairs
# (zero-shot): without anything new (control), with crossconst, with each language denoised to itself (denoise), and with
# 20,000 lines of English that it has translated, as pairs with the other languages (back). Direct translations are
# compared with those via English.
# Czech comes last (added): 40 minutes without it, then with it, and 2,500 pieces for it, to as many updates as all has
# (PIECES=10000: without pieces for it), and its pairs REPEAT times (1). Temperature (few): 29,000 pairs of de-en and
# 1,000 of cs-en for ten minutes, with data.direction_temperature 1 and 5, both at the same time with one thread each.
# With UPDATES=5400, all makes so many updates, three 56 % of them, the continuations 30 %, few 37 % and long 52 %, in
# place of 60, 40, 20, 10 and 60 minutes: comparisons at equal updates, which other work on the machine does not disturb.
#   scripts/experiments/multilingual.sh DATA [STEP...]     DATA has the four languages of Multi30k
# The steps are all, singles, long, control, crossconst, denoise, back, added, few, compare (the learned directions) and
# zero_shot (the others). Everything is written to data/multilingual and runs/multilingual. The same command continues
# what was stopped.
set -euo pipefail
[ $# -ge 1 ] || { echo "$0: DATA is needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1")
shift
steps=("$@")
[ $# -gt 0 ] || steps=(all singles long control crossconst denoise back added few compare zero_shot)
config=$(dirname "$0")/multilingual.yaml runs=runs/multilingual text=data/multilingual/text
directions=(de-en en-de fr-en en-fr cs-en en-cs) others=(de-fr fr-de de-cs cs-de fr-cs cs-fr)
mkdir -p $text
cp -n "$data"/{train,val,test_2016_flickr}.{en,de,fr,cs} $text
root=(--set data.root="$(realpath $text)")
list() { local IFS=,; echo "[$*]"; }
train() { # NAME OPTIONS...
  local run=$runs/$1
  shift
  if [ -e "$run/run.json" ]; then nmt train --resume --run "$run"; else nmt train --run "$run" "$@"; fi
}
budget() { # MINUTES PERCENT
  if [ -z "${UPDATES:-}" ]; then echo "--set training.max_minutes=$1"; return; fi
  echo "--set training.max_minutes=null --set training.max_steps=$((UPDATES * $2 / 100))"
  echo "--set training.warmup_steps=$((UPDATES / 7)) --set training.validate_every_steps=$((UPDATES / 6))"
}
files() { # PREFIX LANGUAGE...
  local prefix=$1 language names=()
  shift
  for language; do names+=("$language: $prefix.$language"); done
  echo "files: {$(list "${names[@]}" | tr -d '[]')}"
}
single() { # NAME DIRECTION OPTIONS...
  local src=${2%-*} tgt=${2#*-}
  local options=("${root[@]}" --set data.direction="$2" --set "data.train=[{$(files train "$src" "$tgt")}]"
    --set "data.valid={$(files val "$src" "$tgt")}" --set "data.test={flickr: {$(files test_2016_flickr "$src" "$tgt")}}"
    --set tokenizer.vocab_size=8000 --data "data/multilingual/$2" "${@:3}")
  nmt prepare "${options[@]}"
  train "$1" "${options[@]}"
}
all() {
  nmt prepare --config "$config" "${root[@]}"
  train all --config "$config" "${root[@]}" $(budget 60 100)
}
singles() {
  local one=(--config "$config" --set "data.languages=[]" --set "data.directions=[]")
  for direction in "${directions[@]}"; do
    single "$direction" "$direction" "${one[@]}" --set training.warmup_steps=200 --set training.max_minutes=10
  done
}
long() {
  for direction in de-en en-fr; do
    single "$direction-long" "$direction" --config multi30k.yaml --set training.optimizer=adamw $(budget 60 52)
  done
}
continued() { # NAME START OPTIONS...
  train "$1" --config "$config" "${root[@]}" --init-from "$runs/$2" $(budget 20 30) \
    --set training.peak_lr=5e-4 --set training.warmup_steps=100 "${@:3}"
}
control() { continued control all; }
crossconst() { continued crossconst all --set training.consistency=crossconst; }
denoise() { # the noise is a language of its own
  local language split noised=() options
  for language in en de fr cs; do
    for split in train val test_2016_flickr; do
      python -m scripts.experiments.noise < "$text/$split.$language" > "$text/$split.${language}_noised"
    done
    noised+=("${language}_noised")
  done
  local pairs=()
  for language in en de fr cs; do pairs+=("${language}_noised-$language"); done
  options=(--data data/multilingual/denoise --set data.languages="$(list en de fr cs "${noised[@]}")"
    --set data.directions="$(list "${directions[@]}" "${pairs[@]}")"
    --set "data.train=[{$(files train en de fr cs)}, {$(files train en en_noised)}, {$(files train de de_noised)},
      {$(files train fr fr_noised)}, {$(files train cs cs_noised)}]"
    --set "data.valid={$(files val en de fr cs "${noised[@]}")}"
    --set "data.test={flickr: {$(files test_2016_flickr en de fr cs "${noised[@]}")}}")
  nmt prepare --config "$config" "${root[@]}" "${options[@]}" --tokenizer-from $runs/all
  continued denoise all "${options[@]}"
}
back() {
  local language direction sources=("{$(files train en de fr cs)}")
  for language in de fr cs; do
    head -20000 "$text/train.$language" > "$text/real.$language"
    [ -e "$text/made.$language" ] || head -20000 $text/train.en |
      nmt translate --run $runs/all --to $language --from en --beam 1 --output "$text/made.$language"
  done
  for direction in "${others[@]}"; do
    sources+=("{files: {${direction%-*}: made.${direction%-*}, ${direction#*-}: real.${direction#*-}}}")
  done
  local options=(--data data/multilingual/back --set data.directions="$(list "${directions[@]}" "${others[@]}")"
    --set data.train="$(list "${sources[@]}")")
  nmt prepare --config "$config" "${root[@]}" "${options[@]}" --tokenizer-from $runs/all
  continued back all "${options[@]}"
}
updates() { tail -n 1 "$runs/$1/log.jsonl" | python -c 'import json; print(json.loads(input())["step"])'; }
added() {
  local three=(--data data/multilingual/three --set data.languages="[de, en, fr]"
    --set data.directions="$(list de-en en-de fr-en en-fr)" --set "data.train=[{$(files train en de fr)}]"
    --set "data.valid={$(files val en de fr)}" --set "data.test={flickr: {$(files test_2016_flickr en de fr)}}")
  nmt prepare --config "$config" "${root[@]}" "${three[@]}"
  train three --config "$config" "${root[@]}" "${three[@]}" $(budget 40 56)
  local pieces=(--set tokenizer.vocab_size="${PIECES:-12500}"
    --set "data.train=[{$(files train en de fr)}, {$(files train cs en), repeat: ${REPEAT:-1}}]")
  nmt prepare --config "$config" "${root[@]}" "${pieces[@]}" --data data/multilingual/added \
    --tokenizer-from $runs/three
  train added --config "$config" "${root[@]}" "${pieces[@]}" --data data/multilingual/added --init-from $runs/three \
    --set training.max_minutes=null --set training.max_steps=$(($(updates all) - $(updates three))) \
    --set training.peak_lr=1e-3 --set training.warmup_steps=100
}
few() {
  head -1000 $text/train.cs > $text/few.cs
  head -1000 $text/train.en > $text/few.en
  local temperature pid pids=() options=(--config "$config" "${root[@]}" --data data/multilingual/few
    --set data.languages="[cs, de, en]" --set data.directions="[de-en, cs-en]"
    --set "data.train=[{$(files train de en)}, {$(files few cs en)}]" --set "data.valid={$(files val en de cs)}"
    --set "data.test={flickr: {$(files test_2016_flickr en de cs)}}" $(budget 10 37) --set training.warmup_steps=100)
  nmt prepare "${options[@]}"
  for temperature in 1 5; do
    OMP_NUM_THREADS=1 train "few-$temperature" "${options[@]}" --set data.direction_temperature=$temperature &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
}
compare() {
  local direction run
  for direction in "${directions[@]}"; do
    for run in "$direction" "$direction-long" added; do
      [ ! -e "$runs/$run/selected.json" ] ||
        nmt compare $runs/all "$runs/$run" --split flickr --to "${direction#*-}" --from "${direction%-*}"
    done
  done
  [ ! -e $runs/few-5/selected.json ] || nmt compare $runs/few-1 $runs/few-5 --split flickr
}
zero_shot() {
  local direction src tgt run via
  for direction in "${others[@]}"; do
    src=${direction%-*} tgt=${direction#*-}
    for run in all control crossconst denoise back; do
      [ -e "$runs/$run/selected.json" ] || continue
      for via in "" "--via en"; do
        nmt evaluate --run $runs/$run --to "$tgt" --from "$src" $via --src "$text/test_2016_flickr.$src" \
          --ref "$text/test_2016_flickr.$tgt"
      done
    done
  done
}
for step in "${steps[@]}"; do $step; done
