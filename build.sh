#!/usr/bin/env bash
# Sets up what is missing and builds Draftsmith into build/. test.sh and demo.sh call it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

./setup.sh
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-true}
# The preset treats warnings as errors; a folder that was configured before it did is configured again.
if [ ! -e build/build.ninja ] || ! grep -q '^DRAFTSMITH_WERROR:[A-Z]*=ON$' build/CMakeCache.txt; then
  cmake --preset release >build.log 2>&1 || { cat build.log >&2; exit 1; }
  rm -f build.log
fi
# ninja rewrites one line on a terminal, and a pipe gets only failures.
if [ -t 1 ]; then ninja -C build "$@"
else ninja -C build --quiet "$@"; fi
