#!/usr/bin/env bash
# Builds Draftsmith and runs its tests: unit tests, golden numbers, style, the integration tests with the real model.
# Sets up what is missing first; arguments go to ctest, e.g. `./test.sh -R BlockMask`.
#
#   ./test.sh           runs all tests but those that judge time or memory (ctest's label bars)
#   ./test.sh --bars    runs only those, one after the other; the machine should be idle
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

./build.sh
run() { ctest --test-dir build --output-on-failure --no-tests=error "$@"; }
if [ "${1:-}" = --bars ]; then
  run -L '^bars$' -j1 "${@:2}"
  exit
fi
skipped=$(ctest --test-dir build -N -L '^bars$' "$@" | sed -n 's/^ *Test *#[0-9]*: *//p' | sort -u | tr '\n' ' ')
[ -z "$skipped" ] || echo "skipped, since they judge time or memory (./test.sh --bars runs them): $skipped"
run -LE '^bars$' "$@"
