#!/usr/bin/env bash
# Builds Draftsmith and runs all its tests: unit tests, golden numbers, and the integration tests with the real model.
# Sets up what is missing first; arguments go to ctest, e.g. `./test.sh -R BlockMask`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

./build.sh
ctest --test-dir build --output-on-failure --no-tests=error "$@"
