#!/usr/bin/env bash
# Which model for an hour or less? Trainings with Muon on the same text at about equal CPU seconds.
#   [SEED=1] [DECAY=0.1] scripts/experiments/presets.sh CONFIG DATA ARM...      DATA is the prepared data directory
# DECAY is the weight decay, by default that of CONFIG, as in the trainings until 2026-11-28.
# An ARM is WIDTH:LAYERS:TOKENS:DROPOUT:CONSISTENCY:UPDATES, such as 256:3:4096:0.1:none:700: width of the model, encoder
# layers and as many decoder layers, tokens and number of updates. Each is trained in runs/presets with one thread; the
# same command continues what was stopped. Then: python scripts/experiments/table.py runs/presets/*
set -euo pipefail
[ $# -ge 3 ] || { echo "$0: CONFIG, DATA and ARM are needed; the first lines of the script explain" >&2; exit 2; }
config=$1 data=$2 seed=${SEED:-1}
shift 2
export OMP_NUM_THREADS=1
for arm in "$@"; do
  IFS=: read -r width layers tokens dropout consistency updates <<< "$arm"
  run=runs/presets/$(basename "$data")-$arm-$seed${DECAY:+-decay$DECAY} resumed=()
  if [ -e "$run/run.json" ]; then resumed=(--resume); fi
  nmt train "${resumed[@]}" --config "$config" --data "$data" --run "$run" --set training.seed="$seed" \
    --set model.d_model="$width" --set model.d_ff=$((width * 4)) \
    --set model.encoder_layers="$layers" --set model.decoder_layers="$layers" \
    --set model.embedding_dropout="$dropout" --set model.residual_dropout="$dropout" --set training.optimizer=muon \
    --set training.consistency="$consistency" --set training.update_tokens="$tokens" --set training.ema=0.998 \
    --set training.schedule=inverse_sqrt --set training.cooldown=0.3 --set training.warmup_steps=$((updates / 6)) \
    --set training.peak_lr="$(python -c "print(5e-3 * (128 / $width) ** 0.5)")" --set training.max_steps="$updates" \
    --set training.validate_every_steps=$((updates / 3)) --set training.max_minutes=null \
    ${DECAY:+--set training.weight_decay="$DECAY"}
done
