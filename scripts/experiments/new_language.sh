#!/usr/bin/env bash
# What does a language gain that is added to a public model, and what do the others lose? A model in NLLB's layout learns
# Multi30k in German, English and French for PUBLIC_MINUTES (60), and is exported to transformers: that directory is the
# public model from there on; its vocabulary lacks most Czech letters. Czech is added with 5,000 pairs and English, for
# MINUTES (20) each, three seeds each, beside 4,000 lines of the known languages: with letters (letters), with letters and
# 500 pieces (pieces), and from random weights (scratch). One seed each: without letters (bare), with a tag that starts
# at random (untagged), without the known languages (alone), a share of the public model's weights in the final ones
# (share), and 1,000 and 20,000 pairs. UPDATES instead of minutes makes the runs alike on a machine that others use.
#   scripts/experiments/new_language.sh MULTI30K [STEP...]     MULTI30K has cs, de, en and fr
# The steps are public, letters, pieces, scratch, bare, untagged, alone, share, sizes and compare. Everything is written to
# data/new_language and runs/new_language. The same command continues what was stopped.
set -euo pipefail
[ $# -ge 1 ] || { echo "$0: MULTI30K is needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1")
shift
steps=("$@")
[ $# -gt 0 ] || steps=(public letters pieces scratch bare untagged alone share sizes compare)
here=$(dirname "$0") text=data/new_language/text runs=runs/new_language config=$(dirname "$0")/new_language.yaml
directions=(ces_Latn-en en-ces_Latn de-en en-de fr-en en-fr)
train() { # NAME DATA OPTIONS...
  local run=$runs/$1 prepared=data/new_language/$2 limit=(--set training.max_minutes="${MINUTES:-20}")
  shift 2
  [ -z "${UPDATES:-}" ] || limit=(--set training.max_minutes=null --set training.max_steps="$UPDATES")
  if [ -e "$run/run.json" ]; then
    nmt train --resume --run "$run"
  else
    nmt train --run "$run" --data "$prepared" "${limit[@]}" "$@"
  fi
}
added() { # NAME DATA OPTIONS..., from the public model
  train "$1" "$2" --config "$config" --init-from $runs/model "${@:3}"
}
prepared() { # NAME OPTIONS...
  local name=$1
  nmt prepare --config "$config" --tokenizer-from $runs/model --data "data/new_language/$name" "${@:2}"
}
seeds() { # STEP DATA OPTIONS...
  local seed
  for seed in 1 2 3; do added "$1-$seed" "$2" --set training.seed=$seed "${@:3}"; done
}
public() {
  [ -e $text ] || python -m scripts.experiments.new_language "$data" $text "${WIDTH:-128}" "${LAYERS:-4}"
  [ -e $runs/random ] || nmt import $text/nllb --languages de,en,fr --run $runs/random
  nmt prepare --config "$here/new_language-public.yaml" --tokenizer-from $runs/random
  MINUTES=${PUBLIC_MINUTES:-60} train public public --config "$here/new_language-public.yaml"
  [ -e $runs/exported ] || nmt export --run $runs/public --format transformers --output $runs/exported
  [ -e $runs/model ] || nmt import $runs/exported --languages de,en,fr --run $runs/model
}
letters() { prepared letters; seeds letters letters; }
pieces() {
  prepared pieces --set tokenizer.vocab_size=$(($(n_pieces) + 500))
  seeds pieces pieces --set tokenizer.vocab_size=$(($(n_pieces) + 500))
}
n_pieces() { # of the public model and the letters of Czech
  sed -n 's/^ *vocab_size: //p' $runs/model/config.yaml
}
scratch() { # [PAIRS SEEDS OPTIONS...]
  local seed n=${1:-5000} name=scratch options=(--set tokenizer.vocab_size=4000 --set 'tokenizer.like={}'
    --set training.init_from=null "${@:3}")
  [ "$n" = 5000 ] || name=scratch-$n
  nmt prepare --config "$config" --data "data/new_language/$name" "${options[@]}"
  for seed in $(seq "${2:-3}"); do
    train "$name-$seed" "$name" --config "$config" "${options[@]}" --set training.seed="$seed" \
      --set model.d_model="${WIDTH:-128}" --set model.d_ff=$((4 * ${WIDTH:-128})) --set model.n_heads=4 \
      --set model.encoder_layers="${LAYERS:-4}" --set model.decoder_layers="${LAYERS:-4}"
  done
}
bare() { # under the name of a language that the model knows only by its tag, for which no letters are added
  local options=(--set data.languages="[slk_Latn, de, en, fr]" --set 'tokenizer.like={}'
    --set data.directions="[slk_Latn-en, en-slk_Latn, de-en, en-de, fr-en, en-fr]"
    --set data.train.0.files="{slk_Latn: train-5000.cs, en: train-5000.en}"
    --set data.valid.files="{slk_Latn: valid.cs, de: valid.de, en: valid.en, fr: valid.fr}"
    --set data.test.flickr.files="{slk_Latn: test.cs, de: test.de, en: test.en, fr: test.fr}")
  prepared bare "${options[@]}"
  added bare-1 bare "${options[@]}"
}
untagged() { added untagged-1 letters --set 'tokenizer.like={}'; }
share() { added share-1 letters --set training.start_share=0.3; }
alone() {
  local options=(--set data.languages="[ces_Latn, en]" --set data.directions="[ces_Latn-en, en-ces_Latn]"
    --set 'data.train=[{files: {ces_Latn: train-5000.cs, en: train-5000.en}}]'
    --set data.valid.files="{ces_Latn: valid.cs, en: valid.en}" --set data.test.flickr.files="{ces_Latn: test.cs, en: test.en}")
  prepared alone "${options[@]}"
  added alone-1 alone "${options[@]}"
}
sizes() {
  local n source
  for n in 1000 20000; do
    source=(--set data.train.0.files="{ces_Latn: train-$n.cs, en: train-$n.en}")
    prepared "letters-$n" "${source[@]}"
    added "letters-$n-1" "letters-$n" "${source[@]}"
    scratch "$n" 1 "${source[@]}"
  done
}
compare() { # files of translations, since the runs have different tokenizers
  local direction src tgt run name options out=data/new_language/translations
  mkdir -p $out
  for direction in "${directions[@]}"; do
    src=${direction%-*} tgt=${direction#*-}
    local groups=() single=("$out/letters-1.$direction")
    for run in $runs/*-[123] $runs/model; do
      name=$(basename "$run")
      [ -e "$run/selected.json" ] || continue
      case "$name,$direction" in alone-*,*de* | alone-*,*fr* | model,*ces*) continue ;; esac
      translated "$run" "$src" "$tgt" "$out/$name.$direction"
      case $name in
        letters-1 | letters-[23] | pieces-* | scratch-[123]) ;;
        *) single+=("$out/$name.$direction") ;;
      esac
    done
    for name in letters pieces scratch; do
      groups+=("$name=$out/$name-1.$direction,$out/$name-2.$direction,$out/$name-3.$direction")
    done
    options=(--ref "$text/test.${tgt/ces_Latn/cs}" --metrics bleu,chrf --format markdown)
    echo "$direction"
    nmt compare --group "${groups[@]}" --baseline letters "${options[@]}"
    nmt compare --hyp "${single[@]}" "${options[@]}"
  done
}
translated() { # RUN SOURCE TARGET FILE
  [ ! -e "$4" ] || return 0
  local src=$2 tgt=$3
  case "$1" in */bare-*) src=${src/ces/slk} tgt=${tgt/ces/slk} ;; esac
  nmt translate --run "$1" --from "$src" --to "$tgt" --input "$text/test.${2/ces_Latn/cs}" --output "$4"
}
for step in "${steps[@]}"; do $step; done
