"""
What is kept of a benchmark's run: its figures, its tables, the machine, and which code it measured.

The code is told by one digest: a result that carries another one is stale. Explanations and texts do
not count: of each file the tokens are read, without comments, ends of lines and strings. So a
docstring makes no figure stale, and equal code has one digest in every version of Python.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import subprocess
import tokenize
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import xxhash
from llvmlite.binding import get_host_cpu_features

from tests.benchmarks.common import RESULTS, Figures

WORKER = Path(__file__).resolve().parents[2] / "worker"

# What a result is of: machine code as it is deployed, or for this processor's wider vectors.
DEPLOYED, WIDER = BUILDS = ("x86-64-v3", "AVX-512")

# What decides which documents are called copies: not how kernels are compiled, nor what plans say.
_FINDING = tuple(
    f"core/{part}"
    for part in (
        "bodies.py", "charset.py", "definition.py", "evaluation.py", "extract.py", "fingerprint.py",
        "hash_table.py", "index.py", "kernels", "marks.py", "media_type.py", "pages",
        "permutation.py", "search.py", "sketch.py", "stopwords", "tables", "tokens.py",
    )
)  # fmt: skip

# Name of the result -> the parts of `worker` that it measures.
MEASURED = {
    "accuracy": _FINDING,
    "archive": ("core", "log", "shell/archive"),
    "ask": ("core", "log", "shell/ask", "shell/pipeline"),
    "families": _FINDING,
    "fingerprint": ("core/fingerprint.py", "core/kernels", "core/sketch.py", "core/tokens.py"),
    "index": ("core/index.py", "core/search.py", "core/tables"),
    "pages": ("core/extract.py", "core/kernels", "core/pages"),
    "pairs": ("core/pairs.py",),
    "replay": ("core/search.py", "core/tables", "log"),
    "rules": ("core/search.py", "core/tables"),
    "scale": ("core", "log", "shell/pipeline"),
    "stream": ("core", "log", "shell/pipeline", "shell/kafka"),
    "week": ("core", "log", "shell/admin", "shell/checkpoint.py", "shell/kafka", "shell/pipeline"),
}
# Plans are made of what is measured: no worker runs them, and new figures make no older ones stale.
_PLANS = {"core/group.py"}
_PASSED_OVER = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.STRING}
# Until Python 3.11 an f-string is one token; since 3.12 it is a row of them.
_OPENS, _CLOSES = (getattr(tokenize, f"FSTRING_{end}", -1) for end in ("START", "END"))


def code_of(source: str) -> str:
    """
    Return what counts of a file: its tokens, without comments, ends of lines and strings.

    >>> code_of('def f():  # why\\n    "Say what."\\n    return 1')
    'def f ( ) :      return 1  '
    """
    found, depth = [], 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        depth += token.type == _OPENS
        if not depth and token.type not in _PASSED_OVER:
            found.append(token.string)
        depth -= token.type == _CLOSES
    return " ".join(found)


@cache
def code_digest(name: str) -> str:
    """Return the digest of the code that `make bench-NAME` measures: 16 hexadecimal digits."""
    digest = xxhash.xxh3_64()
    for part in MEASURED[name]:
        place = WORKER / part
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            inside = path.relative_to(WORKER).as_posix()
            if inside not in _PLANS:
                code = code_of(path.read_text(encoding="utf-8"))
                digest.update(f"{inside}\0{code}\0".encode())
    return digest.hexdigest()


def said(where: Mapping[str, object]) -> str:
    """Return a phrase that says where something was measured."""
    return ", ".join(f"{name} {value}" for name, value in where.items())


def vectors() -> str:
    """
    Return what kernels are compiled for: the processor that NUMBA_CPU_NAME names, as `make` does, or
    the widest vectors of this one.
    """
    if named := os.environ.get("NUMBA_CPU_NAME"):
        return named
    features = get_host_cpu_features()
    names = {"avx512f": WIDER, "avx2": "AVX2"}
    return next((name for key, name in names.items() if features.get(key)), platform.machine())


def this_build() -> str:
    """Return which of BUILDS is measured. Other processors stand with what is deployed on them."""
    return WIDER if vectors() == WIDER else DEPLOYED


def path_of(name: str, build: str) -> Path:
    """Return the file of what `make bench-NAME` kept of a build: neither takes the other's place."""
    return (RESULTS / "avx-512" if build == WIDER else RESULTS) / f"{name}.json"


