#!/usr/bin/env bash
# TED talks on one GPU: prepare and train with the settings of iwslt14.yaml.
#   scripts/experiments/ted_gpu.sh DATA [OPTION...]        DATA has train, valid and test in de and en
# OPTIONs go to `nmt train`, such as --set training.max_minutes=4; the run is runs/ted-gpu.
set -euo pipefail
[ $# -ge 1 ] || { echo "$0: DATA is needed; the first lines of the script explain" >&2; exit 2; }
data=$(realpath "$1")
shift
common=(--config iwslt14.yaml --data data/prepared/ted-gpu --set data.root="$data"
  --set 'data.train=[{files: {de: train.de, en: train.en}}]' --set 'data.valid={files: {de: valid.de, en: valid.en}}'
  --set 'data.test={test: {files: {de: test.de, en: test.en}}}')
nmt prepare "${common[@]}"
nmt train "${common[@]}" --run runs/ted-gpu "$@"
