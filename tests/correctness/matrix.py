#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every shipped spec, and the test specs, at every size and layout, on cpu and in the emulator.

Usage: matrix.py KDAGEN SPEC [--slice I/N]. SPEC is a name or a path; the chunks are 16 and 64, the dims 64, 96 and 128,
the layouts bthd, htd, and tile-major cotangents; the sequences 16, 33, 0, 7 and 88 tokens, all regimes.
"""
import argparse
import itertools
import sys

from check_commands import add_slice, run, sliced

SETTINGS = [["layout=bthd"], ["layout=htd"], ["upstream_layout=tile"]]


def commands(kdagen, spec):
    bounded = "kda_k1" in spec  # its exponents need a weaker gate in long chunks
    for chunk, dim, layout, on in itertools.product((16, 64), (64, 96, 128), SETTINGS, ("cpu", "emulator")):
        sets = [f"chunk={chunk}", f"dim={dim}", *layout] + (["lower_bound=-1"] if bounded and chunk == 64 else [])
        command = [kdagen, "check", spec, "--on", on, "--seqlens", "16,33,0,7,88", "--heads", "2"]
        yield command + [word for item in sets for word in ("--set", item)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kdagen")
    parser.add_argument("spec")
    add_slice(parser)
    options = parser.parse_args()
    return run(sliced(commands(options.kdagen, options.spec), options))


if __name__ == "__main__":
    sys.exit(main())
