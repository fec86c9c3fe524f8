#!/usr/bin/env bash
# Builds the attention library alone with a sanitizer and runs its tests:  tests/sanitizer.sh address,undefined FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sanitizer=$1 folder=$2
cmake -S src/flex -B "$folder" -G Ninja -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS="-fsanitize=$sanitizer -fno-sanitize-recover=all -fno-omit-frame-pointer -g1" \
  >"$folder.log" 2>&1 || { cat "$folder.log" >&2; exit 1; }
ninja -C "$folder" --quiet flex_test
# The thread sanitizer only runs the tests of threads; the rest would take minutes.
if [ "$sanitizer" = thread ]; then exec "$folder/flex_test" --gtest_brief=1 --gtest_filter='*Threads*:Executor.*'; fi
exec "$folder/flex_test" --gtest_brief=1