def processor_of(cpuinfo: str) -> str:
    """
    Return the name of the first processor in the text of /proc/cpuinfo; "" if it has none.

    Cloud machines may call several generations "AMD EPYC", so family and model follow the name if
    both are given.

    >>> processor_of("model\\t: 85\\ncpu family\\t: 6\\nmodel name\\t: Intel(R) Xeon(R) Processor\\n")
    'Intel Xeon (family 6, model 85)'
    """
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    name = fields.get("model name", "").replace("(R)", "").removesuffix(" Processor")
    if not (name and "cpu family" in fields and "model" in fields):
        return name
    return f"{name} (family {fields['cpu family']}, model {fields['model']})"


def _commit() -> str:
    """
    Return the commit, with "-dirty" if the files are others. Results do not count: the benchmark
    before has written some.
    """

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)

    others = git("diff", "--quiet", "HEAD", "--", str(WORKER.parent), f":(exclude){RESULTS}")
    return git("describe", "--always").stdout.strip() + "-dirty" * (others.returncode == 1)


def machine() -> dict[str, str | int | float]:
    """Return processor, vectors, cores, load, Python, commit and date."""
    cpuinfo = Path("/proc/cpuinfo")
    model = processor_of(cpuinfo.read_text()) if cpuinfo.is_file() else ""
    return {
        "cpu": model or platform.processor() or platform.machine(),
        "vectors": vectors(),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "commit": _commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def kept_results(name: str, build: str = "") -> Figures:
    """
    Return what `make bench-NAME` kept of a build, by default of this one; {} if nothing, as before a
    run that would add to it.
    """
    path = path_of(name, build or this_build())
    found: Figures = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def results_of(name: str, build: str = "") -> Figures:
    """
    Return what `make bench-NAME` kept of a build, by default of this one.

    Raises:
        FileNotFoundError: it kept nothing.
    """
    if found := kept_results(name, build):
        return found
    path = path_of(name, build or this_build())
    raise FileNotFoundError(f"no results at {path}: run make bench-{name}")


def write(name: str, figures: Figures, text: str) -> None:
    """Write figures and tables of this build, as NAME.json and NAME.md."""
    path = path_of(name, this_build())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n")
    path.with_suffix(".md").write_text(text)


Plots = Mapping[str, Callable[[Path], None]]  # by the name of a picture: what draws it


def finish(
    chosen: argparse.Namespace,
    name: str,
    figures: Figures,
    lines: Iterable[str],
    plots: Plots | None = None,
) -> None:
    """Print the tables of a run, and keep them, as `keep` does."""
    tables = list(lines)
    print("", *tables, sep="\n")
    keep(chosen, name, figures, tables, plots)


def keep(
    chosen: argparse.Namespace,
    name: str,
    figures: Figures,
    lines: Iterable[str],
    plots: Plots | None = None,
) -> None:
    """
    Write what a whole run found as NAME.json, its tables as NAME.md, and its pictures, if it may.

    Pictures are only of the build that is deployed. `figures` has the machine, which gets the digest
    of the code that was measured.
    """
    if chosen.quick or chosen.no_save:
        return
    figures["machine"]["code"] = code_digest(name)
    tables = [f"Measured with `make bench-{name}`: {said(figures['machine'])}.", "", *lines, ""]
    write(name, figures, "\n".join(tables))
    if this_build() == DEPLOYED:
        for file, plot in (plots or {}).items():
            plot(RESULTS / file)
