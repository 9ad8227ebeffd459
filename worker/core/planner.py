"""
Plans an index: which rules or layout fit a number of documents and a memory limit, at which cost.

For exact search, the plan chooses a layout for a distance. For directed search, it chooses the
blocks, which fix the layout except for the number of buckets. If more documents arrive than
planned, queries take longer, but find the same.

A query reads the filters of each bucket that it probes. With N documents and 2^b buckets, a bucket
holds N / 2^b filters on average, and with real fingerprints a few times more at the worst places.
More tables have longer prefixes and shorter buckets, but each table costs an entry per document and
a cache miss per probe.

Every worker holds the whole index. So a plan that needs more memory than a machine has is none:
what fits comes first, and if nothing does, that is an error.

The times are those of one core that runs what is deployed, compiled for x86-64-v3. Those of
directed search were measured (`make bench-rules`). The constants of exact search are fitted to
`make bench-index` on a server of 2023, within a factor of two.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from math import ceil, comb, inf
from typing import Any, Generic, NamedTuple, TypeVar

from worker.core.permutation import Layout, nested, permuted, probed
from worker.core.search import BLOCK_BITS_MIN, DISTANCE_MAX, SearchRules

BLOCKS_MAX = 10
INDEX_MAX = 1 << 31  # originals in one index
DOCUMENTS_MAX = 2**40
MEMORY_MIN = 2**27
EXPECTED_DEFAULT = 1_000_000  # the default size of an index, which grows beyond it
BITS_MAX = 22  # of a bucket number: 4 M buckets of 8 bytes per table
BUCKET_ENTRIES = 12  # wanted in a bucket: its filters are one cache line
ENTRY_BYTES = 8.0  # a filter and a reference
SLOT_BYTES = 12  # a fingerprint and a row
FREE = 1.22  # places for each entry, on average between two growths
FREE_PLACES = 4  # of a bucket, on average
HEAD_BYTES = 8 + FREE_PLACES * 8

QUERY_NS = 40.0  # a call's share and the fingerprint itself
PROBE_NS = 28.0  # a bucket found: two prefetched cache lines
LINE_NS = 12.5  # 16 filters, streamed and compared
TABLE_NS = 50.0  # an entry written
FAR_BYTES = 4e9  # beyond it, all of that takes FAR times as long, and more in a hundred tables
FAR = 2.0
CANDIDATE_NS = 45.0  # a filter that matched: a fingerprint read at random, others meanwhile
DIRECTED_ENTRY_BYTES = 10.0
DIRECTED_DOUBTS_BYTES = 8
DIRECTED_FREE = 1.075
DIRECTED_FREE_PLACES = 3.75  # of a bucket, on average
DIRECTED_BITS = 16, 26  # bounds of the bits of a bucket number
# The buckets of ten wide blocks take 21 MB when empty; an index that is sized for fewer documents
# would grow into long buckets.
WIDE_EXPECTED = 3_000_000
# Of a document, on an Intel Xeon of 2023: beyond it an index has outgrown its rules, with 18,000
# documents/s on one core.
SERVED_US_MAX = 55.0
TOGETHER_ROWS = 1 << 16  # of a call, at most, that are searched together where probes are sorted
# Where sorting begins to pay: entries of a bucket, and probes of a bucket by all rows of a call, on
# average. With fewer, an AMD EPYC of 2024 takes longer than row by row. An Intel Xeon of 2023 gains
# from one probe on if buckets have 150 entries, but not with AVX-512.
ENTRIES_MIN = 32
PROBED_MIN = 3.0

COPIES = 0.5  # of the documents of an archive
# The memory of a task of `archive`, all of which `--task-memory` limits.
#
#     process   TASK_BYTES: Python with its libraries, kernels, the rows and answers in hand; 300 MB
#               of the judge and 180 of a search were measured, in an engine that has 30 of its own,
#               before probes were sorted, which takes 67 MB with 64 patterns and 134 with 128, and
#               24 for what is found
#     judge     JUDGE_HELD_BYTES for each original of the run, outside or not: a table of doc_ids,
#               one of URLs and one of the texts of duplicates, 10 each, and 5 of columns
#     judge     or JUDGE_RESTORED_BYTES for each original before its leg, if that is more: while the
#               tables are made anew from the last snapshot, before there is an index. Measured with
#               6 and 8 M originals: 71 and 82, and the columns
#     judge     4 for each prefix of each block: how many originals are listed there outside
#     judge     an index of the originals of its leg, and of those before that may leave in it
#     search    an index of the originals of its slice, and SLICE_HELD_BYTES for each while it is
#               made: fingerprint, doubts, blocks and number
#     search    SLICE_MADE_BYTES for each besides, while the tables grow: measured with 2 to 5 M
#
# Other columns, slices and what was found lie in files, which the system may drop from memory.
TASK_BYTES = 0.5e9
JUDGE_HELD_BYTES = 35
JUDGE_RESTORED_BYTES = 87
SLICE_HELD_BYTES = 22
SLICE_MADE_BYTES = 20
LEG_ROWS_MIN = 1 << 20  # fewer would be judged faster by one task
LEG_ROWS_MAX = 1 << 27  # what a lost judge does again at most, if no snapshot was due
SLICE_ROWS_MAX = 1 << 27
# Originals of other tasks are counted by block and prefix, 4 bytes each.
PREFIXES_MAX = 1 << 30
NOTICE_SHARE = 0.7  # of what its rules serve: a crawl that grows evenly has time for a rebuild


class Size(NamedTuple):
    """Rules that serve up to so many originals, with what `make bench-rules` measured of them."""

    name: str
    rules: SearchRules
    documents_max: int  # originals, at a cost of at most SERVED_US_MAX
    recall: float  # of the 645 labelled copies
    # Originals, and the microseconds of processor time that a document takes among as many, judged
    # and indexed with others, as many a call as an archive, a start from the log and a worker that
    # is behind have. Processors differ: an Intel Xeon of 2023 took twice as long.
    measured_us: tuple[tuple[int, float], ...]

    @property
    def measured_max(self) -> int:
        """The most originals that it was measured with."""
        return self.measured_us[-1][0]


class Blocks(NamedTuple):
    """The blocks of a directed search, how wide they are, and the prefixes looked up in each."""

    number: int
    bits: int
    patterns: int


# Rules of the log's definition that `search_size` decides, or that have one value.
_NO_SETTINGS = ("search_blocks", "search_block_bits", "search_patterns", "search_prefix_max")
_NUMBERS = re.compile(r"([0-9]{1,3})x([0-9]{1,3})x([0-9]{1,3})")

# Wider blocks have shorter buckets, and find a little less. Three side by side with 128 patterns
# took the place of pairs of runs, 6x20x64 and 10x20x24: they take a half and a third of the memory
# and no more time. "large" finds more than its predecessor, "huge" more if words were replaced and
# fewer if blocks were (`results/rules.md`).
MEASURED_ON = "AMD EPYC (family 26, model 2), x86-64-v3"
SIZES = (
    Size(
        "small",
        SearchRules(),
        20_000_000,
        0.9984,
        ((1_000_000, 4.3), (10_000_000, 12.3), (30_000_000, 29.7)),
    ),
    Size(
        "large",
        SearchRules(blocks=3, block_bits=19, patterns=128),
        50_000_000,
        0.9969,
        ((1_000_000, 3.6), (10_000_000, 7.5), (30_000_000, 12.6), (100_000_000, 34.5)),
    ),
    Size(
        "huge",
        SearchRules(blocks=3, block_bits=21, patterns=128),
        100_000_000,
        0.9953,
        ((1_000_000, 4.7), (10_000_000, 6.0), (30_000_000, 9.2), (100_000_000, 21.7)),
    ),
)
# For more than anybody has measured: buckets stay short up to 800 M originals, but fewer copies are
# found.
BEYOND = Size(
    "",
    SearchRules(blocks=10, block_bits=26),
    DOCUMENTS_MAX,
    0.9907,
    ((1_000_000, 7.0), (10_000_000, 10.7), (30_000_000, 13.8), (100_000_000, 29.1)),
)
Search = TypeVar("Search", Layout, SearchRules)


class Plan(NamedTuple, Generic[Search]):
    """The cost of one search for `documents`."""

    search: Search
    documents: int
    bits: int  # buckets of each table: 2^bits
    scanned: float  # filters, or entries of a directed search, read by one query
    memory_bytes: float
    query_insert_ns: float  # one query and one insertion

    @property
    def bytes_per_document(self) -> float:
        """Memory of one."""
        return self.memory_bytes / self.documents


def layouts(max_distance: int) -> list[Layout]:
    """
    Return the layouts worth considering for a distance: Manku's, and those of few tables with
    neighbouring prefixes.

    Left out are those of more than 4,096 probes or 128 tables.
    """
    found = [permuted(max_distance, blocks) for blocks in range(max_distance + 1, BLOCKS_MAX + 1)]
    found += [probed(max_distance, blocks) for blocks in range(2, max_distance + 1)]
    if 1 <= max_distance <= 3:
        found.append(nested(max_distance, max_distance + 1, max_distance + 1))
    return [
        layout for layout in found if layout.probes <= 4_096 and len(layout.permutations) <= 128
    ]


def estimate(layout: Layout, documents: int) -> Plan[Layout]:
    """
    Return the cost of a layout.

    Args:
        layout: blocks and tables of an exact search.
        documents: originals that the index holds.

    >>> round(estimate(permuted(3, 4), 10**6).bytes_per_document)
    62
    """
    tables = len(layout.permutations)
    widest = max(table.prefix_bits for table in layout.permutations)
    wanted = max(1, documents // BUCKET_ENTRIES).bit_length()
    bits = min(widest, max(8, wanted), BITS_MAX) if widest > 16 else widest
    scanned = lines = 0.0
    for table in layout.permutations:
        length = documents / 2 ** min(bits, table.prefix_bits)
        scanned += table.probes * length
        lines += table.probes * max(0.0, length / 16)
    memory = (
        documents * (tables * ENTRY_BYTES * FREE + SLOT_BYTES) + tables * 2.0**bits * HEAD_BYTES
    )
    time = QUERY_NS + layout.probes * PROBE_NS + lines * LINE_NS + tables * TABLE_NS
    if memory > FAR_BYTES:
        time *= FAR
    # Of filters, by chance.
    passing = sum(comb(32, bits) for bits in range(layout.max_distance + 1)) / 2**32
    time += scanned * passing * CANDIDATE_NS
    return Plan(layout, documents, bits, scanned, memory, time)


def candidates(layout: Layout, documents: int) -> float:
    """Return how many documents share a probed prefix with a random fingerprint."""
    return sum(table.probes * documents / 2.0**table.prefix_bits for table in layout.permutations)


def plan(
    documents: int, max_distance: int, memory_bytes: float | None = None
) -> list[Plan[Layout]]:
    """
    Return every layout worth considering with its cost: those that fit, the fastest one leading,
    then those that do not.

    Args:
        memory_bytes: what the index may take; no limit when not given.
    Raises:
        ValueError: documents not 1 to 2^40, the distance not 0 to 16, or too little memory.

    Cost: some 2 ms; nothing is built.

    >>> [one.search.name for one in plan(2**30, 3, 64e9)][0]
    '3 blocks / 3 tables, radius 1'
    """
    _check(documents, memory_bytes)
    check_distance(max_distance)
    plans = [estimate(layout, documents) for layout in layouts(max_distance)]
    return fitting(sorted(plans, key=lambda one: one.query_insert_ns), memory_bytes)


def fitting(plans: list[Plan[Search]], memory_bytes: float | None) -> list[Plan[Search]]:
    """
    Return the plans in their order, those that fit into the memory first.

    Raises:
        ValueError: none does.
    """
    if memory_bytes is None:
        return plans
    smallest = min(plans, key=lambda one: one.memory_bytes)
    if smallest.memory_bytes > memory_bytes:
        raise ValueError(
            f"{smallest.documents:,} documents take {smallest.memory_bytes / 1e9:,.1f} GB of "
            f"memory at least, and one machine gives {memory_bytes / 1e9:,.1f} GB: give more, or "
            "keep fewer (expire_after_s, documents_max)"
        )
    return sorted(plans, key=lambda one: one.memory_bytes > memory_bytes)


def choose(
    max_distance: int, documents_expected: int = 0, layout: Layout | None = None
) -> Plan[Layout]:
    """Return the plan for an exact index. Without a layout, it is the fastest one."""
    documents = documents_expected or EXPECTED_DEFAULT
    return estimate(layout or _fastest(documents, max_distance), documents)


@cache
def _fastest(documents: int, max_distance: int) -> Layout:
    return plan(documents, max_distance)[0].search


def size_of(rules: SearchRules) -> Size | None:
    """
    Return the size whose blocks and patterns these rules have; what else they say does not matter.

    >>> size_of(SearchRules(max_distance=12)).name
    'small'
    """
    alike = (size for size in SIZES if _shape(size.rules) == _shape(rules))
    return next(alike, None)


def measured(rules: SearchRules) -> Size | None:
    """
    Return what was measured of rules with these blocks and patterns, which may have no name.

    >>> measured(SearchRules(blocks=10, block_bits=26)).recall
    0.9907
    """
    return BEYOND if _shape(rules) == _shape(BEYOND.rules) else size_of(rules)


def size_text(rules: SearchRules) -> str:
    """
    Return the setting `search_size` of these rules: a name, or else blocks, bits and patterns.

    >>> size_text(SearchRules(blocks=3, block_bits=19, patterns=128)), size_text(BEYOND.rules)
    ('large', '10x26x64')
    """
    size = size_of(rules)
    return f"{rules.blocks}x{rules.block_bits}x{rules.patterns}" if size is None else size.name


def settings_of(rules: SearchRules) -> dict[str, Any]:
    """
    Return the rules by the names of the settings that give them.

    >>> settings_of(SearchRules())["search_size"]
    'small'
    """
    others = {name: value for name, value in rules.settings.items() if name not in _NO_SETTINGS}
    return others | {"search_size": size_text(rules)}


def blocks_of(text: str) -> Blocks:
    """
    Return the blocks that a setting `search_size` names.

    Raises:
        ValueError: it is no name of SIZES and not three numbers.

    >>> blocks_of("large"), blocks_of("10x26x64")
    (Blocks(number=3, bits=19, patterns=128), Blocks(number=10, bits=26, patterns=64))
    """
    for size in SIZES:
        if text == size.name:
            return Blocks(size.rules.blocks, size.rules.block_bits, size.rules.patterns)
    numbers = _NUMBERS.fullmatch(text)
    if numbers is None:
        names = ", ".join(size.name for size in SIZES)
        raise ValueError(
            f"search_size must be {names}, or blocks, bits and patterns like 10x26x64, got {text!r}"
        )
    return Blocks(*map(int, numbers.groups()))


def _shape(rules: SearchRules) -> tuple[str, int, int, int]:
    return rules.mode, rules.blocks, rules.block_bits, rules.patterns


def rules_for(documents: int) -> SearchRules:
    """
    Return the default rules with the blocks and patterns for so many originals.

    >>> rules_for(60_000_000).text[:54]
    'directed, distance 16, 3 blocks of 21 bits, 128 patter'
    """
    fitting = (size.rules for size in SIZES if documents <= size.documents_max)
    return next(fitting, BEYOND.rules)


def archive_originals(documents: int) -> int:
    """
    Return how many originals an archive of so many documents is planned for.

    >>> archive_originals(30_000_000)
    15000000
    """
    return ceil(documents * (1 - COPIES))


def line_of(rules: SearchRules) -> str:
    """
    Return the line of a definition that gives a search the blocks and patterns of these rules.

    >>> line_of(SearchRules())
    'search_size = "small"'
    """
    return f'search_size = "{size_text(rules)}"'


class Growth:
    """
    Warns in time that an index will soon hold more originals than its rules serve, if they are of a
    named size: of others that is not known.

    Args:
        rules: those of the index.
        remedy: the command, to which the line of other rules is added.

    >>> growth = Growth(SearchRules(), "neardup rebuild with")
    >>> [growth.notice(documents) is None for documents in (13_999_999, 14_000_000, 27_999_999)]
    [True, False, True]
    """

    def __init__(self, rules: SearchRules, remedy: str) -> None:
        size = size_of(rules)
        self.documents_max = None if size is None else size.documents_max
        self._rules = rules
        self._remedy = remedy
        self._next = None if self.documents_max is None else NOTICE_SHARE * self.documents_max

    def notice(self, documents: int) -> str | None:
        """
        Return the warning for so many originals, or None. It is due once at NOTICE_SHARE of the
        number that the rules serve, and then at each doubling. Cost: a comparison.
        """
        if self._next is None or documents < self._next:
            return None
        self._next = 2 * documents
        serves = (
            f"{documents:,} originals are held, and the search serves {self.documents_max:,}: "
            f"beyond, a document may cost more than {SERVED_US_MAX:.0f} µs"
        )
        larger = rules_for(max(2 * documents, (self.documents_max or 0) + 1))
        if _shape(larger) == _shape(self._rules):
            return serves
        return f"{serves}. For more: {self._remedy} {line_of(larger)} in the definition"


def bucket_bits(rules: SearchRules, documents_expected: int) -> int:
    """
    Return the bits of a bucket number, at most those of the narrowest block: a bucket has about 12
    entries, or one prefix. Wide blocks get buckets for `WIDE_EXPECTED` documents at least, those of
    a named size for as many as the size before it serves.
    """
    narrowest = min(sum(width for _, width in runs) for runs in rules.runs)
    least = WIDE_EXPECTED if rules.block_bits > BLOCK_BITS_MIN else 0
    for smaller, size in pairwise(SIZES):
        if size is size_of(rules):
            least = smaller.documents_max
    wanted = (max(documents_expected, least) // BUCKET_ENTRIES).bit_length()
    low, high = DIRECTED_BITS
    return min(narrowest, max(low, min(wanted, high)))


def plan_directed(documents: int, memory_bytes: float | None = None) -> list[Plan[SearchRules]]:
    """
    Return the rules worth considering with their costs, the ones to take first.

    Those that do not fit into the memory come last.

    Raises:
        ValueError: documents or memory out of bounds, or nothing fits.

    >>> plan_directed(1_000_000)[0].search == SearchRules()
    True
    """
    _check(documents, memory_bytes)
    rules = rules_for(documents), *(size.rules for size in (*SIZES, BEYOND))
    chosen, *others = [estimate_directed(each, documents) for each in dict.fromkeys(rules)]
    others.sort(key=lambda one: one.query_insert_ns)
    return fitting([chosen, *others], memory_bytes)


def are_sorted(rules: SearchRules, rows: int, entries: float, bits: int) -> bool:
    """
    Return whether a search of so many rows sorts their probes (`tables/sorted_probes.py`).

    It does where a bucket has at least ENTRIES_MIN entries, and all rows together look it up at
    least PROBED_MIN times. Otherwise it takes longer than row by row: three times as long with 1 M
    originals and 1,000 rows.

    Args:
        entries: of a bucket, on average.
        bits: of a bucket number.

    >>> [are_sorted(SearchRules(), rows, 150, 16) for rows in (3_000, 4_000)]
    [False, True]
    """
    probed = min(rows, TOGETHER_ROWS) * rules.patterns / (1 << bits)
    return entries >= ENTRIES_MIN and probed >= PROBED_MIN


def entries_read(rules: SearchRules, documents: int) -> float:
    """Return how many entries a directed search reads among so many originals."""
    length = documents / 2.0 ** bucket_bits(rules, documents)
    return rules.blocks * rules.patterns * min(length, rules.prefix_max)


def directed_bytes(rules: SearchRules, documents: int) -> float:
    """Return the memory of the index of a directed search for so many originals."""
    buckets = 2.0 ** bucket_bits(rules, documents)
    each = rules.blocks * DIRECTED_ENTRY_BYTES * DIRECTED_FREE + DIRECTED_DOUBTS_BYTES
    heads = 8 + DIRECTED_FREE_PLACES * DIRECTED_ENTRY_BYTES
    return documents * each + rules.blocks * buckets * heads


def directed_us(rules: SearchRules, documents: int) -> float | None:
    """
    Return the microseconds of a document in a directed search, judged and indexed among so many
    originals. None for rules that were not measured.

    Between two numbers of originals that were measured, costs lie on a line. Beyond the last, they
    grow as the entries that are read.

    >>> directed_us(SearchRules(), 1), directed_us(SearchRules(patterns=48), 10**6)
    (4.3, None)
    """
    size = measured(rules)
    if size is None:
        return None
    points = size.measured_us
    most, most_us = points[-1]
    if documents >= most:
        return most_us * max(1.0, entries_read(rules, documents) / entries_read(rules, most))
    behind = max(bisect_right(points, (documents, inf)), 1)
    (few, few_us), (many, many_us) = points[behind - 1 : behind + 1]
    return few_us + (max(documents, few) - few) * (many_us - few_us) / (many - few)


def estimate_directed(rules: SearchRules, documents: int) -> Plan[SearchRules]:
    """
    Return the cost of a directed search that was measured.

    Raises:
        ValueError: these rules were not.
    """
    microseconds = directed_us(rules, documents)
    if microseconds is None:
        names = ", ".join(size_text(size.rules) for size in (*SIZES, BEYOND))
        raise ValueError(f"a search that was measured is {names}, got {size_text(rules)}")
    return Plan(
        rules,
        documents,
        bucket_bits(rules, documents),
        entries_read(rules, documents),
        directed_bytes(rules, documents),
        1e3 * microseconds,
    )


class LegSizes(NamedTuple):
    """How much of an archive fits into a task's memory at a time."""

    rows: int  # of a leg
    slice_rows: int  # originals in one slice


