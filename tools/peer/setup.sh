#!/usr/bin/env bash
# Makes the Python environment of the comparison with SpecForge, once, and prints the path of its Python:
#
#   python=$(tools/peer/setup.sh)      # about 5 GB on disk; later runs only print
#
# It is in peer-<hash of requirements.txt>, beside what ./setup.sh installs ($DRAFTSMITH_DEPS, default
# ~/.cache/draftsmith).
# Neither building, testing nor running Draftsmith needs it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

say() { printf 'setup: %s\n' "$*" >&2; }

if [ -n "${DRAFTSMITH_DEPS:-}" ]; then base=$DRAFTSMITH_DEPS
elif [ -n "${XDG_CACHE_HOME:-}" ]; then base=$XDG_CACHE_HOME/draftsmith
elif [ -n "${HOME:-}" ]; then base=$HOME/.cache/draftsmith
else base=$root/.cache; fi
venv=$base/peer-$(sha256sum <"$here/requirements.txt" | cut -c1-12)

[ "$(uname -m)" = x86_64 ] || { say "the pinned wheels are for x86-64, this machine is $(uname -m)"; exit 1; }
mkdir -p "$base"
exec 9>"$venv.lock"
flock 9
if [ ! -e "$venv/done" ]; then
  /usr/bin/python3 -c 'import sys, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null ||
    { say "needs Python 3.11 with venv as /usr/bin/python3 (Debian 12: apt install python3 python3-venv)"; exit 1; }
  say "installing PyTorch, transformers and SpecForge into $venv (about 2 GB to fetch)"
  rm -rf "$venv"
  /usr/bin/python3 -m venv "$venv"
  # Every package is listed with its hash, so nothing is resolved and specforge's own requirements (a serving stack)
  # stay out.
  "$venv/bin/python" -m pip --disable-pip-version-check -q install --no-deps --require-hashes \
    -r "$here/requirements.txt" >&2
  touch "$venv/done"
fi
echo "$venv/bin/python"
