"""
What all benchmarks do alike: options, trials in processes of their own, tables.

Beside what is here, in `kept.py`, `trial.py` and `contenders.py`, a benchmark is its workload, its peers
and its tables, and hardly two have a piece in common: of 56,800 code tokens (without imports,
docstrings and comments) 166 stand in a row of 20 or more that another file has as well, and none in
one of 30. So one program for all, with workloads as data, would be no smaller. It was not made.

Peers run in an environment of their own, which has NumPy and psutil besides: nothing else is
imported here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESULTS = Path(__file__).parent / "results"
REPOSITORY = Path(__file__).resolve().parents[2]
CORPORA = Path(os.environ.get("NEARDUP_CORPORA", REPOSITORY.parent / "shared" / "corpora"))
INK, OURS_COLOR = "#1f2328", "#0969da"
PACKAGES = {  # of peers, by the first word of a contender's name
    "clickhouse": "chdb",
    "faiss": "faiss-cpu",
    "gaoya": "gaoya",
    "rensa": "rensa",
    "datasketch": "datasketch",
    "simhash": "simhash",
}

Figures = dict[str, Any]


def options(text: str, quick: str = "", *, has_peers: bool = False) -> argparse.ArgumentParser:
    """The options that benchmarks share; `quick` says what a trial run leaves out."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--no-save", action="store_true", help="leave the kept results as they are")
    parser.set_defaults(quick=False)
    if quick:
        parser.add_argument("--quick", action="store_true", help=f"{quick}; nothing is kept")
    if has_peers:
        parser.add_argument(
            "--peers-python", default=sys.executable, help="interpreter that has the peers"
        )
    return parser


def names(text: str) -> list[str]:
    """Return what an option lists, separated by commas."""
    return [name for name in text.split(",") if name]


def numbers(text: str) -> list[int]:
    """Return the numbers that an option lists."""
    return list(map(int, names(text)))


def labelled_corpus(left_out: str) -> Path | None:
    """Return the folder of the labelled corpus; where it is absent, say what is left out."""
    if (CORPORA / "pairs.tsv").is_file():
        return CORPORA
    print(f"no labelled corpus at {CORPORA} (set NEARDUP_CORPORA): {left_out}")
    return None


def corpus_rows(folder: Path, name: str = "docs.jsonl") -> Iterator[Figures]:
    """Yield the rows of a file of the labelled corpus: none where it is absent."""
    path = folder / name
    if path.is_file():
        with path.open("rb") as lines:
            yield from map(json.loads, lines)


def package_of(contender: str) -> str | None:
    """The package of a peer; None for ours."""
    return PACKAGES.get(contender.split(maxsplit=1)[0].lower())


def command_of(
    module: str, function: str, *arguments: object, python: str = sys.executable
) -> list[str]:
    """Return the command that calls a benchmark's function and prints what it returns as JSON."""
    given = json.dumps(arguments, default=os.fspath)
    return [python, "-m", "tests.benchmarks.common", module, function, given]


def ask(
    module: str,
    function: str,
    *arguments: object,
    python: str = sys.executable,
    seconds_max: float | None = None,
) -> Figures:
    """Return what a function returns in a process of its own; else `left_out` says why not."""
    try:
        done = subprocess.run(
            command_of(module, function, *arguments, python=python),
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=seconds_max,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"left_out": f"not done after {seconds_max:.0f} s"}
    except FileNotFoundError:
        return {"left_out": "absent: no environment of peers"}
    if done.returncode != 0 or not done.stdout:
        return {"left_out": f"failed: {(done.stderr.splitlines() or ['without a word'])[-1][:120]}"}
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def ask_contender(
    kind: str, contender: str, *arguments: object, peers_python: str, seconds_max: float
) -> Figures:
    """Return what a contender's trial finds; peers run in their own environment."""
    python = peers_python if package_of(contender) else sys.executable
    return ask(
        "trial",
        "of_contender",
        kind,
        contender,
        *arguments,
        python=python,
        seconds_max=seconds_max,
    )


def on_one_core() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table's lines in Markdown, and an empty one."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)] + [""]


def reached(is_reached: bool) -> str:
    """How a figure stands to what is wanted."""
    return "reached" if is_reached else "**missed**"


def flipped(
    numbers: NDArray[np.uint64], flips_max: int, dice: np.random.Generator
) -> NDArray[np.uint64]:
    """Each with 0 to `flips_max` bits flipped."""
    flips = dice.integers(0, flips_max + 1, len(numbers))
    for number in range(flips_max):
        bit = np.uint64(1) << dice.integers(0, 64, len(numbers), dtype=np.uint64)
        numbers = np.where(number < flips, numbers ^ bit, numbers)
    return numbers


def drawing(
    width: float,
    height: float,
    rows: int = 1,
    columns: int = 1,
    *,
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Any, Any]:
    """Return a figure of so many inches, and its axes."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # heavy, and only in the extra `bench`

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, sharex=sharex, sharey=sharey)


def titled(axis: Any, title: str, below: str = "") -> None:
    """Say above an axis what it shows, and below it what its numbers are."""
    axis.set_title(title, loc="left", fontsize=10, color=INK)
    axis.set_xlabel(below, fontsize=9, color=INK)


def saved(figure: Any, path: Path) -> None:
    """Write a plot: quiet axes, white ground."""
    for axis in figure.axes:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=INK, labelsize=8)
    figure.savefig(path, dpi=110, facecolor="white")


def main() -> None:
    """Call a function for `command_of`."""
    module, function, given = sys.argv[1:]
    called = getattr(import_module(f"tests.benchmarks.{module}"), function)
    print(json.dumps(called(*json.loads(given))))


if __name__ == "__main__":
    main()
