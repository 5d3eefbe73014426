#!/usr/bin/env bash
# Install a wheel into empty environments, without the repository, and use it as a newcomer would (minutes each).
#   scripts/checks/dist.sh dist/nmt_train-*.whl [PYTHON…]      by default python3
# TORCH is the requirement of torch that is installed first, TORCH_INDEX an index that has its small CPU build.
set -euo pipefail
[ $# -ge 1 ] || { echo "$0: WHEEL is needed; the first lines of the script explain" >&2; exit 2; }
wheel=$(realpath "$1")
shift
unset PYTHONPATH VIRTUAL_ENV
for python in "${@:-python3}"; do
  work=$(mktemp -d)
  server=
  trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
  "$python" -m venv "$work/env"
  bin=$work/env/bin
  "$bin/pip" install --quiet --no-compile ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} "${TORCH:-torch}"
  "$bin/pip" install --quiet --no-compile "$wheel[serve]"
  mkdir "$work/folder"
  cd "$work/folder"
  "$bin/nmt" --version
  "$bin/nmt" --help > /dev/null
  "$bin/nmt" config --explain training.peak_lr > /dev/null
  "$bin/nmt" demo < /dev/null
  [ "$(echo 'Ich sehe gern fern.' | "$bin/nmt" translate | wc -l)" = 1 ]
  "$bin/nmt" serve --run runs/demo --port 0 > serve.log 2>&1 &
  server=$!
  for _ in $(seq 60); do
    grep -q 'http://' serve.log && break
    sleep 1
  done
  url=$(grep -o 'http://[0-9.:]*' serve.log | head -n 1)
  "$bin/python" - "$url" <<'CODE'
import json, sys, urllib.request
body = json.dumps({"q": "Ich sehe gern fern.", "source": "de", "target": "en"}).encode()
request = urllib.request.Request(f"{sys.argv[1]}/translate", body, {"Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(request))["translatedText"])
CODE
  kill "$server"
  wait "$server" || true
  server=
  cd /
  rm -rf "$work"
  echo "$("$python" --version): the wheel is complete"
done
