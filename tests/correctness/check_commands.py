# SPDX-License-Identifier: Apache-2.0
"""Runs a slice of a list of `kdagen check` commands: what matrix.py, pairwise.py and subchunk.py have in common."""
import argparse
import subprocess


def add_slice(parser):
    parser.add_argument("--slice", default="0/1", help="I/N: of all commands, those whose number is I modulo N")


def sliced(everything, options):
    index, count = map(int, options.slice.split("/"))
    return list(everything)[index::count]


def run(commands):
    """Prints what fails and a last line; the exit code: 1 if any failed, or if there were none."""
    failed = 0
    for command in commands:
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            failed += 1
            bad = [line for line in result.stdout.splitlines() if "FAIL" in line]
            print(f"exits with {result.returncode}: {' '.join(command[1:])}", *bad[-12:], result.stderr, sep="\n", flush=True)
    print(f"{len(commands)} checks, {failed} failed")
    return 1 if failed or not commands else 0


def main(commands):
    """Runs a slice of commands(KDAGEN, TESTS_SPECS), which the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kdagen")
    parser.add_argument("specs")
    add_slice(parser)
    options = parser.parse_args()
    return run(sliced(commands(options.kdagen, options.specs), options))
