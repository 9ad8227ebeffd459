"""
Makes the report's page of charts, tables and texts side by side. Equal answers give equal bytes.

Charts are values: the heights of bars and the labels of axes. The template draws them. Bars begin
at zero. Widths and places are shares of the plot's width, so that a chart fits any screen and its
words keep their size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from unicodedata import category

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import ArrayLike, NDArray

from schemas.fields import format_timestamp
from worker.core.compare import Spread, Step, spread, steps
from worker.core.document import ApartReason, KeptApart, Original, Verdict
from worker.report.answers import WantedTexts
from worker.report.tally import NO_TIME, OTHER, Class, Cluster, Tally, brought_ms
from worker.shell.files.archives.rows import brought_url

HEIGHT = 190  # pixels of the plot
BINS_MAX = 48
LABELS_MAX = 5  # along the axis of time
OUTSIDE = 0.005  # share of the times that may lie far outside, at either end


# Classes that are drawn as one: name, pattern, classes.
GROUPS: tuple[tuple[str, str, tuple[Class, ...]], ...] = (
    ("new", "new", (Class.NEW, Class.VERSION)),
    ("copies", "copy", (Class.EXACT, Class.NEAR)),
    ("re-crawls", "recrawl", (Class.RECRAWL,)),
    ("others", "other", (Class.SKIPPED, Class.DELETED, Class.DEAD)),
)


class BarPiece(NamedTuple):
    """A part of a bar, from `top` down, in pixels."""

    pattern: str
    top: float
    height: float


class Bar(NamedTuple):
    """
    A bar of a chart: its place in percent of the width, its pieces, and its counts in the order of
    the chart's names.
    """

    label: str
    x: float
    width: float
    pieces: list[BarPiece]
    counts: list[int]

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


class Chart(NamedTuple):
    """Bars over an axis; `levels` are the lines of the scale, as (pixels from above, count)."""

    names: list[str]
    bars: list[Bar]
    levels: list[tuple[float, int]]
    every: int  # bars per label of the axis


def ticks(most: int) -> list[int]:
    """
    Return two to five round numbers, from 0 to the first one that is at least `most`.

    >>> ticks(7), ticks(120)
    ([0, 2, 4, 6, 8], [0, 50, 100, 150])
    """
    step = 1
    for step in (factor * 10**power for power in range(19) for factor in (1, 2, 5)):
        if step * 4 >= most:
            break
    return list(range(0, step * max(math.ceil(most / step), 1) + 1, step))


def stacked(
    names: Sequence[str], patterns: Sequence[str], labels: Sequence[str], counts: NDArray[np.int64]
) -> Chart:
    """Stack counts: each bar has a row, and each name a column."""
    scale = ticks(int(counts.sum(axis=1).max(initial=0)))
    slot = 100 / max(len(labels), 1)
    gap = slot * (0.28 if len(labels) <= 24 else 0.12)
    bars = []
    for number, (label, row) in enumerate(zip(labels, counts.tolist(), strict=True)):
        top = float(HEIGHT)
        pieces = []
        for pattern, count in zip(patterns, row, strict=True):
            height = HEIGHT * count / scale[-1]
            top -= height
            if count:
                pieces.append(BarPiece(pattern, round(top, 2), round(height, 2)))
        bars.append(
            Bar(label, round(number * slot + gap / 2, 3), round(slot - gap, 3), pieces, row)
        )
    levels = [(round(HEIGHT * (1 - level / scale[-1]), 2), level) for level in scale]
    return Chart(list(names), bars, levels, math.ceil(len(labels) / LABELS_MAX))


_SECOND = 1_000
_STEPS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    86_400, 172_800, 604_800, 1_209_600, 2_592_000, 7_776_000, 31_536_000,
)  # fmt: skip


def bins(first_ms: int, last_ms: int) -> tuple[int, int]:
    """
    Return the beginning and the width (ms) of at most BINS_MAX bins. The width is a round time.
    """
    for step in (_SECOND * seconds for seconds in _STEPS_S):
        start = first_ms // step * step
        if (last_ms - start) // step < BINS_MAX:
            return start, step
    step *= math.ceil((last_ms - first_ms) / step / (BINS_MAX - 1))
    return first_ms // step * step, step


def times(classes: ArrayLike, times_ms: ArrayLike) -> tuple[Chart, int, int, int] | None:
    """
    Draw documents over the time of their capture. None if no document has one.

    Also returns the ms per bar, how many documents lie too far outside to be drawn, and how many
    have no time.
    """
    classes = np.asarray(classes)
    times_ms = np.asarray(times_ms)
    known = times_ms != NO_TIME
    if not known.any():
        return None
    inside = times_ms[known]
    low, high = (int(value) for value in np.quantile(inside, (OUTSIDE, 1 - OUTSIDE)))
    slack = max(high - low, 1_000) // 10
    first = max(int(inside.min()), low - slack)
    last = min(int(inside.max()), high + slack)
    start, step = bins(first, last)
    number = (last - start) // step + 1
    shown = known & (times_ms >= first) & (times_ms <= last)
    places = (times_ms[shown] - start) // step
    counts = np.zeros((number, len(GROUPS)), np.int64)
    names, patterns, groups = zip(*GROUPS, strict=True)
    for column, group in enumerate(groups):
        counts[:, column] = np.bincount(places[np.isin(classes[shown], group)], minlength=number)
    chart = stacked(names, patterns, _labels(start, first, step, number), counts)
    return chart, step, int(known.sum() - shown.sum()), int((~known).sum())


def _labels(start: int, first: int, step: int, number: int) -> list[str]:
    texts = [format_timestamp(max(start + step * place, first)) for place in range(number)]
    if step >= 86_400 * _SECOND:
        return [text[:10] for text in texts]
    end = 16 if step >= 60 * _SECOND else 19
    if texts[0][:10] == texts[-1][:10]:  # one day
        return [text[11:end] for text in texts]
    return [f"{text[5:10]} {text[11:end]}" for text in texts]


def shares(counts: Mapping[str, int]) -> list[tuple[str, int, float]]:
    """
    Return name, count and percentage of the largest count, the largest first.

    >>> shares({"a": 1, "b": 4})
    [('b', 4, 100.0), ('a', 1, 25.0)]
    """
    most = max(counts.values(), default=0)
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return [(name, count, round(100 * count / most, 2)) for name, count in ordered]


PIECES_MAX = 6_000  # pieces of each text that are compared, at most
ROWS_MAX = 12
CONTEXT = 14  # equal pieces shown on either side of a difference

# A word, a character of a script without spaces, or a sign; each with its marks and the white space
# after it.
_WIDE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
)
_MARKS = "\u200c\u200d" + "".join(
    one for one in map(chr, range(0x300, 0x1_0000)) if category(one)[0] == "M"
)
_PIECE = re.compile(rf"(?:[{_WIDE}][{_MARKS}]*|(?:[^\W{_WIDE}]|[{_MARKS}])+|[^\w\s])\s*")


class TextPart(NamedTuple):
    """Some text of one side, and whether the other side has it."""

    text: str
    is_shared: bool


class TextRow(NamedTuple):
    """
    Two pieces of text to show side by side, and how many equal words were left out before them.
    """

    left_out: int
    left: list[TextPart]
    right: list[TextPart]


class Difference(NamedTuple):
    """
    The comparison of two texts: rows, how many further rows there are, and how the difference is
    spread.
    """

    rows: list[TextRow]
    more: int
    left_out: int  # equal words after the last row
    is_cut: bool  # one text is longer than the compared part
    spread: Spread

    @property
    def is_equal(self) -> bool:
        """Whether the compared parts are equal."""
        return self.spread.kind == "equal"


def difference(first: str, second: str) -> Difference:
    """
    Compare two texts word by word. Case and signs count; white space does not.

    Cost: at most 0.1 s and 5 MB.
    """
    left, right = (_PIECE.findall(text) for text in (first, second))
    is_cut = max(len(left), len(right)) > PIECES_MAX
    found = steps(left[:PIECES_MAX], right[:PIECES_MAX])
    rows, left_out = _rows(found)
    more = max(len(rows) - ROWS_MAX, 0)
    return Difference(rows[:ROWS_MAX], more, left_out, is_cut, spread(found))


def _rows(found: list[Step]) -> tuple[list[TextRow], int]:
    """Return the rows, and how many equal pieces follow the last."""
    rows = [TextRow(0, [], [])]
    left_out = 0
    for number, (kind, here, there) in enumerate(found, start=1):
        if kind != "equal" or len(here) <= 2 * CONTEXT:
            _add(rows[-1], here, there, is_shared=kind == "equal")
            continue
        head = CONTEXT if number > 1 else 0
        tail = CONTEXT if number < len(found) else 0
        if len(found) == 1:  # nothing differs: the beginning
            head = 2 * CONTEXT
        left_out = len(here) - head - tail
        _add(rows[-1], here[:head], there[:head], is_shared=True)
        if tail:
            rows = [*(rows if head else []), TextRow(left_out, [], [])]
            _add(rows[-1], here[-tail:], there[-tail:], is_shared=True)
            left_out = 0
    return rows, left_out


def _add(row: TextRow, here: list[str], there: list[str], *, is_shared: bool) -> None:
    for side, pieces in ((row.left, here), (row.right, there)):
        if pieces:
            side.append(TextPart("".join(pieces), is_shared))


class Sides(NamedTuple):
    """Two texts side by side, and what was left out of the page that each is from, if it is one."""

    difference: Difference
    accounts: list[str | None]


# Why a document stays new although an original is similar enough, in words.
APART = {
    ApartReason.OTHER_PAGE: "another page of the same host, at another URL and with another title",
    ApartReason.LIKE_OTHERS: "about as similar to other originals as to the most similar one",
}
HOSTS_SHOWN = 20
REASONS_SHOWN = 20
MEMBERS_SHOWN = 8
_DISTANCE_BARS_MIN = 13

# Control characters, lone surrogates, and marks that change the direction of text. A reader needs
# none of them.
_UNSHOWN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)
_WEB = re.compile(r"https?://[^\s/?#]", re.IGNORECASE)


def page(
    tally: Tally,
    title: str,
    clusters: list[Cluster],
    read: WantedTexts | None,
    settings: Mapping[str, Mapping[str, Any]],
) -> bytes:
    """
    Return the report as one page of HTML, which loads nothing and runs nothing.

    Every text of a document is escaped; only http and https addresses become links.

    Args:
        title: the name of the crawl, file or topic.
        clusters: the largest clusters, in the order in which they are shown.
        read: texts and languages, if documents were given.
        settings: the settings of the fingerprint, by the hash of its parameters.
    """
    environment = Environment(
        loader=PackageLoader("worker.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters.update(
        count="{:,}".format,
        percent=_percent,
        time=format_timestamp,
        day=_day,
        is_web=_is_web,
        url=_url,
        name=_name,
        captured=_captured,
    )
    counts = tally.counts()
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
        hosts_total=len(tally.hosts),
        sizes=_sizes(tally),
        captured_again=tally.clusters.captured_again(),
        MEMBERS_SHOWN=MEMBERS_SHOWN,
        clusters=[
            (cluster, _sides(cluster.original.doc_id, cluster.farthest.doc_id, read))
            for cluster in clusters
        ],
        apart=[(text, tally.apart[reason]) for reason, text in APART.items()],
        apart_examples=_apart_examples(tally, read),
        read=read,
        languages=shares(read.languages)[:REASONS_SHOWN] if read else [],
        reasons=shares(_skipped(tally))[:REASONS_SHOWN],
        errors=sorted(tally.errors.items(), key=lambda one: (-one[1][0], one[0]))[:REASONS_SHOWN],
        changed=[(name, tally.changed[name]) for name in ("not", "little", "much")],
        schemes=tally.schemes.most_common(),
        settings=settings,
    )
    return text.encode("utf-8", "replace")


def _skipped(tally: Tally) -> dict[str, int]:
    """Return how many documents were skipped for each reason."""
    reasons = tally.reasons.items()
    return {reason: count for (of, reason), count in reasons if of is Class.SKIPPED}


def _shown(value: Any) -> Any:
    return (
        _UNSHOWN.sub("\ufffd", value)
        if isinstance(value, str) and not isinstance(value, Markup)
        else value
    )


def _day(timestamp_ms: int) -> str:
    """
    Return a time to the second, in UTC.

    >>> _day(1_709_251_385_000)
    '2024-03-01 00:03:05'
    """
    return format_timestamp(timestamp_ms)[:19].replace("T", " ")


def _url(document: Original | Verdict) -> str | None:
    """Return the URL that a document brought."""
    return brought_url(document.url)


def _name(document: Original | Verdict) -> str:
    """Return the URL that a document brought, or its doc_id."""
    return brought_url(document.url) or document.doc_id


def _captured(document: Original | Verdict) -> bool:
    """Return whether a document brought its time of capture."""
    return brought_ms(document.fetched_at_ms) is not None


def _is_web(url: str) -> bool:
    return _WEB.match(url) is not None and not _UNSHOWN.search(url)


def _percent(part: float, whole: float) -> str:
    """
    Return a share as text. A share that is not 0 is never shown as 0.

    >>> _percent(1, 3), _percent(1, 10_000), _percent(0, 7)
    ('33.3 %', '< 0.1 %', '0 %')
    """
    if not part:
        return "0 %"
    percent = 100 * part / whole
    return "< 0.1 %" if percent < 0.1 else f"{percent:.1f} %"


def _span(tally: Tally) -> tuple[str, str] | None:
    times_ms = np.asarray(tally.times_ms)
    known = times_ms[times_ms != NO_TIME]
    return (_day(int(known.min()))[:10], _day(int(known.max()))[:10]) if len(known) else None


def _distances(tally: Tally) -> Chart | None:
    counts = tally.distances
    if not counts.any():
        return None
    bars = max(int(np.flatnonzero(counts.any(axis=0)).max()) + 1, _DISTANCE_BARS_MIN)
    columns = (Class.EXACT, Class.NEAR, Class.RECRAWL)
    names = ("copies, token for token", "copies that differ", "re-crawls")
    return stacked(
        names,
        ("exact", "copy", "recrawl"),
        [str(bit) for bit in range(bars)],
        counts[columns, :bars].T,
    )


def _hosts(tally: Tally) -> list[tuple[str, int, int, int, float]]:
    """
    Return the hosts with the most copies.

    Each has its documents, copies and re-crawls, and its copies in percent of its documents.
    """
    rows = []
    for host, counts in tally.hosts.items():
        documents = sum(counts)
        copies = counts[Class.EXACT] + counts[Class.NEAR]
        recrawls = counts[Class.RECRAWL]
        if copies or recrawls:
            rows.append((host, documents, copies, recrawls, round(100 * copies / documents, 2)))
    return sorted(rows, key=lambda row: (row[0] == OTHER, -row[2], -row[3], row[0]))[:HOSTS_SHOWN]


def _sizes(tally: Tally) -> list[tuple[str, int, float]]:
    """
    Return clusters by size: 2, 3, 4, then 5 to 8, 9 to 16 and so on, with percent of the most.
    """
    sizes = tally.clusters.sizes()
    counts: dict[str, int] = {}
    low = high = 2
    while low <= max(sizes, default=0):
        name = f"{low}" if low == high else f"{low:,} to {high:,}"
        counts[name] = sum(count for size, count in sizes.items() if low <= size <= high)
        low = high + 1
        high = high + 1 if high < 4 else 2 * high
    return [
        (name, count, round(100 * count / max(counts.values()), 2))
        for name, count in counts.items()
    ]


def _apart_examples(
    tally: Tally, read: WantedTexts | None
) -> list[tuple[str, Verdict, KeptApart, Sides | None]]:
    """Return for each example the rule in words, its verdict, and its original beside it."""
    return [
        (text, verdict, apart, _sides(apart.doc_id, verdict.doc_id, read))
        for reason, text in APART.items()
        for verdict in tally.apart_examples[reason]
        if (apart := verdict.kept_apart) is not None
    ]


def _sides(original: str, other: str, read: WantedTexts | None) -> Sides | None:
    """Compare an original with another document, if the texts of both are known."""
    texts = read.texts if read else {}
    first = texts.get(original)
    second = texts.get(other)
    if first is None or second is None:
        return None
    accounts = [one.account.text if one.account else None for one in (first, second)]
    return Sides(difference(first.text, second.text), accounts)
