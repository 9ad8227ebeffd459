"""
Snapshots whose checksum is right and whose content is not: refused, or a replica like any other.
"""

from __future__ import annotations

import json
import random
import struct
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
import xxhash
from numpy.typing import NDArray

from tests.conftest import EXAMPLES, REPOSITORY, output_of
from tests.log.test_replica import DEFINITION, SOURCE, TOPIC, packed, small_chunks
from tests.log.test_snapshot import LOG, to_bytes
from worker.core.search import SearchRules
from worker.errors import RestoreError, StopError
from worker.log import snapshot
from worker.log.record import Row, RowKind, Source, decode
from worker.log.replica import Replica
from worker.log.rules import Definition, Retention
from worker.log.snapshot import FORMAT_VERSION, adopt, definition_of, restore, unpack
from worker.log.snapshot_schema import COLUMNS, NUMBER_MAX, Column
from worker.shell.messages import encode_answers

RETAINED = Definition("nd1", "0" * 16, DEFINITION.search, Retention(50_000, "last", 60))
LISTING = Definition("nd1", "0" * 16, SearchRules(look_min=700))
DEFINITIONS = {"endless": DEFINITION, "retained": RETAINED, "listing": LISTING}
OTHER_SOURCE = Source(TOPIC, 1)
NEW_SOURCE = Source(b"n" * 16, 0)
NUMBERS: tuple[int, ...] = (
    0,
    1,
    -1,
    2,
    7,
    63,
    64,
    127,
    128,
    255,
    256,
    1_000,
    1_001,
    2**16,
    2**31,
    2**32,
    2**53,
)
NUMBERS += (2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**31), -(2**62), -(2**63))
# What may stand in place of a value in the header.
VALUES: tuple[Any, ...] = (None, True, False, 0.5, 1e308, float("inf"), float("nan"), 2**70, "")
VALUES += ("x", "zz", "00", "é" * 40, [], {}, [1], [[]], {"a": 1}, ["a", "b"], *NUMBERS)


class Content(NamedTuple):
    """A snapshot before it is sealed: what a forger changes."""

    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def opened(data: bytes) -> Content:
    header, arrays = unpack(data)
    return Content(header, {name: values.copy() for name, values in arrays.items()})


def sealed(content: Content) -> bytes:
    """Return the file of this content, with a right checksum and right counts."""
    header = dict(content.header)
    counts = {name: len(values) for name, values in content.arrays.items()}
    header.setdefault("arrays", counts)
    text = json.dumps(header).encode()
    text += b" " * (-(snapshot._PREAMBLE.size + len(text)) % 64)
    body = text
    for values in content.arrays.values():
        raw = values.tobytes()
        body += raw + b"\0" * (-len(raw) % 64)
    size = snapshot._PREAMBLE.size + len(body)
    head = struct.pack("<8sIIQ", snapshot._MAGIC, FORMAT_VERSION, len(text), size)
    return head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head + body)) + body


@cache
def written_by(definition: Definition) -> bytes:
    """A snapshot with something in every column, and with memory that was given back."""
    with small_chunks(3):
        return _written_by(definition)


def _written_by(definition: Definition) -> bytes:
    rows = [
        Row(n, RowKind.FULL, f"d{n}", f"https://é.example/{n % 7}", n, n << 40, n, 9, "", n, 1 << n)
        for n in range(60)
    ]
    rows += [row._replace(doc_id=f"copy-{row.doc_id}") for row in rows[40:50]]
    rows += [row._replace(doc_id=f"near-{row.doc_id}", digest=99) for row in rows[50:54]]
    rows += [Row(0, RowKind.SHORT, f"s{n}", "", n, 0, n % 3, 1) for n in range(6)]
    rows += [Row(0, RowKind.DELETED, f"d{n}", "", 0) for n in range(30)]
    rows.append(Row(0, RowKind.SKIPPED, "k", "", 0, note="too-short"))
    rows.append(rows[55]._replace(fingerprint=0xFFFF))
    rows = [row._replace(offset=at) for at, row in enumerate(rows)]
    replica = Replica(definition)
    for number, first in enumerate(range(0, len(rows), 10)):
        source = OTHER_SOURCE if number % 3 == 2 else SOURCE
        data = packed(definition, rows[first : first + 10], source=source)
        replica.apply(decode(data), number, 1_000 + number)
    replica.committed(SOURCE, 70)
    data = to_bytes(replica)
    empty = {"originals.seen", "originals.moved"} if definition.retention.is_endless else set()
    assert {name for name, values in unpack(data)[1].items() if not len(values)} == empty
    return data


