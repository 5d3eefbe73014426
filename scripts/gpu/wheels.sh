#!/usr/bin/env bash
# Download what scripts/gpu/check.py needs beside PyTorch, in the versions that are installed here: wheels for Linux x86-64.
#   PATH=.venv/bin:$PATH scripts/gpu/wheels.sh [PYTHON VERSION]       3.12 unless given; they go to build/gpu-wheels
# On a machine that has PyTorch but no network, copy the repository and build/gpu-wheels there, and run
#   python -m scripts.gpu.check --wheels build/gpu-wheels --output found.jsonl
set -euo pipefail
wheels=build/gpu-wheels
mkdir -p "$wheels"
python -m pip freeze --exclude-editable >build/installed.txt
python -m pip download --quiet --no-deps --only-binary=:all: --python-version "${1:-3.12}" \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
    --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
    -d "$wheels" -c build/installed.txt -r "$(dirname "$0")/wheels.txt"
