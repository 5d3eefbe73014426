#!/usr/bin/env bash
# Does a tag keep a model from forgetting? A small model learns everyday sentences for MINUTES (13). It is adapted to
# software texts in ADAPT (8) minutes, with everyday sentences beside them: the software texts with a tag (tagged), or
# without (plain). The scores of all three on both kinds of text are compared.
#   scripts/experiments/forgetting.sh DATA     DATA has the corpora of general.yaml
# Everything is written to data/tags/text, data/forgetting and runs/forgetting.
set -euo pipefail
[ $# -eq 1 ] || { echo "$0: DATA is needed; the first lines of the script explain" >&2; exit 2; }
here=$(dirname "$0") text=data/tags/text data=data/forgetting runs=runs/forgetting
[ -e $text ] || python -m scripts.experiments.public "$1" $text
for language in de en; do
  cat "$1"/{tatoeba,multi30k}/train.$language > $text/everyday.$language
done
files() { echo "files: {de: $1.de, en: $1.en}"; }
start=(--config "$here/tags.yaml" --data $data/start --set "data.train=[{$(files everyday)}]"
  --set "data.valid={$(files tatoeba-valid)}" --set "data.test={everyday: {$(files tatoeba-test)}}")
adapt() { # RUN TAGS: tags of the software texts, as an entry of a mapping, or nothing
  local options=(--config "$here/public-adapt.yaml" --data "$data/$1" --set data.root=$text
    --set "data.train=[{$(files domain-train), weight: 1$2}, {$(files everyday), weight: 1}]"
    --set "data.valid={$(files domain-valid)$2}"
    --set "data.test={software: {$(files domain-test)$2}, everyday: {$(files tatoeba-test)}}")
  nmt prepare "${options[@]}" --tokenizer-from $runs/start
  nmt train "${options[@]}" --init-from $runs/start --run "$runs/$1" --set training.max_minutes="${ADAPT:-8}" \
    --set training.watch=[everyday] --set training.start_share=0
}
nmt prepare "${start[@]}"
nmt train "${start[@]}" --run $runs/start --set training.max_minutes="${MINUTES:-13}"
adapt tagged ', tags: {domain: software}'
adapt plain ''
for split in software everyday; do
  nmt compare $runs/start $runs/tagged $runs/plain --data $data/tagged --split $split
done
nmt evaluate --run $runs/tagged --split software --set 'search.tags=[]'
