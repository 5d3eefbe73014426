#!/usr/bin/env bash
# Does a model do what its tags say? It learns speeches of the European Parliament with the tag domain=news and software
# texts with domain=help for 25 minutes, and translates test sets of both with the right tag, the wrong one and none.
#   scripts/experiments/tags.sh DATA     DATA has the corpora of general.yaml
# Everything is written to data/tags and runs/tags. The same command continues what was stopped.
set -euo pipefail
[ $# -eq 1 ] || { echo "$0: DATA is needed; the first lines of the script explain" >&2; exit 2; }
here=$(dirname "$0") text=data/tags/text run=runs/tags
[ -e $text ] || python -m scripts.experiments.public "$1" $text
for language in de en; do
  head -n -1000 "$1/europarl/train.$language" > $text/europarl-train.$language
done
nmt prepare --config "$here/tags.yaml"
if [ -e $run/run.json ]; then nmt train --resume --run $run; else nmt train --config "$here/tags.yaml"; fi
for file in europarl domain; do
  for tag in news help; do
    nmt translate --run $run --tag domain=$tag --input $text/$file-test.de --output data/tags/$file.$tag.en
  done
  nmt translate --run $run --input $text/$file-test.de --output data/tags/$file.none.en
done
nmt compare --hyp data/tags/europarl.{news,help,none}.en --ref $text/europarl-test.en
nmt compare --hyp data/tags/domain.{help,news,none}.en --ref $text/domain-test.en