class PlannedLeg(NamedTuple):
    """A leg of an archive: rows that are judged with those before them outside."""

    begin: int  # its first row
    rows: int
    outside: int  # originals of the rows before it
    slices: int  # in which these are searched


def judge_bytes(rules: SearchRules, held: int, rows: int, inside: int = 0) -> float:
    """
    Return the memory of the judge of a leg in which each row becomes an original.

    Args:
        held: originals at its beginning.
        rows: of the leg.
        inside: how many of `held` are in its index, and not outside.

    >>> round(judge_bytes(SearchRules(), 100 * 10**6, 10**6) / 1e9, 2)
    9.2
    """
    index = directed_bytes(rules, max(1, rows + inside))
    judging = (held + rows) * JUDGE_HELD_BYTES + index
    return TASK_BYTES + _prefixes(rules) * 4 + max(judging, held * JUDGE_RESTORED_BYTES)


def slice_bytes(rules: SearchRules, originals: int) -> float:
    """
    Return the memory of a task that searches a slice of so many originals.

    >>> round(slice_bytes(SearchRules(), 10**6) / 1e9, 2)
    0.6
    """
    return (
        TASK_BYTES
        + originals * (SLICE_HELD_BYTES + SLICE_MADE_BYTES)
        + directed_bytes(rules, max(1, originals))
    )


