#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kda_k1 with every name changed emits the same text up to names.

Usage: renamed.py KDAGEN SPEC.cpp. Every quoted identifier of the spec gets a suffix, which keeps alphabetical orders;
the emitted texts, without the suffix, header and margins, and with invented names numbered, must be equal.
"""
import os
import re
import subprocess
import sys
import tempfile

SUFFIX = "_zz"


def text_of(kdagen, spec, pass_name):
    command = [kdagen, "emit", spec, "--pass", pass_name]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = "\n".join(line for line in text.splitlines() if not line.startswith("//"))
    text = text.replace(SUFFIX, "")
    invented = {}  # how short they are cut depends on the length of others
    text = re.sub(r"\b_\w+", lambda match: invented.setdefault(match[0], f"_{len(invented) + 1}"), text)
    text = re.sub(r"\[[\w.]+:(\d+)\]", r"[spec:\1]", text)
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]


def main():
    kdagen, spec = sys.argv[1:3]
    with open(spec, encoding="utf-8") as file:
        source = file.read()
    renamed = re.sub(r'"([A-Za-z_]\w*)"', lambda match: f'"{match[1]}{SUFFIX}"', source)
    # Values that belong to the compiler keep their names.
    for word in ("none", "static", "subchunk", "anchor"):
        renamed = renamed.replace(f'"{word}{SUFFIX}"', f'"{word}"')
    renamed = re.sub(r"KDAGEN_SPEC\((\w+), (\w+)\)", rf"KDAGEN_SPEC(\1{SUFFIX}, \2)", renamed)
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "other_names.cpp")
        with open(path, "w", encoding="utf-8") as file:
            file.write(renamed)
        for pass_name in ("fwd", "bwd"):
            ours, theirs = text_of(kdagen, spec, pass_name), text_of(kdagen, path, pass_name)
            different = [(a, b) for a, b in zip(ours, theirs) if a != b]
            if different or len(ours) != len(theirs) or len(ours) < 100:
                failures += 1
                print(f"{pass_name}: {len(ours)} and {len(theirs)} lines, {len(different)} differ")
                for a, b in different[:5]:
                    print("  -", a, "\n  +", b)
    print("2 passes,", failures, "failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
