"""
The directed engine: look into the likeliest buckets, and compare what is found there. Equal to `worker.core.search`.

    fingerprint, doubts -> probes -> filters scanned -> found -> second look -> candidates -> sketches -> the best

The bits of a block are taken to the top of the 64, the others below them. The topmost name a bucket, the lower 48 are
the filter of an entry, so that together they say all of a fingerprint.

    probe    block's width (8 bits) | distance left for the filter (8) | filter looked for (48)      one number

The entries of a bucket stand in the order of their rows, so that a scan of the first PREFIX_MAX finds the earliest.

While one fingerprint is searched, the memory of the next two is asked for, probe by probe.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.core import search
from worker.core.compiled import inner
from worker.core.kernels import machine
from worker.core.kernels.machine import (
    NUMBER_LANES,
    popcount,
    prefetch,
    read32,
    read64,
    write32,
    write64,
)
from worker.core.search import BITS as BITS_ALL
from worker.core.search import SearchRules
from worker.core.tables import confirm, store
from worker.core.tables.confirm import LOOK_MAX, LOOK_SHIFT, RANK_COUNT, UNCONFIRMED, bits
from worker.core.tables.store import (
    BASE,
    BITS,
    ROWS,
    TABLES,
    Memory,
    count_of,
    head_of,
    kernel,
    signed,
    start_of,
)

DOUBTS = store.ENGINE  # address, by slot
PIECES = (
    store.ENGINE + 1
)  # address: runs of bits as (shift right, mask, shift left), which take a block to the top
PIECE_ENDS = store.ENGINE + 2  # address, by table: where its pieces begin; one more at the end
WIDTHS = store.ENGINE + 3  # address, by table: bits of its block
PATTERNS = store.ENGINE + 4  # at most, of each block
LOOK_MIN = store.ENGINE + 5
PROBES = store.ENGINE + 6  # address: scratch, the probes of some queries
FOUND = store.ENGINE + 7  # address: scratch, slots that are found
FOUND_COUNT = store.ENGINE + 8  # those that wait there
PREFIX_MAX = store.ENGINE + 9  # entries of one prefix that are looked at
TURN_SIZE = (
    store.ENGINE + 10
)  # numbers of one turn: how many probes it has, then a bucket and a probe each

TURNS = 4  # queries whose probes are kept: the one that is answered and those for which memory is asked for
FILTER_BITS = np.uint64(48)
FILTER_MASK = np.uint64((1 << 48) - 1)
ZERO = np.uint64(0)
TOP = np.uint64(64)
WIDTH_SHIFT = np.uint64(56)
SMALL_MASK = np.uint64(0xFF)


@inner
def arranged(memory: Memory, table: int, fingerprint: np.uint64) -> np.uint64:
    """A fingerprint, or its doubts, with the bits of a table's block on top."""
    value = ZERO
    pieces = memory[PIECES]
    for piece in range(
        signed(read64(memory[PIECE_ENDS], table)), signed(read64(memory[PIECE_ENDS], table + 1))
    ):
        run = (fingerprint >> read64(pieces, 3 * piece)) & read64(pieces, 3 * piece + 1)
        value |= run << read64(pieces, 3 * piece + 2)
    return value


@inner
def bucket_of(memory: Memory, table: int, value: np.uint64) -> int:
    """The bucket of an arranged fingerprint."""
    return signed(value >> (TOP - np.uint64(memory[BITS]))) + signed(table << memory[BITS])


@inner
def turn_at(memory: Memory, turn: int) -> int:
    """The address of a turn's probes."""
    return signed(memory[PROBES] + 8 * (turn & (TURNS - 1)) * memory[TURN_SIZE])


@inner
def bucket_at(turn: int, number: int) -> int:
    return signed(read64(turn, 1 + 2 * number))


@inner
def below_block(probe: np.uint64) -> np.uint64:
    """How many bits lie below the block."""
    return TOP - (probe >> WIDTH_SHIFT)


