#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Takes the first shipped spec, its workload and its checked-in texts out of a copy of the tree: the rest builds, and all
# tests but those of this spec pass. Usage: without_spec.sh SOURCE_FOLDER [NAME=VALUE of CMake...]
set -euo pipefail
source=$1
shift
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
(cd "$source" && git ls-files -co --exclude-standard -z | tar --null -T - -cf -) | tar -xf - -C "$copy"
cd "$copy"
rm specs/kda_k1.cpp specs/workloads/kda_* generated/*/kda_k1_* tests/emit/golden/kda_k1_*
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release "${@/#/-D}"
cmake --build build --parallel
ctest --test-dir build --label-exclude '^(slow|gpu)$' --no-tests=error --output-on-failure --timeout 900
