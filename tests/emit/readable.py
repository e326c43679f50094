#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checked-in kernels read well: the header says by formulas what is computed, and invented names say what they name.

Usage: readable.py FOLDER_OF_GENERATED_TEXTS
"""
import json
import re
import sys
from pathlib import Path


def complaints(text, manifest):
    lines = text.splitlines()
    header = lines[: next(i for i, line in enumerate(lines) if not line.startswith("//"))]
    formulas = header[header.index("//") + 1 :] if "//" in header else []
    defined = {match[1] for line in formulas if (match := re.match(r"//   (\w+) = ", line))}
    for tensor in manifest["tensors"]:
        if tensor["direction"] == "out" and tensor["name"] not in defined:
            yield f"the header has no formula for {tensor['name']}"
    for line in formulas:
        if len(line) > 115:
            yield f"a line of the header has {len(line)} columns: {line}"
    for name in sorted(set(re.findall(r"\b_\w+\b", "\n".join(lines[len(header) :])))):
        if re.fullmatch(r"_[0-9]+\w*", name):
            yield f"the name {name} says nothing"
        if len(name) > 24 + len("_sum_partial_2"):
            yield f"the name {name} is too long"


def main():
    found, count = [], 0
    for path in sorted(Path(sys.argv[1]).rglob("*.cu")):
        manifest = json.loads(path.with_suffix(".json").read_text())
        found += [f"{path}: {complaint}" for complaint in complaints(path.read_text(), manifest)]
        count += 1
    print("\n".join(found))
    print(f"{count} texts, {len(found)} complaints")
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main())