def leg_sizes(rules: SearchRules, task_bytes: float, held: int, inside: int = 0) -> LegSizes:
    """
    Return how many rows the next leg has, and how many originals a slice: as many as a task of this
    memory has room for. `archive --task-memory` and its plan both ask here.

    Args:
        task_bytes: memory of a task.
        held: originals so far.
        inside: how many of them are not outside.
    Raises:
        ValueError: there is no room for LEG_ROWS_MIN rows, or the rules have so many prefixes that
            originals cannot be counted by prefix.
    Cost: some 50 estimates.

    >>> leg_sizes(SearchRules(), 1e9, 0)
    LegSizes(rows=5663068, slice_rows=5248090)
    """
    prefixes = _prefixes(rules)
    if prefixes > PREFIXES_MAX:
        raise ValueError(
            f"{line_of(rules)} has {prefixes:,} prefixes, and originals of other tasks are counted "
            f"for up to {PREFIXES_MAX:,}: one task judges by these rules. Leave --task-memory out"
        )
    least = max(judge_bytes(rules, held, LEG_ROWS_MIN, inside), slice_bytes(rules, LEG_ROWS_MIN))
    if least > task_bytes:
        raise ValueError(
            f"--task-memory of {task_bytes / 1e6:,.0f} MB is too small: with {line_of(rules)}, "
            f"{held:,} originals before a leg of {LEG_ROWS_MIN:,} rows, a task takes "
            f"{least / 1e6:,.0f} MB. Give {ceil(least / 1e6)}M or more"
        )

    def rows_within(bytes_of: Callable[[int], float], rows_max: int) -> int:
        return bisect_right(range(1, INDEX_MAX), task_bytes, hi=rows_max, key=bytes_of)

    return LegSizes(
        rows_within(lambda rows: judge_bytes(rules, held, rows, inside), LEG_ROWS_MAX),
        rows_within(lambda rows: slice_bytes(rules, rows), SLICE_ROWS_MAX),
    )


