#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does `kdagen check --source` see faults? Breaks an emitted text in one place at a time (mutants.py) and checks it.

Usage: mutate.py KDAGEN SPEC --pass fwd|bwd [--set K=V]... [--sample N] [--list]

A mutant is caught when a check fails: the numbers are wrong, or the emulator reports a fault. Mutants run against a small
problem first; those that it lets through run against more shapes and all regimes. Survivors must be listed, with the reason
why they are harmless, in mutation_survivors.txt; at least --share of the mutants that compile must be caught.
With --sample N only every so-many-th mutant of each kind runs, about N in all, listed ones left out. It is there to notice
when `check` goes blind, not to find the next harmless mutant of a text that has changed: 90 % must be caught, and an unlisted
survivor is only printed.
With --log FILE verdicts are kept, and known ones are not computed again. With --trust-list mutants that are listed count as
survivors without being run, which can only make the share look smaller.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from mutants import KINDS, mutants_of

SURVIVORS = Path(__file__).parent / "mutation_survivors.txt"
#: Seconds of a processor, beyond the longest honest check of a problem here: a text that does not end is not passed.
TIME_LIMIT = 60


def run(command, limit=None):
    bounded = (lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))) if limit else None
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, preexec_fn=bounded)


class Survivors:
    """Entries of mutation_survivors.txt that are about a text: `kind: part of the edit`, `kind SPEC: ...` or
    `kind SPEC PASS: ...`, then indented lines with the reason. In the part, `...` stands for anything."""

    def __init__(self, path, spec, direction):
        self.entries = []
        about = False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            if line.startswith(" "):
                if about:
                    self.entries[-1][2] = f"{self.entries[-1][2]} {line.strip()}".strip()
                continue
            head, _, part = line.partition(": ")
            kind, *text = head.split()
            if kind not in KINDS or not part or len(text) > 2:
                sys.exit(f"{path}:{number}: not `kind [SPEC [PASS]]: edit`; kinds are {', '.join(KINDS)}")
            about = text == [spec, direction][:len(text)]
            if about:
                self.entries.append([kind, part.split("..."), ""])
        for kind, parts, reason in self.entries:
            if not reason:
                sys.exit(f"{path}: {kind}: {'...'.join(parts)}: no reason; say in indented lines why it is harmless")

    def find(self, mutant):
        for kind, parts, reason in self.entries:
            at = 0
            for part in parts:
                at = mutant.edit.find(part, at) if at >= 0 else -1
                at = at + len(part) if at >= 0 else -1
            if kind == mutant.kind and at >= 0:
                return reason
        return None


class Judge:
    def __init__(self, arguments):
        sets = [word for item in arguments.set for word in ("--set", item)]
        regimes = self.regimes(arguments)
        one = ["--regime", "mixed" if "mixed" in regimes else regimes[0]]
        self.command = [arguments.kdagen, "check", arguments.spec, "--pass", arguments.direction, *sets,
                        "--on", "emulator", "--source"]
        small = ["--seqlens", "1,37,0,64,19", "--heads", "2"]  # ragged, an empty sequence, two segments
        self.quick = [one + small]
        self.thorough = [
            one,  # 300 tokens, and rows after the last sequence
            one + ["--tokens", "37", "--batch", "3", "--heads", "3"],  # fixed length
            one + ["--seqlens", "16,16,16,16", "--heads", "1"],  # four surplus tiles in a block
            one + ["--seqlens", ",".join(["0"] * 12 + ["17"] + ["0"] * 7), "--heads", "1"],  # two blocks of surplus tiles alone
            one + ["--seqlens", "17", "--unused-rows", "260", "--heads", "1"],  # a block of unused rows alone
            one + ["--seqlens", "900,37", "--heads", "1"],  # 8 segments of tiles: each part of the second stage has one
            small,  # all regimes, rows near zero, noise as cotangents
            one + ["--seqlens", "2080,37", "--heads", "1"],  # 17 segments: the parts share them unevenly
        ]

    @staticmethod
    def regimes(arguments):
        listed = json.loads(run([arguments.kdagen, "list", "--json"]).stdout)
        return next(spec["regimes"] for spec in listed["specs"] if spec["name"] == arguments.spec)

    def check(self, path, problem):
        result = run(self.command + [path] + problem, TIME_LIMIT)
        if result.returncode == 0:
            return "survived", ""
        if result.returncode == 1:
            fault = "the emulator reports" in result.stdout + result.stderr
            return "caught", "fault" if fault else "numbers"
        if result.returncode == 3:
            return "no text", result.stderr[-300:]
        if result.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return "caught", "does not end"
        if result.returncode < 0:
            return "caught", f"signal {-result.returncode}"
        return "broken", f"exit code {result.returncode}: {result.stderr[-300:]}"

    def judge(self, text, folder, problems=None):
        path = Path(folder) / f"{threading.get_ident()}.cu"
        path.write_text(text, encoding="utf-8")
        for problem in problems or self.quick + self.thorough:
            verdict, how = self.check(path, problem)
            if verdict != "survived":
                return verdict, how, " ".join(problem)
        return "survived", "", ""