@inner
def extend(
    address: int, count: int, limit: int, begin: int, end: int, more: np.uint64, below: bool
) -> int:
    """
    Write each single one of the bits `more`, ascending, with each pattern from `begin` to `end`; return how many
    patterns there are now. `below`: only with those that are smaller than the bit, so that each set comes once.
    """
    while more != ZERO and count < limit:
        bit = more & (~more + store.ONE)
        more ^= bit
        for number in range(begin, end):
            pattern = read64(address, number)
            if count == limit or (below and pattern >= bit):
                break
            write64(address, count, pattern | bit)
            count += 1
    return signed(count)


@inner
def write_patterns(address: int, doubts: np.uint64, width: np.uint64, limit: int) -> int:
    """Write the likeliest patterns of a block in their order; return their number: `search.patterns`."""
    sure = ~doubts & ((store.ONE << width) - store.ONE)
    none = signed(1)
    write64(address, signed(0), ZERO)
    ones = extend(address, none, limit, signed(0), none, doubts, True)
    twos = extend(address, ones, limit, none, ones, doubts, True)
    threes = extend(address, twos, limit, ones, twos, doubts, True)
    others = extend(address, threes, limit, signed(0), none, sure, True)
    fours = extend(address, others, limit, twos, threes, doubts, True)
    return signed(extend(address, fours, limit, none, ones, sure, False))


@inner
def prepare(memory: Memory, turn: int, fingerprint: np.uint64, doubts: np.uint64) -> None:
    """Write the probes of a query."""
    address = turn_at(memory, turn)
    found = memory[PROBES] + 8 * TURNS * memory[TURN_SIZE]  # scratch
    number = signed(0)
    for table in range(memory[TABLES]):
        width = read64(memory[WIDTHS], table)
        below = TOP - width
        own = arranged(memory, table, fingerprint)
        count = write_patterns(
            found, arranged(memory, table, doubts) >> below, width, memory[PATTERNS]
        )
        for i in range(count):
            pattern = read64(found, i)
            flipped = np.uint64(popcount(pattern))
            if flipped <= np.uint64(memory[store.DISTANCE_MAX]):
                value = own ^ (pattern << below)
                left = np.uint64(memory[store.DISTANCE_MAX]) - flipped
                write64(address, 1 + 2 * number, np.uint64(bucket_of(memory, table, value)))
                write64(
                    address,
                    2 + 2 * number,
                    width << WIDTH_SHIFT | left << FILTER_BITS | (value & FILTER_MASK),
                )
                number += 1
    write64(address, signed(0), np.uint64(number))


@inner
def filter_at(memory: Memory, position: int) -> np.uint64:
    """The filter of the entry at a position."""
    filter_ = np.uint64(0)
    for part in range(3):
        filter_ |= np.uint64(
            machine.read16(memory[BASE + store.FILTERS], 3 * position + part)
        ) << np.uint64(16 * part)
    return filter_


@inner
def enter(memory: Memory, bucket: int, filter_: np.uint64, slot: int) -> None:
    """
    Add an entry. The caller has made sure of the room, and that LAST_ROW is not smaller than the slot's row.

    A bucket of COUNT_MAX entries, 33 million, takes no more: the latest are beyond PREFIX_MAX anyway.
    """
    if not store.append(memory, BASE, bucket, filter_, np.uint32(slot), store.UNLIMITED):
        return
    row = read32(memory[ROWS], slot)
    if signed(row) == memory[store.LAST_ROW]:  # the latest of all stands right at the end
        return
    head = head_of(memory, BASE, bucket)
    low = start_of(head)
    last = high = low + count_of(head) - 1
    while low < high:  # search the first that is later
        middle = (low + high) >> 1
        if read32(memory[ROWS], signed(read32(memory[BASE + store.REFS], middle))) < row:
            low = middle + 1
        else:
            high = middle
    store.move_entries(memory, BASE, low + 1, low, last - low)
    store.write_entry(memory, BASE, low, filter_, np.uint32(slot))


