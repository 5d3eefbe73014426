#!/usr/bin/env bash
# Bidirectional pre-training (Bi-SimCut, Gao et al., 2022): one model learns a corpus in both directions, which is twice
# the text, and is then trained on in one direction alone, with a schedule that begins anew.
#   scripts/bidirectional.sh CONFIG BOTH ONE [--set KEY=VALUE]...
# CONFIG    a config with a joint vocabulary, whose data nmt prepare has prepared
# BOTH ONE  how long each stage is: 6000 steps, or 30m, minutes, if the config's max_steps do not end it before; minutes
#           cut a linear or cosine schedule off, so give steps with these
# --set     changes both stages
# Example:
#   scripts/bidirectional.sh multi30k.yaml 8000 8000
# The runs are runs/NAME-both and runs/NAME-both-DIRECTION, NAME being the config's: for other settings beside them copy it
# under another name. Called again it goes on where it was stopped; called with --set data.direction=en-de after de-en, it
# takes the run of the first stage that is there.
set -euo pipefail

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; }
refuse() {
    echo "bidirectional.sh: $1; --help explains" >&2
    exit 2
}
limit() {
    case $1 in
        *[!0-9m]* | m* | *m?* | "") refuse "'$1' is no length of a stage: write 6000 for steps or 30m for minutes" ;;
        *m) echo "training.max_minutes=${1%m}" ;;
        *) echo "training.max_steps=$1 training.max_minutes=null" ;;
    esac
}
# stage RUN LIMIT OPTIONS...: a new run, or the rest of one that was begun with the same settings
stage() {
    local run=$1 limits=$2 resumed=()
    shift 2
    if [ -f "$run/run.json" ]; then resumed=(--resume); fi
    for limit in $limits; do set -- --set "$limit" "$@"; done
    nmt train "${resumed[@]}" --run "$run" "${settings[@]}" "$@"
}

direction_of() { nmt config "$@" | sed -n 's/^  direction: //p'; }

case ${1:-} in -h | --help) usage && exit 0 ;; esac
[ $# -ge 3 ] || refuse "CONFIG, BOTH and ONE are needed"
config=$1
both=$(limit "$2")
one=$(limit "$3")
shift 3
settings=(--config "$config" "$@")
direction=$(direction_of "${settings[@]}")
[ -n "$direction" ] || refuse "nmt config prints no direction"
name=$(basename "$config" .yaml)

first=$direction # the direction that the first stage was begun for; it has learned both
if [ -f "runs/$name-both/run.json" ]; then first=$(direction_of --config "runs/$name-both/config.yaml"); fi
stage "runs/$name-both" "$both" --set training.both_directions=true --set "data.direction=$first"
stage "runs/$name-both-$direction" "$one" --init-from "runs/$name-both"