# ---- what a forger does


def _with_number(values: NDArray[Any], dice: random.Random) -> None:
    """Set one entry, or all, to a number that a bound may be next to."""
    if values.dtype.names:
        values = values[dice.choice(values.dtype.names)]
        if values.dtype.names:
            values = values[dice.choice(values.dtype.names)]
    number = dice.choice(NUMBERS) + dice.choice((0, 0, dice.getrandbits(64)))
    bits = values.dtype.itemsize * 8 if values.ndim == 1 else 64
    wrapped = np.array(number % 2**bits, f"u{bits // 8}").view(values.dtype)
    values[dice.randrange(len(values)) if dice.random() < 0.7 else slice(None)] = wrapped


def _next_to(values: NDArray[Any], dice: random.Random) -> None:
    """Change one byte of one entry a little."""
    flat = values.view(np.uint8).reshape(-1)
    at = dice.randrange(len(flat))
    flat[at] = (int(flat[at]) + dice.choice((-1, 1, 128))) % 256


def _swapped(values: NDArray[Any], dice: random.Random) -> None:
    first = dice.randrange(len(values))
    second = dice.randrange(len(values))
    values[[first, second]] = values[[second, first]]


IN_PLACE: list[Callable[[NDArray[Any], random.Random], None]] = [_with_number, _next_to, _swapped]
RESIZED: list[Callable[[NDArray[Any], random.Random], NDArray[Any]]] = [
    lambda values, dice: values[: dice.randrange(len(values) + 1)],
    lambda values, dice: values[dice.randrange(len(values) + 1) :],
    lambda values, dice: np.concatenate([values, values[: dice.randrange(len(values) + 1)]]),
    lambda values, _: values[::-1].copy(),
    lambda values, dice: values[[*range(len(values))[:: dice.choice((2, 3))]]],
]


def change_column(content: Content, dice: random.Random) -> None:
    name = dice.choice(list(COLUMNS))
    values = content.arrays[name]
    if not len(values):
        content.arrays[name] = np.zeros(dice.randrange(1, 200), values.dtype)
    elif dice.random() < 0.7:
        dice.choice(IN_PLACE)(values, dice)
    else:
        content.arrays[name] = dice.choice(RESIZED)(values, dice)


def change_header(content: Content, dice: random.Random) -> None:
    """Change, remove or add a value anywhere in the header, at any depth."""
    counts = {name: len(values) for name, values in content.arrays.items()}
    content.header.setdefault("arrays", counts)
    if dice.random() < 0.8:  # what `json` gives a reader is right for most forgeries
        content.header.pop("arrays")
    place: Any = content.header
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = dice.choice(keys)
        if isinstance(place[key], dict | list) and dice.random() < 0.7:
            place = place[key]
            continue
        break
    kind = dice.random()
    if kind < 0.7:
        place[key] = dice.choice(VALUES)
    elif kind < 0.85:
        del place[key]
    elif isinstance(place, dict):
        place[f"{key}s"] = place[key]
    else:
        place.append(place[key])


def use(data: bytes, definition: Definition) -> bool:
    """Read a snapshot in every way, and go on with its replica. False: it is refused."""
    try:
        definition_of(data)
        replica = restore(data, definition, LOG)
        replicas = [replica, adopt(data, definition)]
    except (RestoreError, StopError):
        return False
    for replica in replicas:
        replica.check()
    replica = replicas[0]
    for source, pending in replica.pending.items():
        for batch in pending:
            replica.answers(source, batch.offsets(), "documents", encode_answers)
    rows = [
        Row(0, RowKind.FULL, "d31", "https://é.example/3", 5, 31 << 40, 31, 9, "", 31, 1 << 31),
        Row(1, RowKind.FULL, "d32", "https://é.example/4", 5, 77 << 40, 3, 9),
        Row(2, RowKind.SHORT, "s9", "", 5, 0, 1, 1),
        Row(3, RowKind.DELETED, "d33", "", 0),
    ]
    data = packed(definition, rows, source=NEW_SOURCE)
    replica.apply(decode(data), replica.next_offset, replica.judge.clock_ms)
    replica.check()
    replica.answers(NEW_SOURCE, range(4), "documents", encode_answers)
    replica.latest_of("https://é.example/3")
    replica.compact()
    replica.check()
    if replica.next_offset <= NUMBER_MAX:
        assert to_bytes(restore(to_bytes(replica), definition, LOG)) == to_bytes(replica)
    return True