def spread(mutants, count):
    """`count` mutants, each kind in proportion but at least two of it, evenly over the text."""
    by_kind = collections.defaultdict(list)
    for mutant in mutants:
        by_kind[mutant.kind].append(mutant)
    chosen = []
    for some in by_kind.values():
        share = min(len(some), max(2, round(count * len(some) / len(mutants))))
        chosen += [some[(2 * i + 1) * len(some) // (2 * share)] for i in range(share)]
    return sorted(chosen, key=lambda mutant: mutant.number)


def read_log(path):
    known = {}
    if path and path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            known[record["key"]] = record
    return known


def judge_all(arguments, text, mutants, known, survivors):
    judge = Judge(arguments)
    log = open(arguments.log, "a", encoding="utf-8") if arguments.log else None
    lock = threading.Lock()
    settings = f"{arguments.spec} {arguments.direction} {sorted(arguments.set)}"

    def one(mutant, folder):
        if arguments.trust_list and survivors.find(mutant):
            return mutant, {"verdict": "survived", "how": "listed"}
        mutated = mutant.apply(text)
        key = hashlib.sha256(f"{settings}\n{mutated}".encode()).hexdigest()[:24]
        if key in known:
            return mutant, known[key]
        start = time.monotonic()
        verdict, how, by = judge.judge(mutated, folder)
        record = {"key": key, "text": settings, "kind": mutant.kind, "line": mutant.line_number, "edit": mutant.edit,
                  "verdict": verdict, "how": how, "by": by, "seconds": round(time.monotonic() - start, 2)}
        if log:
            with lock:
                print(json.dumps(record), file=log, flush=True)
        return mutant, record

    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        os.environ["KDAGEN_CACHE_DIR"] = folder  # thousands of texts that nobody wants again
        verdict, how, by = judge.judge(text, folder, judge.quick if arguments.sample else None)
        if verdict != "survived":
            sys.exit(f"the text itself does not pass: {verdict} {how} {by}")
        return list(pool.map(lambda mutant: one(mutant, folder), mutants))


def report(arguments, results, survivors):
    failures = unlisted = 0
    counts = {kind: collections.Counter() for kind in KINDS}
    for mutant, record in results:
        counts[mutant.kind][record["verdict"]] += 1
        if record["verdict"] == "broken":
            failures += 1
            print(f"line {mutant.line_number} {mutant.kind}: {mutant.edit}\n    {record['how']}")
        if record["verdict"] == "survived":
            reason = survivors.find(mutant)
            unlisted += reason is None
            print(f"line {mutant.line_number} {mutant.kind}: {mutant.edit}\n    {reason or 'SURVIVED, and is not listed'}")
    total = sum(counts.values(), collections.Counter())
    print(f"{'kind':<12}{'mutants':>8}{'caught':>8}{'survived':>10}{'no text':>9}")
    for kind, count in [*counts.items(), ("all", total)]:
        print(f"{kind:<12}{sum(count.values()):>8}{count['caught']:>8}{count['survived']:>10}{count['no text']:>9}")
    by_fault = sum(record["how"] == "fault" for _, record in results)
    judged = total["caught"] + total["survived"]
    share = total["caught"] / max(judged, 1)
    print(f"{arguments.spec} {arguments.direction} {' '.join(arguments.set)}: {100 * share:.1f} % of {judged} caught, "
          f"{by_fault} of them by the emulator's reports; {unlisted} unlisted survivors, {failures} broken checks")
    if judged == 0 or share < arguments.share:
        failures += 1
        print(f"fewer than {100 * arguments.share:.0f} % caught")
    return 1 if failures or unlisted and not arguments.sample else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kdagen", type=Path)
    parser.add_argument("spec")
    parser.add_argument("--pass", dest="direction", choices=("fwd", "bwd"), required=True)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--sample", type=int)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--trust-list", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--share", type=float, help="of the mutants must be caught; 0.95, of a sample 0.9")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--list", action="store_true", help="print the mutants only")
    arguments = parser.parse_args()
    arguments.kdagen = arguments.kdagen.resolve()
    arguments.share = arguments.share or (0.9 if arguments.sample else 0.95)

    sets = [word for item in arguments.set for word in ("--set", item)]
    emitted = run([arguments.kdagen, "emit", arguments.spec, "--pass", arguments.direction, *sets])
    if emitted.returncode != 0:
        sys.exit(emitted.stderr)
    mutants = [mutant for mutant in mutants_of(emitted.stdout) if mutant.kind in arguments.kinds.split(",")]
    survivors = Survivors(SURVIVORS, arguments.spec, arguments.direction)
    if arguments.sample:
        mutants = spread([mutant for mutant in mutants if survivors.find(mutant) is None], arguments.sample)
    if arguments.list:
        for mutant in mutants:
            print(f"{mutant.number:5} line {mutant.line_number:4} {mutant.kind:9} {mutant.edit}")
        return 0
    return report(arguments, judge_all(arguments, emitted.stdout, mutants, read_log(arguments.log), survivors), survivors)


if __name__ == "__main__":
    sys.exit(main())
