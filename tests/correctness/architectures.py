#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts of architectures without a copy engine, whose threads copy their operands: chunks, dims, layouts, slots.

Usage: architectures.py KDAGEN TESTS_SPECS [--slice I/N]. On the emulator; every shipped spec, and some of the tests'.
"""
import os
import sys

from check_commands import main

SHAPES = [["--seqlens", "1,37,0,64,130", "--heads", "2"], ["--tokens", "70", "--batch", "2", "--heads", "1"]]


def commands(kdagen, specs):
    def command(number, spec, settings, *more):
        words = [word for item in settings for word in ("--set", item)]
        large = "chunk=64" in settings or "schedule=stages=3" in settings  # more shared memory than 99 KiB
        arch = "sm_80" if large else ("sm_80", "sm_86", "sm_89")[number % 3]
        return [kdagen, "check", spec, "--on", "emulator", "--arch", arch, *SHAPES[number % 2], *more, *words]

    variants = [[], ["layout=htd", "chunk=32"], ["chunk=64", "dim=96"], ["schedule=stages=1"], ["schedule=stages=3", "dim=64", "chunk=16"], ["schedule=baseline"],
                ["dim=256"], ["chunk=64", "dim=64", "dtype=f32"]]
    number = 0
    for spec in ("gla", "gdn", "kda_fla", "rmsnorm", os.path.join(specs, "zigzag.cpp"), os.path.join(specs, "held.cpp"), os.path.join(specs, "mixture.cpp")):
        for settings in variants:
            yield command(number, spec, settings)
            number += 1
    others = [["upstream=bf16"], ["operands=exact", "out=f32"], ["gt=pure", "upstream_layout=tile", "layout=htd"], ["upstream=fp16row", "dim=64"],
              ["anchor=subchunk", "chunk=64"], ["handover=premult4", "diag=1"]]
    for settings in [*variants, *others]:
        chunk = next((item for item in settings if item.startswith("chunk=")), "chunk=16")
        bound = {"chunk=16": "-5", "chunk=32": "-2", "chunk=64": "-1"}[chunk] if "anchor=subchunk" not in settings else "-5"
        yield command(number, "kda_k1", [*settings, "lower_bound=" + bound], "--regime", ("mixed", "strong", "typical")[number % 3])
        number += 1


if __name__ == "__main__":
    sys.exit(main(commands))