def forge(name: str, seed: int) -> bool:
    """Make one forgery and use it, as `use` does."""
    dice = random.Random(seed)
    definition = DEFINITIONS[name]
    with small_chunks(3):
        content = opened(written_by(definition))
        content.header.pop("arrays")
        for _ in range(dice.choice((1, 1, 1, 2, 3))):
            change = change_column if dice.random() < 0.75 else change_header
            change(content, dice)
        return use(sealed(content), definition)


def test_a_forged_snapshot_is_refused_or_yields_a_whole_replica() -> None:
    """
    Whatever was changed in whichever column or field: never another error, and never a crash.

    A crash would end the process, so another one tries them; it says each seed before it is tried,
    on stderr, which is shown of a crash.
    """
    first = random.randrange(2**32)
    count = 10 * EXAMPLES
    program = (
        f"import sys\n"
        f"from {__name__} import forge\n"
        f"for name in {list(DEFINITIONS)}:\n"
        f"    for seed in range({first}, {first + count}):\n"
        f"        print(name, seed, file=sys.stderr, flush=True)\n"
        f"        print(name, forge(name, seed))\n"
    )
    said = output_of(sys.executable, "-c", program, cwd=REPOSITORY).split()
    outcomes = Counter(zip(said[::2], said[1::2], strict=True))
    assert set(outcomes) == set(product(DEFINITIONS, ("True", "False")))
    assert outcomes.total() == count * len(DEFINITIONS)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_snapshot_that_is_taken_apart_and_put_together_is_read(name: str) -> None:
    with small_chunks(3):
        content = opened(written_by(DEFINITIONS[name]))
        assert use(sealed(content), DEFINITIONS[name])


SIDES = {f"{name}, {side}": (name, side) for name in COLUMNS for side in ("below", "above")}


def _outside(column: Column, arrays: dict[str, NDArray[Any]], side: str) -> int | None:
    """Return the number right below or above what a column may hold, if its type has one."""
    low = column.low
    high = column.high
    if column.places_in:
        low = 0
        high = len(arrays[column.places_in]) - 1
    if low is None or high is None:
        return None
    number = low - 1 if side == "below" else high + 1
    dtype: np.dtype[Any] = np.dtype(column.dtype)
    info = np.iinfo(dtype[column.field] if column.field else dtype)
    return number if info.min <= number <= info.max else None


@pytest.mark.parametrize(("name", "side"), SIDES.values(), ids=SIDES)
def test_a_value_outside_of_its_columns_range_is_named(name: str, side: str) -> None:
    """The column, what it has and what it may have; some types have no number beyond the range."""
    column = COLUMNS[name]
    with small_chunks(3):
        content = opened(written_by(RETAINED))
        number = _outside(column, content.arrays, side)
        if number is None:
            return
        values = content.arrays[name]
        values = values[column.field] if column.field else values
        values[0 if side == "below" else -1] = number
        with pytest.raises(RestoreError, match=f"column {name} .*{number}"):
            restore(sealed(content), RETAINED, LOG)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_that_is_too_short_or_too_long_is_refused(name: str) -> None:
    """By one entry, whichever column it is."""
    with small_chunks(3):
        for change in (
            slice(None, -1),
            [0, *range(len(opened(written_by(RETAINED)).arrays[name]))],
        ):
            content = opened(written_by(RETAINED))
            content.header.pop("arrays")
            content.arrays[name] = content.arrays[name][change]
            with pytest.raises(RestoreError):
                restore(sealed(content), RETAINED, LOG)


HEADERS = {
    "no object": b"[]",
    "no JSON": b"{",
    "no text": b"\xff",
    "an endless number": b'{"next_offset": ' + b"9" * 5_000 + b"}",
    "nested without an end": b"[" * 100_000,
    "nothing in it": b"{}",
}


@pytest.mark.parametrize("text", HEADERS.values(), ids=HEADERS)
def test_a_header_that_is_none_is_refused(text: bytes) -> None:
    size = 32 + len(text)
    head = struct.pack("<8sIIQ", snapshot._MAGIC, FORMAT_VERSION, len(text), size)
    data = head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head + text)) + text
    with pytest.raises(RestoreError, match="header"):
        restore(data, DEFINITION, LOG)


def test_originals_that_are_listed_where_there_is_no_room_are_refused() -> None:
    """In a block that the rules do not have: what the index would leave out is named."""
    with small_chunks(3):
        content = opened(written_by(LISTING))
        content.arrays["originals.listed"][:] = 0xFFFF
        with pytest.raises(RestoreError, match="cannot be listed in the blocks 0b1111111111111111"):
            restore(sealed(content), LISTING, LOG)
