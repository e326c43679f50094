# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts of this folder: the tree's root, messages with the time taken, job count, CUDA environment.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${KDAGEN_BUILD_DIR:-$root/build}
cd "$root"

say() { printf '[%d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*" >&2; }
fail() {
  say "error: $*"
  exit 1
}

# One job a core, but never more than one for each GiB of free memory: a large MLIR file takes up to 0.8 GiB.
job_count() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
  echo "${KDAGEN_JOBS:-$((memory < 1 ? 1 : memory < cores ? memory : cores))}"
}

# KDAGEN_NVCC and KDAGEN_NVRTC as tools/setup found them.
load_cuda_environment() {
  if [ -f "$root/.cache/cuda.env" ]; then
    # shellcheck disable=SC1091
    source "$root/.cache/cuda.env"
  fi
}

has_gpu() { compgen -G '/dev/nvidia[0-9]*' >/dev/null || nvidia-smi -L >/dev/null 2>&1; }

# configure_tree [CMAKE ARGUMENTS...]
configure_tree() {
  say "configuring into ${build#"$root"/}"
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@" >"$build.configure.log" 2>&1 || {
    cat "$build.configure.log" >&2
    fail "cmake failed"
  }
  mv "$build.configure.log" "$build/configure.log"
}
