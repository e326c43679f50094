#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Schedules that the tuner may pick, checked: a sample with every value that they have, or all of them.

Usage: schedules.py KDAGEN [--count 5] [--seed 1] [--all] [--on emulator|cuda] [--arch sm_90] [--spec NAME] [--jobs 1]
"""
import argparse
import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

MIXED = ["--regime", "mixed"]
KERNELS = [  # spec, pass, options, arguments of check
    ("gla", "fwd", [], []),
    ("gla", "bwd", ["chunk=64"], []),
    ("gdn", "bwd", [], []),
    ("kda_k1", "bwd", [], MIXED),
    ("kda_k1", "bwd", ["chunk=64", "lower_bound=-1", "upstream=bf16"], MIXED),
    ("kda_k1", "fwd", [], MIXED),
]


def kernel_arguments(spec, direction, options):
    return [spec, "--pass", direction, *(word for option in options for word in ("--set", option))]


def space(kdagen, kernel, arch):
    """The schedules that `kdagen tune` looks at."""
    done = subprocess.run([kdagen, "tune", *kernel, "--list", "--arch", arch, "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"kdagen tune {' '.join(kernel)} --list: {done.stderr}")
    return json.loads(done.stdout)["runs"][0]["schedules"]


def sample(points, count, draw):
    """At random, but always one of those with most values that none had before."""
    pool, chosen, seen = draw.sample(points, len(points)), [], set()
    while pool and len(chosen) < count:
        chosen.append(max(pool, key=lambda point: len(set(point.split(",")) - seen)))
        pool.remove(chosen[-1])
        seen |= set(chosen[-1].split(","))
    return chosen


def check(kdagen, kernel, more, on, point):
    """What is wrong with the schedule; nothing if it passes."""
    command = [kdagen, "check", *kernel, *more, "--on", on, "--seqlens", "16,33,0,7,150", "--heads", "2", "--set", f"schedule={point}"]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else "\n".join((" ".join(command), f"exit code {done.returncode}", done.stdout[-2000:], done.stderr[-2000:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kdagen")
    parser.add_argument("--count", type=int, default=5, help="schedules a kernel")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="every schedule of each kernel instead of a sample")
    parser.add_argument("--on", choices=("emulator", "cuda"), default="emulator")
    parser.add_argument("--arch", default="sm_90", help="of the device")
    parser.add_argument("--spec", help="this one's kernels only")
    parser.add_argument("--jobs", type=int, default=1, help="checks at a time")
    arguments = parser.parse_args()
    kernels = [kernel for kernel in KERNELS if arguments.spec in (None, kernel[0])]
    if not kernels:
        sys.exit(f"--spec {arguments.spec}: one of {', '.join(sorted({kernel[0] for kernel in KERNELS}))} would pass")
    draw, all_pass = random.Random(arguments.seed), True
    for spec, direction, options, more in kernels:
        kernel = kernel_arguments(spec, direction, options)
        points = space(arguments.kdagen, kernel, arguments.arch)
        chosen = points if arguments.all else sample(points, arguments.count, draw)
        with ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
            found = list(pool.map(lambda point: check(arguments.kdagen, kernel, more, arguments.on, point), chosen))
        failed = [text for text in found if text]
        print("\n".join([*failed, f"{' '.join(kernel)}: {len(chosen) - len(failed)} of {len(chosen)} schedules pass, of {len(points)} that the tuner has"]), flush=True)
        all_pass = all_pass and chosen and not failed
    sys.exit(not all_pass)


main()