def planned_legs(
    rules: SearchRules, task_bytes: float, documents: int, originals: int
) -> Iterator[PlannedLeg]:
    """
    Yield the legs of an archive whose originals are spread evenly over its rows.

    Raises ValueError: as `leg_sizes`, also for a later leg, since the judge holds all originals.

    >>> [leg.slices for leg in planned_legs(SearchRules(), 1e9, 10**7, 5 * 10**6)]
    [0, 1]
    """
    begin = 0
    while begin < documents:
        outside = begin * originals // documents
        try:
            sizes = leg_sizes(rules, task_bytes, outside)
        except ValueError:
            leg_sizes(rules, task_bytes, originals)  # says what the last leg takes
            raise
        rows = min(sizes.rows, documents - begin)
        yield PlannedLeg(begin, rows, outside, -(-outside // sizes.slice_rows))
        begin += rows


def _prefixes(rules: SearchRules) -> int:
    return rules.blocks << rules.block_bits


def check_distance(max_distance: int) -> None:
    """Raise ValueError if an exact search has no such distance."""
    if not 0 <= max_distance <= DISTANCE_MAX:
        raise ValueError(
            f"max_distance must be 0 to {DISTANCE_MAX}, got {max_distance}: too many would match"
        )


def _check(documents: int, memory_bytes: float | None) -> None:
    if not 1 <= documents <= DOCUMENTS_MAX:
        raise ValueError(f"documents must be 1 to 2^40, got {documents}")
    if memory_bytes is not None and memory_bytes < MEMORY_MIN:
        raise ValueError(
            f"memory must be at least {MEMORY_MIN >> 20} MiB, got {memory_bytes} bytes: "
            "an empty index takes more"
        )