@inner
def change(memory: Memory, fingerprint: np.uint64, old: int, new: int) -> None:
    """In every table: point the entry of slot `old` to `new`, or take it out when `new` is -1; those behind move up."""
    for table in range(memory[TABLES]):
        bucket = bucket_of(memory, table, arranged(memory, table, fingerprint))
        position = store.place_of(memory, BASE, bucket, np.uint32(old))
        if position < 0:  # it was never added
            continue
        if new >= 0:
            write32(memory[BASE + store.REFS], position, np.uint32(new))
            continue
        head = head_of(memory, BASE, bucket)
        last = start_of(head) + count_of(head) - 1
        store.move_entries(memory, BASE, position, position + 1, last - position)
        store.remove(memory, BASE, bucket, last)


FOUND_MAX = signed(64)  # slots that wait: enough that what they hold is near when they are ranked
IDENTICAL = signed(
    1 << 32
)  # similarity and look 1000, distance 0: what is below it is not beaten in another bucket
SURE = signed(search.SURE)


@inner
def look(difference: np.uint64, doubts: np.uint64, other: np.uint64) -> int:
    """The second look in thousandths, 0 where the cosine is not positive."""
    both, either = doubts & other, doubts | other
    product = SURE * SURE * (64 - bits(either) - 2 * bits(difference & ~either))
    product += SURE * (bits(either ^ both) - 2 * bits(difference & (either ^ both)))
    product += bits(both) - 2 * bits(difference & both)
    if product <= 0:
        return signed(0)
    norms = (64 * SURE * SURE - (SURE * SURE - 1) * bits(doubts)) * (
        64 * SURE * SURE - (SURE * SURE - 1) * bits(other)
    )
    squared = np.uint64(LOOK_MAX * LOOK_MAX * product * product) // np.uint64(norms)
    root = np.uint64(0)
    for bit in range(9, -1, -1):
        longer = root | np.uint64(1) << np.uint64(bit)
        if longer * longer <= squared:
            root = longer
    return signed(root)


@inner
def find(memory: Memory, slot: int, fingerprint: np.uint64, doubts: np.uint64) -> None:
    """Let a slot wait until what it holds has come near; those that wait are ranked when there is no more room."""
    prefetch(memory[store.FINGERPRINTS], 8 * slot)
    prefetch(memory[DOUBTS], 8 * slot)
    write64(memory[FOUND], memory[FOUND_COUNT], np.uint64(slot))
    memory[FOUND_COUNT] += 1
    if memory[FOUND_COUNT] == FOUND_MAX:
        rank_found(memory, fingerprint, doubts)


@inner
def rank_found(memory: Memory, fingerprint: np.uint64, doubts: np.uint64) -> None:
    """Rank the slots that wait, and keep the best candidates."""
    for number in range(memory[FOUND_COUNT]):
        slot = signed(read64(memory[FOUND], number))
        difference = read64(memory[store.FINGERPRINTS], slot) ^ fingerprint
        distance, seen = bits(difference), look(difference, doubts, read64(memory[DOUBTS], slot))
        if distance <= memory[store.DISTANCE_MAX] and seen >= memory[LOOK_MIN]:
            row = signed(read32(memory[ROWS], slot))
            confirm.keep(
                memory, (LOOK_MAX - seen) << LOOK_SHIFT | distance << confirm.DISTANCE_SHIFT | row
            )
    memory[FOUND_COUNT] = 0


@inner
def scan_probe(
    memory: Memory, bucket: int, probe: np.uint64, fingerprint: np.uint64, doubts: np.uint64
) -> None:
    """Find what a bucket has for a probe."""
    head = head_of(memory, BASE, bucket)
    position, count = start_of(head), count_of(head)
    if count > memory[PREFIX_MAX]:
        if np.uint64(64 - memory[BITS]) != below_block(probe):
            scan_shared(memory, position, count, probe, fingerprint, doubts)
            return
        count = memory[PREFIX_MAX]
    memory[store.READ] += count
    end = position + count
    filters, refs = memory[BASE + store.FILTERS], memory[BASE + store.REFS]
    wanted, left = probe & FILTER_MASK, np.uint32(probe >> FILTER_BITS & SMALL_MASK)
    while position < end:
        near = machine.wide_lanes_within(filters, position, wanted, left)
        while near:
            place = position + signed(machine.trailing_zeros(near))
            near &= near - np.uint32(1)
            if place < end and (filter_at(memory, place) ^ wanted) >> below_block(
                probe
            ) == np.uint64(0):
                find(memory, signed(read32(refs, place)), fingerprint, doubts)
        position += NUMBER_LANES


