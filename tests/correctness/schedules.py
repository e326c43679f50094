#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A sample of the schedules that the tuner may pick, checked on the emulator: every staging, residency and step.

Usage: schedules.py KDAGEN [--count 5] [--seed 1]
"""
import argparse
import itertools
import random
import subprocess
import sys

KERNELS = [
    ["gla", "--pass", "fwd"],
    ["gla", "--pass", "bwd", "--set", "chunk=64"],
    ["gdn", "--pass", "bwd"],
    ["kda_k1", "--pass", "bwd", "--regime", "mixed"],
    ["kda_k1", "--pass", "bwd", "--regime", "mixed", "--set", "chunk=64", "--set", "lower_bound=-1", "--set", "upstream=bf16"],
    ["kda_k1", "--pass", "fwd", "--regime", "mixed"],
]
SPACE = {"threads": (128, 256, 512), "tiles_per_block": (1, 2, 4, 8, 16), "min_blocks": (1, 2, 3), "heads_fastest": (0, 1), "stages": (0, 1, 2, 3)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kdagen")
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    points = [",".join(f"{key}={value}" for key, value in zip(SPACE, point)) for point in itertools.product(*SPACE.values())]
    failed = 0
    for kernel in KERNELS:
        passed = 0
        for point in draw.sample(points, len(points)):
            command = [arguments.kdagen, "check", *kernel, "--on", "emulator", "--seqlens", "16,33,0,7,150", "--heads", "2", "--set", f"schedule={point}"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 2:  # more shared memory than there is
                continue
            passed += done.returncode == 0
            failed += done.returncode != 0
            if done.returncode:
                print(" ".join(command), done.stdout[-2000:], done.stderr[-2000:], sep="\n")
            if passed + failed >= arguments.count:
                break
        print(f"{' '.join(kernel)}: {passed} schedules passed", flush=True)
        if passed < arguments.count:
            failed += not failed
    sys.exit(failed != 0)


main()
