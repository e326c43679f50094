#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every pair of option values in some row, each row checked in the emulator. `sequences` (packed with offsets of a type, or of
fixed length) and `base_offset` are the caller's side of a launch.

Usage: pairwise.py KDAGEN [--slice I/N] [--list]

The table is made greedily and deterministically: a row is the best of 200 random candidates by the number of pairs it
covers that no row before it covers; 60 rows at least. Chunks past 16 take the lower_bound that their exponents allow.
"""
import argparse
import itertools
import random
import sys

from check_commands import add_slice, run, sliced

FACTORS = {
    "dtype": ["bf16", "fp16", "f32"],
    "out": ["bf16", "f32"],
    "grads": ["bf16", "fp16", "f32"],
    "layout": ["bthd", "htd"],
    "upstream": ["f32", "bf16", "fp16row"],
    "upstream_layout": ["rows", "tile"],
    "save": ["none", "g_c", "g_c,q_inv"],
    "gt": ["k2", "pure"],
    "operands": ["exact", "rounded"],
    "scan": ["auto", "float"],
    "schedule": ["default", "baseline", "tiles_per_block=2", "tiles_per_block=16"],
    "dim": ["64", "96", "128", "256"],
    "chunk": ["16", "32", "64"],
    "sequences": ["i32", "i64", "fixed"],
    "base_offset": ["0", "2", "24"],
}
LOWER_BOUND = {"16": "-5", "32": "-2.5", "64": "-1"}
PACKED = ["--seqlens", "16,33,0,7", "--heads", "2", "--cu-seqlens"]
FIXED = ["--tokens", "37", "--batch", "2", "--heads", "1"]


def pairs(row):
    return set(itertools.combinations(sorted(row.items()), 2))


def table(least=60, seed=1):
    rng = random.Random(seed)
    wanted = {
        tuple(sorted([(a, x), (b, y)]))
        for a, b in itertools.combinations(FACTORS, 2)
        for x in FACTORS[a]
        for y in FACTORS[b]
    }
    rows = []
    while wanted or len(rows) < least:
        candidates = [{name: rng.choice(values) for name, values in FACTORS.items()} for _ in range(200)]
        if wanted:  # one candidate is sure to cover something
            candidates[0].update(dict(min(wanted)))
        best = max(candidates, key=lambda row: len(pairs(row) & wanted))
        wanted -= pairs(best)
        rows.append(best)
    return rows


def command(kdagen, row, number):
    sets = dict(row, lower_bound=LOWER_BOUND[row["chunk"]])
    if sets["save"] == "none":
        del sets["save"]
    arguments = [kdagen, "check", "kda_k1", "--on", "emulator", "--regime", ["typical", "strong", "mixed"][number % 3]]
    sequences, base_offset = sets.pop("sequences"), sets.pop("base_offset")
    arguments += FIXED if sequences == "fixed" else [*PACKED, sequences]
    arguments += ["--base-offset", base_offset]
    for name, value in sets.items():
        arguments += ["--set", f"{name}={value}"]
    return arguments


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kdagen")
    add_slice(parser)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    commands = [command(options.kdagen, row, number) for number, row in sliced(enumerate(table()), options)]
    if not options.list:
        return run(commands)
    print("\n".join(" ".join(words[1:]) for words in commands))
    return 0


if __name__ == "__main__":
    sys.exit(main())