@inner
def scan_shared(
    memory: Memory,
    start: int,
    count: int,
    probe: np.uint64,
    fingerprint: np.uint64,
    doubts: np.uint64,
) -> None:
    """The same of a long bucket that several prefixes share: of the one that is looked up, the earliest only."""
    below, wanted, left = below_block(probe), probe & FILTER_MASK, probe >> FILTER_BITS & SMALL_MASK
    memory[store.READ] += count
    rows = signed(0)
    for place in range(start, start + count):
        difference = filter_at(memory, place) ^ wanted
        if difference >> below == np.uint64(0):
            if popcount(difference) <= left:
                find(memory, signed(read32(memory[BASE + store.REFS], place)), fingerprint, doubts)
            rows += 1
            if rows == memory[PREFIX_MAX]:
                return


@inner
def ask_entries(memory: Memory, bucket: int) -> None:
    """Prefetch what a probe will read; the bucket's head is near already."""
    head = head_of(memory, BASE, bucket)
    vectors = (min(count_of(head), memory[PREFIX_MAX]) + NUMBER_LANES - 1) // NUMBER_LANES
    begin = memory[BASE + store.FILTERS] + 6 * start_of(head)
    line = begin & -64
    while line < begin + 6 * NUMBER_LANES * vectors:
        machine.prefetch_many(line, signed(0))
        line += 64


GIVEN_AHEAD = signed(8)  # fingerprints whose buckets are asked for before they are entered


@inner
def add(memory: Memory, fingerprint: np.uint64, doubts: np.uint64, row: int) -> None:
    """Index a fingerprint in a new slot."""
    slot = store.add_slot(memory, fingerprint, row)
    write64(memory[DOUBTS], slot, doubts)
    for table in range(memory[TABLES]):
        value = arranged(memory, table, fingerprint)
        enter(memory, bucket_of(memory, table, value), value & FILTER_MASK, slot)
    store.sweep_on(memory)


@inner
def search_turn(
    memory: Memory, turn: int, ready: int, fingerprint: np.uint64, doubts: np.uint64
) -> int:
    """
    The best match. `ready`: up to this turn probes are prepared; their memory is asked for on the way.

    The first probe finds whatever is equal: when that is confirmed as such, the others need not be looked up.
    """
    memory[FOUND_COUNT] = memory[RANK_COUNT] = 0
    here, soon, later = turn_at(memory, turn), turn_at(memory, turn + 1), turn_at(memory, turn + 2)
    count = signed(read64(here, signed(0)))
    count_soon = signed(read64(soon, signed(0))) if turn + 1 < ready else signed(0)
    count_later = signed(read64(later, signed(0))) if turn + 2 < ready else signed(0)
    for number in range(max(count, count_soon, count_later)):
        if number < count_later:
            prefetch(memory[BASE + store.HEADS], 8 * bucket_at(later, number))
        if number < count_soon:
            ask_entries(memory, bucket_at(soon, number))
        if number < count:
            scan_probe(
                memory, bucket_at(here, number), read64(here, 2 + 2 * number), fingerprint, doubts
            )
        if number == 0:
            rank_found(memory, fingerprint, doubts)
            best = confirm.confirm(memory, turn) if memory[RANK_COUNT] else UNCONFIRMED
            if best < IDENTICAL:
                count = signed(0)
    rank_found(memory, fingerprint, doubts)
    return signed(confirm.confirm(memory, turn))


