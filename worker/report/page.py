"""The page: what was counted, laid out for the template. Equal answers give equal bytes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from schemas.timestamp import format_timestamp
from worker.core.verdict import Verdict
from worker.report.charts import HEIGHT, Chart, shares, stacked, times
from worker.report.clusters import Cluster
from worker.report.diff import Difference, difference
from worker.report.tally import OTHER, Class, Tally
from worker.report.texts import Read

HOSTS_SHOWN = 20
REASONS_SHOWN = 20
MEMBERS_SHOWN = 8
_DISTANCE_BARS_MIN = 13

# Control characters, lone surrogates and marks that turn the direction of what follows: none is for a reader.
_UNSHOWN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
_WEB = re.compile(r"https?://[^\s/?#]", re.IGNORECASE)


class Shown(NamedTuple):
    """One of the largest clusters, with the texts of the original and its least similar member where they are known."""

    cluster: Cluster
    members: list[Verdict]
    other: Verdict
    difference: Difference | None


class HostRow(NamedTuple):
    """A host: documents, copies, re-crawls, and copies in percent of the documents."""

    name: str
    documents: int
    copies: int
    recrawls: int
    percent: float


def page(
    tally: Tally, title: str, clusters: list[Cluster], read: Read | None, settings: Mapping[str, Mapping[str, Any]]
) -> bytes:
    """
    Return the report as one page of HTML, which loads nothing and runs nothing.

    Every text of a document is escaped; only http and https addresses become links.

    Args:
        title: what the answers are of.
        clusters: the largest, as they are to be shown.
        read: texts and languages, if documents were given.
        settings: of the fingerprint, by the hash of the parameters.
    """
    environment = Environment(
        loader=PackageLoader("worker.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters.update(count="{:,}".format, percent=_percent, time=format_timestamp, day=_day, is_web=_is_web)
    counts = tally.counts()
    reasons = Counter({reason: count for (found, reason), count in tally.reasons.items() if found is Class.SKIPPED})
    text = environment.get_template("page.html").render(
        title=title,
        tally=tally,
        total=len(tally),
        counts=counts,
        Class=Class,
        HEIGHT=HEIGHT,
        time_chart=times(tally.classes, tally.times_ms),
        span=_span(tally),
        distance_chart=_distances(tally),
        hosts=_hosts(tally),
        hosts_total=len({host for host, _ in tally.hosts}),
        sizes=_sizes(tally),
        clusters=[_with_texts(cluster, read) for cluster in clusters],
        read=read,
        languages=shares(read.languages)[:REASONS_SHOWN] if read else [],
        reasons=shares(reasons)[:REASONS_SHOWN],
        errors=sorted(tally.errors.items(), key=lambda one: (-one[1][0], one[0]))[:REASONS_SHOWN],
        changed=[(name, tally.changed[name]) for name in ("not", "little", "much")],
        schemes=tally.schemes.most_common(),
        settings=settings,
    )
    return text.encode("utf-8", "replace")


def _shown(value: Any) -> Any:
    return _UNSHOWN.sub("\ufffd", value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _day(timestamp_ms: int) -> str:
    """
    Return a time to the second.

    >>> _day(1_709_251_385_000)
    '2024-03-01 00:03:05'
    """
    return format_timestamp(timestamp_ms)[:19].replace("T", " ")


def _is_web(url: str) -> bool:
    return _WEB.match(url) is not None and not _UNSHOWN.search(url)


def _percent(part: float, whole: float) -> str:
    """
    Return a share for people.

    >>> _percent(1, 3), _percent(1, 10_000), _percent(0, 0)
    ('33.3 %', '< 0.1 %', '0 %')
    """
    if not part:
        return "0 %"
    percent = 100 * part / whole
    return "< 0.1 %" if percent < 0.1 else f"{percent:.1f} %"


def _span(tally: Tally) -> tuple[str, str] | None:
    known = tally.times_ms[tally.times_ms >= 0] if len(tally) else np.empty(0, np.int64)
    if not len(known):
        return None
    return format_timestamp(int(known.min()))[:10], format_timestamp(int(known.max()))[:10]


def _distances(tally: Tally) -> Chart | None:
    found = tally.distances
    if not found.any():
        return None
    bars = max(int(np.flatnonzero(found.any(axis=0)).max()) + 1, _DISTANCE_BARS_MIN)
    columns = (Class.EXACT, Class.NEAR, Class.RECRAWL)
    names = ("copies, token for token", "copies that differ", "re-crawls")
    return stacked(names, ("exact", "copy", "recrawl"), [str(bit) for bit in range(bars)], found[columns, :bars].T)


def _hosts(tally: Tally) -> list[HostRow]:
    """Return the hosts with the most copies."""
    by_host: dict[str, list[int]] = {}
    for (host, found), count in tally.hosts.items():
        by_host.setdefault(host, [0] * len(Class))[found] += count
    rows = [
        HostRow(host, sum(row), copies, row[Class.RECRAWL], round(100 * copies / sum(row), 2))
        for host, row in by_host.items()
        if (copies := row[Class.EXACT] + row[Class.NEAR]) or row[Class.RECRAWL]
    ]
    return sorted(rows, key=lambda row: (row.name == OTHER, -row.copies, -row.recrawls, row.name))[:HOSTS_SHOWN]


def _sizes(tally: Tally) -> list[tuple[str, int, float]]:
    """Return clusters by size: single sizes, then ranges that double."""
    counts: dict[str, int] = {}
    for name, size_range in _ranges():
        counts[name] = 0
        sizes = tally.clusters.sizes()
        counts[name] = sum(count for size, count in sizes.items() if size in size_range)
        if not any(size >= size_range.stop for size in sizes):
            break
    most = max(counts.values(), default=0)
    return [(name, count, round(100 * count / most, 2)) for name, count in counts.items()] if most else []


def _ranges() -> Iterator[tuple[str, range]]:
    for size in (2, 3, 4):
        yield f"{size}", range(size, size + 1)
    low = 5
    while True:
        high = (low - 1) * 2
        yield f"{low:,} to {high:,}", range(low, high + 1)
        low = high + 1


def _with_texts(cluster: Cluster, read: Read | None) -> Shown:
    other = cluster.farthest
    texts = (read.texts.get(cluster.original.doc_id), read.texts.get(other.doc_id)) if read else (None, None)
    compared = None if texts[0] is None or texts[1] is None else difference(texts[0], texts[1])
    return Shown(cluster, cluster.members[:MEMBERS_SHOWN], other, compared)
