#!/usr/bin/env bash
# Does a model translate "it" by the gender of a noun in the sentence before? Two models learn 8,000 made-up documents of
# two or three sentences, in which er, sie or es depends on the sentence before: with joined pairs (joined), and without
# (single), for the same updates. Contrastive pronouns of documents with other nouns and sentences are scored with 0 to 2
# lines of context, and the documents are translated with 2.
#   scripts/experiments/pronouns.sh          Everything is written to data/pronouns and runs/pronouns.
set -euo pipefail
runs=runs/pronouns data=data/pronouns
mkdir -p $data
python -m scripts.sample_corpus.documents $data/train
python -m scripts.sample_corpus.documents $data/test --documents 300 --seed 2 --held-out
common=(--config sample.yaml --data $data/prepared --set data.direction=en-de --set data.documents=true
  --set "data.train=[{files: {de: $PWD/$data/train.de, en: $PWD/$data/train.en}}]" --set tokenizer.vocab_size=1000
  --set training.max_steps="${UPDATES:-1500}" --set training.validate_every_steps=1500)
nmt prepare "${common[@]}"
for run in joined single; do
  options=()
  [ $run = single ] || options=(--set training.modifiers.join=0.8)
  if [ -e $runs/$run/run.json ]; then nmt train --resume --run $runs/$run; else
    nmt train --run $runs/$run "${common[@]}" "${options[@]}"
  fi
done
for context in 0 1 2; do
  echo "joined, context $context"
  nmt challenge --checkpoint last --run $runs/joined --src $data/test.en --ref $data/test.de --context $context
done
echo single
nmt challenge --checkpoint last --run $runs/single --src $data/test.en --ref $data/test.de
for options in "joined --set search.context=2" joined single; do
  read -ra words <<< "$options"
  echo "$options"
  nmt translate --checkpoint last --run "$runs/${words[0]}" "${words[@]:1}" --input $data/test.en --output "$data/${options// /_}.de"
  nmt evaluate --hyp "$data/${options// /_}.de" --ref $data/test.de
  python - "$data/${options// /_}.de" $data/test.de <<'PY'
import sys

pairs = [(one.split(), other.split()) for one, other in zip(*map(open, sys.argv[1:]), strict=True)]
asked = [(one[:1], other[:1]) for one, other in pairs if other[:1] and other[0] in ("Er", "Sie", "Es")]
print(f"pronouns as in the reference: {sum(one == other for one, other in asked)} of {len(asked)}")
PY
done
