#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which values a thread a row computes ("owners of rows" of the schedule), and which stay with the lanes of a row.

Usage: row_owners.py KDAGEN FOLDER_OF_SPECS
"""
import re
import subprocess
import sys

KDAGEN, SPECS = sys.argv[1:]


def stored(spec, *options):
    """Names of the tensors that owners store, and of all."""
    command = [KDAGEN, "show", spec, "--stage", "scheduled", *options]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    _, _, owners = text.partition("owners of rows\n")
    names = lambda part: set(re.findall(r"store \S+ (\w+) = kda\.output", part))
    return names(owners), names(text)


def expect(what, owned, by_owners, by_lanes):
    wrong = (set(by_owners) - owned) | (set(by_lanes) & owned)
    if wrong:
        sys.exit(f"{what}: {', '.join(sorted(wrong))} on the wrong side; owners store {', '.join(sorted(owned))}")


def main():
    ledger = f"{SPECS}/ledger.cpp"
    owned, everything = stored(ledger, "--pass", "fwd")
    missing = {"balance", "owed", "closing"} - everything
    if missing:
        sys.exit(f"ledger fwd: {', '.join(sorted(missing))} not found among the stores: {sorted(everything)}")
    expect("ledger fwd", owned, {"balance", "owed", "closing"}, {"y", "mixed", "kept"})  # c also meets a, and a the features
    owned, _ = stored(ledger, "--pass", "fwd", "--set", "chunk=64")
    expect("ledger fwd, 64 rows do not fit a warp", owned, set(), {"balance", "owed", "closing"})
    owned, _ = stored(f"{SPECS}/zigzag.cpp", "--pass", "fwd")
    expect("zigzag fwd: a row's number is made of its features", owned, set(), {"r_out"})


main()
