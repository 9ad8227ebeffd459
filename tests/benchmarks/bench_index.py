"""
The index beside its peers: `make bench-index`.

For each size, distance and kind of fingerprints: documents a second (each is asked for, then held), the share of a call
that falls to one document (p50, p99), the longest call, bytes each, recall against a scan. Directed search at its
defaults has trials of its own, and one that counts the sketches that unrelated documents cost. Every trial has a
process to itself and one core. Peers run in an environment of their own; one that cannot be installed is absent.
Written to tests/benchmarks/results: index.json, index.md, index.png.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.index.contenders import CONTENDERS, PACKAGES
from tests.benchmarks.index.directed import DIRECTED
from tests.benchmarks.index.report import Trial, bars, markdown, plot
from tests.benchmarks.index.texts import kept_fingerprints
from tests.benchmarks.machine import RESULTS, machine
from tests.conftest import REPOSITORY
from worker.core.search import SearchRules

SIZES = (100_000, 1_000_000, 10_000_000)
DIRECTED_DISTANCE = SearchRules().max_distance
DISTANCES = (3, 6, 7, DIRECTED_DISTANCE)
UNRELATED_FROM = 10_000_000  # documents: fewer have no candidate
DATA = ("random", "texts")
LOAD_S_MAX = 120.0
REST_S_MAX = 120.0  # for the rest of a trial
UNRELATED_S_MAX = 1_800.0
MORE = 100_000  # fingerprints of texts beyond the residents: the new ones that are asked for
KEPT = REPOSITORY / "out"  # fingerprints of texts, made once


def trials(options: argparse.Namespace) -> Iterator[tuple[str, int, int, str]]:
    """Contender, size, distance, data: those asked for that make sense."""
    for size in options.sizes:
        for distance in options.distances:
            for data in options.data:
                for name in options.contenders:
                    if (name in (DIRECTED, "unrelated")) != (distance == DIRECTED_DISTANCE):
                        continue  # its distance is no choice but part of the rules
                    if name in (DIRECTED, "unrelated") and data != "random":
                        continue
                    if name == "unrelated" and size < UNRELATED_FROM:
                        continue
                    if name == "growth" and (distance != 3 or data != "random"):
                        continue  # the bar is for these
                    if name == "gaoya" and data != "random":
                        continue  # it makes its own fingerprints, as random as any
                    yield name, size, distance, data


def run(name: str, size: int, distance: int, data: str, options: argparse.Namespace) -> Trial:
    """One trial, in a process of its own."""
    python = options.peers_python if name in PACKAGES else sys.executable
    source = str(kept_fingerprints(size + MORE, KEPT)) if data == "texts" else data
    command = [python, "-m", "tests.benchmarks.index.trial", name, str(size), str(distance), source]
    seconds = options.load_s_max + (UNRELATED_S_MAX if name == "unrelated" else REST_S_MAX)
    try:
        done = subprocess.run(
            [*command, str(options.load_s_max)],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        lines = done.stdout.splitlines()
        found: dict[str, Any] = json.loads(lines[-1]) if lines else {"left_out": _last(done.stderr)}
    except subprocess.TimeoutExpired:
        found = {"left_out": f"not done after {seconds:.0f} s"}
    except FileNotFoundError:
        found = {"left_out": "absent: no environment of peers"}
    return Trial(name, size, distance, data, found)


def _last(text: str) -> str:
    return (text.splitlines() or ["ended without a word"])[-1][:120]


def numbers(text: str) -> list[int]:
    """Separated by commas."""
    return [int(number) for number in text.split(",")]


def names(text: str) -> list[str]:
    """Separated by commas."""
    return text.split(",")


def parsed() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="100,000 random fingerprints, distance 3 and directed; nothing is kept"
    )
    parser.add_argument("--sizes", type=numbers, default=SIZES)
    parser.add_argument("--distances", type=numbers, default=DISTANCES)
    parser.add_argument("--data", type=names, default=DATA, help="random, texts")
    parser.add_argument("--contenders", type=names, default=(DIRECTED, *CONTENDERS, "growth", "unrelated"))
    parser.add_argument(
        "--load-s-max", type=float, default=LOAD_S_MAX, help="a contender that loads longer is left out"
    )
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter that has the peers")
    parser.add_argument("--add", action="store_true", help="to the trials that are kept, in their place where repeated")
    parser.add_argument("--no-save", action="store_true", help="leave the kept results as they are")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.distances, options.data = SIZES[:1], (DISTANCES[0], DIRECTED_DISTANCE), DATA[:1]
    return options


def kept_trials(path: Path) -> dict[tuple[str, int, int, str], Trial]:
    """The trials of an earlier run."""
    if not path.is_file():
        return {}
    found = (Trial(**fields) for fields in json.loads(path.read_text())["trials"])
    return {trial.key: trial for trial in found}


def main() -> None:
    """Measure, print, keep."""
    options = parsed()
    where = machine()
    found = kept_trials(RESULTS / "index.json") if options.add else {}
    for key in trials(options):
        trial = run(*key, options)
        found[trial.key] = trial
        print(trial, flush=True)
        if not (options.quick or options.no_save):
            save(sorted(found.values()), where)
    print(f"\n{markdown(sorted(found.values()))}\n{bars(sorted(found.values()))}")


def save(found: Sequence[Trial], where: dict[str, Any]) -> None:
    """Write what there is: a run that is ended early has its figures."""
    RESULTS.mkdir(exist_ok=True)
    kept = {"machine": where, "trials": [trial._asdict() for trial in found]}
    (RESULTS / "index.json").write_text(json.dumps(kept, indent=1) + "\n")
    told = ", ".join(f"{name} {value}" for name, value in where.items())
    (RESULTS / "index.md").write_text(f"Measured with `make bench-index`: {told}.\n\n{markdown(found)}\n{bars(found)}")
    plot(found, RESULTS / "index.png")


if __name__ == "__main__":
    main()