@inner
def ask_places(memory: Memory, fingerprint: np.uint64, stage: int) -> None:
    """Prefetch where a fingerprint will be entered: heads first, the ends of buckets later."""
    for table in range(memory[TABLES]):
        bucket = bucket_of(memory, table, arranged(memory, table, fingerprint))
        if stage == 0:
            prefetch(memory[BASE + store.HEADS], 8 * bucket)
        else:
            head = head_of(memory, BASE, bucket)
            position = start_of(head) + count_of(head)
            prefetch(memory[BASE + store.FILTERS], 6 * position)
            prefetch(memory[BASE + store.REFS], 4 * position)


@kernel
def match_directed(
    memory: Memory,
    fingerprints: NDArray[np.uint64],
    doubts: NDArray[np.uint64],
    begin: int,
    first_row: int,
    ranks: NDArray[np.int64],
    mode: int,
) -> int:
    """`Slots.match`."""
    row = first_row
    count = len(fingerprints)
    ready = signed(begin)
    for i in range(begin, count):
        if mode != store.QUERY and not store.has_room(memory):
            return signed(i)
        if mode == store.INSERT_GIVEN:
            if i + 2 * GIVEN_AHEAD < count:
                ask_places(memory, fingerprints[i + 2 * GIVEN_AHEAD], signed(0))
                ask_places(memory, fingerprints[i + GIVEN_AHEAD], signed(1))
            add(memory, fingerprints[i], doubts[i], ranks[i])
            continue
        while ready < min(signed(i) + 3, signed(count)):
            prepare(memory, ready, fingerprints[ready], doubts[ready])
            ready += 1
        if mode != store.QUERY and i + 1 < count:
            ask_places(memory, fingerprints[i + 1], signed(1))
        ranks[i] = search_turn(memory, signed(i), ready, fingerprints[i], doubts[i])
        if mode == store.INSERT_ALL or (mode == store.INSERT_NEW and ranks[i] == UNCONFIRMED):
            add(memory, fingerprints[i], doubts[i], row)
            confirm.note_fresh(memory, row, signed(i))
            row += 1
    return signed(count)


@inner
def slot_of(memory: Memory, fingerprint: np.uint64, row: np.uint32) -> int:
    """The slot of a row with this fingerprint, or -1. It is looked for in the shortest of its buckets."""
    head, value = np.uint64(0), np.uint64(0)
    for table in range(memory[TABLES]):
        arranged_ = arranged(memory, table, fingerprint)
        other = head_of(memory, BASE, bucket_of(memory, table, arranged_))
        if table == 0 or count_of(other) < count_of(head):
            head, value = other, arranged_
    position = start_of(head)
    end = position + count_of(head)
    while position < end:
        near = machine.wide_lanes_within(
            memory[BASE + store.FILTERS], position, value & FILTER_MASK, np.uint32(0)
        )
        for place in range(position, min(position + NUMBER_LANES, end) if near else position):
            slot = signed(read32(memory[BASE + store.REFS], place))
            if (
                filter_at(memory, place) == value & FILTER_MASK
                and read32(memory[ROWS], slot) == row
            ):
                return slot
        position += NUMBER_LANES
    return signed(-1)


@kernel
def delete_directed(
    memory: Memory,
    fingerprints: NDArray[np.uint64],
    rows: NDArray[np.uint32],
    done: NDArray[np.bool_],
) -> None:
    """Take out rows; `done[i]` tells whether row i was there under its fingerprint."""
    for i in range(len(fingerprints)):
        slot = slot_of(memory, fingerprints[i], rows[i])
        done[i] = slot >= 0
        if slot < 0:
            continue
        change(memory, fingerprints[i], slot, signed(-1))
        last = memory[store.SIZE] - 1
        memory[store.SIZE] = last
        if slot != last:  # the last takes its place, so that the slots stay dense
            fingerprint = read64(memory[store.FINGERPRINTS], last)
            change(memory, fingerprint, last, slot)
            write64(memory[store.FINGERPRINTS], slot, fingerprint)
            write64(memory[DOUBTS], slot, read64(memory[DOUBTS], last))
            write32(memory[ROWS], slot, read32(memory[ROWS], last))
        store.sweep_on(memory)


