"""The house stays one that an engineer can hold in the head: files, and lines by capability, rise only on purpose."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatch

from tests.conftest import REPOSITORY

# Python in `worker` and `schemas`, at most. Lower these with the code; a raise is a commit of its own that says why.
FILES_MAX = 279
# Lines, at most, and patterns of paths below `worker`; a file is of the first capability with a pattern of its path.
CAPABILITIES = {
    "pages to text, charset": (3565, "core/pages/* core/charset.py core/extract.py"),
    "fingerprint: definition, tables, function words": (
        1295,
        "core/anchors.py core/definition.py core/language.py core/normalise.py core/parameters.py core/shingles.py "
        "core/simhash.py core/stopwords/* core/tokens.py core/unicode_table.py",
    ),
    "hash tables (doc_id, URL, digest)": (455, "core/hash_table.py core/kernels/siphash.py"),
    "message formats (JSON in and out, times)": (
        2041,
        "schemas/* shell/messages/* core/document.py core/verdict.py core/kernels/documents.py",
    ),
    "numba: compile, cache, start": (550, "core/compiled.py core/linked.py core/warm.py shell/runtime/kernels.py"),
    "index: exact, directed, store, rules, sketch": (
        4060,
        "core/tables/* core/*index.py core/permutation.py core/search.py core/sketch.py core/kernels/sketch.py",
    ),
    "machine instructions for all kernels": (450, "core/kernels/machine.py"),
    "fingerprint: kernels and entry": (1718, "core/fields.py core/fingerprint.py core/kernels/*"),
    "planning": (393, "core/planner.py cli/plan.py"),
    "originals, snapshots": (1362, "log/original* log/snapshot* shell/storage/*"),
    "ordered log: record, judge, replica, retention": (2010, "log/*"),
    "Kafka client": (2030, "shell/kafka/*"),
    "pipeline, service": (2267, "shell/pipeline/* shell/ports.py"),
    "health, metrics, tracing, watchdog, fault hooks": (834, "shell/runtime/*"),
    "verify, rebuild, group watch": (1139, "shell/admin/*"),
    "archives": (1489, "shell/files/archives/*"),
    "files, library, kept documents": (1571, "shell/files/* public/*"),
    "settings": (1165, "settings.py cli/options.py"),
    "compare, explain, report": (
        1603,
        "report/* core/compare.py cli/explain.py",
    ),
    "evaluate, tune": (961, "core/evaluation.py core/tuning.py cli/tune.py"),
    "find-all, find-clusters, nearest, fingerprint": (
        596,
        "core/pairs.py cli/pairs.py",
    ),
    "embedded broker": (1399, "devkit/broker/* cli/broker.py"),
    "demo, sample crawl": (1294, "devkit/* cli/demo.py"),
    "rest of the command line, errors": (1254, "cli/* errors.py __*__.py shell/__init__.py core/__init__.py"),
}


def test_no_capability_grows_unnoticed() -> None:
    """Each file is of a capability; none of these has more lines than it may, and files are not more than may be."""
    files = [path for name in ("worker", "schemas") for path in (REPOSITORY / name).rglob("*.py")]
    lines: Counter[str] = Counter()
    for file in files:
        path = file.relative_to(REPOSITORY).as_posix().removeprefix("worker/")
        names = (name for name, (_, paths) in CAPABILITIES.items() if any(fnmatch(path, one) for one in paths.split()))
        lines[next(names, f"none: {path} needs a pattern")] += len(file.read_text().splitlines())
    assert {name: count for name, count in lines.items() if count > CAPABILITIES.get(name, (0,))[0]} == {}
    assert len(files) <= FILES_MAX