class DirectedTables(store.Slots):
    """The content of a directed index."""

    _match, _delete = staticmethod(match_directed), staticmethod(delete_directed)

    def __init__(self, rules: SearchRules, bits: int) -> None:
        self._pieces = [_pieces(runs) for runs in rules.runs]
        turn_size = 1 + 2 * rules.blocks * rules.patterns
        constants: dict[int, NDArray[np.generic]] = {
            PIECES: np.array([piece for pieces in self._pieces for piece in pieces], np.uint64),
            PIECE_ENDS: np.cumsum([0, *map(len, self._pieces)]).astype(np.uint64),
            WIDTHS: np.array([sum(width for _, width in runs) for runs in rules.runs], np.uint64),
            PROBES: np.zeros(TURNS * turn_size + rules.patterns, np.uint64),
            FOUND: np.zeros(int(FOUND_MAX), np.uint64),
            confirm.RANKS: np.zeros(int(confirm.RANKS_MAX), np.uint64),
        }
        columns = {store.FINGERPRINTS: np.uint64, DOUBTS: np.uint64, ROWS: np.uint32}
        super().__init__(rules.blocks, bits, columns, 2, constants)
        self.memory[[PREFIX_MAX, PATTERNS, LOOK_MIN]] = (
            rules.prefix_max,
            rules.patterns,
            rules.look_min,
        )
        self.memory[TURN_SIZE] = turn_size
        self.memory[[store.DISTANCE_MAX, confirm.SIMILARITY_MIN]] = (
            rules.max_distance,
            rules.similarity_thousandths,
        )

    def check(self) -> None:
        """Assert the invariants of slots and entries: each slot once in each table, those of a bucket by row."""
        super().check()
        bits = int(self.memory[BITS])
        buckets, filters, refs = self.stores[0].contents()
        for table in range(len(self._pieces)):
            mine = buckets >> bits == table
            held = self.fingerprints[refs[mine]]
            assert (np.sort(refs[mine]) == np.arange(len(self))).all()
            assert (filters[mine] == self._arranged(table, held) & FILTER_MASK).all()
            assert (buckets[mine] & ((1 << bits) - 1) == self._buckets(table, held)).all()
        rows = self.rows[refs].astype(np.int64)
        assert (rows[1:] > rows[:-1])[buckets[1:] == buckets[:-1]].all()

    def _new_stores(self, documents: int) -> tuple[store.Buckets, ...]:
        tables = len(self._pieces)
        return (
            store.Buckets(
                self.memory,
                BASE,
                tables << int(self.memory[BITS]),
                tables,
                tables * documents,
                wide=True,
            ),
        )

    def _buckets(self, table: int, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        top = np.uint64(BITS_ALL - int(self.memory[BITS]))
        return (self._arranged(table, fingerprints) >> top).astype(np.int64)

    def _arranged(self, table: int, fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
        arranged = np.zeros_like(fingerprints)
        for right, mask, left in self._pieces[table]:
            arranged |= (fingerprints >> np.uint64(right) & np.uint64(mask)) << np.uint64(left)
        return arranged


def _pieces(runs: tuple[tuple[int, int], ...]) -> list[tuple[int, int, int]]:
    """
    Return what takes a block's runs to the top, the last topmost, and the other bits below: (right, mask, left) each.

    >>> _pieces(((16, 16),))
    [(16, 65535, 48), (32, 4294967295, 16), (0, 65535, 0)]
    """
    rest, end = [], 0
    for low, width in (*runs, (BITS_ALL, 0)):
        if low > end:
            rest.append((end, low - end))
        end = low + width
    pieces, left = [], BITS_ALL
    for low, width in (*reversed(runs), *reversed(rest)):
        left -= width
        pieces.append((low, (1 << width) - 1, left))
    return pieces
