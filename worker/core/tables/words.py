"""
The block of words that kernels are given in place of an index: its two bucket stores, then addresses and sizes.

A place in the block is an `np.int64` and not a plain integer: numba compiles a kernel anew for each plain constant that
is passed to it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from worker.core import compiled

if TYPE_CHECKING:
    signed = int
else:
    signed = np.int64  # every signed number of a kernel

inner = partial(compiled.inner, counted=False)  # the kernels of the tables own no memory
kernel = partial(compiled.kernel, counted=False)
Words = NDArray[np.int64]

BASE = signed(0)  # the store with 2^BITS buckets for each table
DEEP = signed(16)  # the store of all sub-tables, hashed
FINGERPRINTS = signed(32)  # address, by slot: the indexed fingerprints, dense, in no order
ROWS = signed(33)  # address, by slot
NEXTS = signed(34)  # address, by slot: slot + 1 of the next one with an equal fingerprint, 0 where there is no other
BACKS = signed(35)  # address, by slot: the same backwards; the last and the first are neighbours
SIZE = signed(36)  # slots in use
SLOTS = signed(37)  # slots there are
FLAT = signed(38)  # 1: no tables, the slots are scanned
TABLES = signed(39)
BITS = signed(40)  # of a bucket number within a table
DEEP_BITS = signed(41)
FAN = signed(42)  # sub-tables of a split bucket: k + 1
HOT = signed(43)  # entries from which on a bucket is split
DISTANCE_MAX = signed(44)  # k
MASKS = signed(45)  # address, by table and sub-table: the bits that key it
CHILDREN = signed(46)  # address, by table and sub-table: the first of its sub-tables, 0 for none
FACTORS = signed(47)  # address, by table: takes the masked bits to the top
FLIPS = signed(48)  # address: neighbouring prefixes of all tables, as differences
FLIPPED = signed(51)  # address: the same as differences of bucket numbers
FLIP_ENDS = signed(49)  # address, by table: where its flips begin; one more at the end
READ = signed(53)  # filters read by directed searches and by calls of `search_all`, ever
PENDING = signed(54)  # scratch, the rest of the block: a stack of sub-tables still to be visited
PENDING_MAX = signed(64)  # at most (depth of the tree) * (k + 1)
DOUBTS = PENDING + PENDING_MAX  # address, by slot; this and the following are the directed index's
PIECES = DOUBTS + 1  # address: runs of bits as (shift right, mask, shift left), which take a block to the top
PIECE_ENDS = DOUBTS + 2  # address, by table: where its pieces begin; one more at the end
WIDTHS = DOUBTS + 3  # address, by table: bits of its block
PATTERNS = DOUBTS + 4  # at most, of each block
LOOK_MIN = DOUBTS + 5
PREFIX_MAX = DOUBTS + 6
LAST_ROW = DOUBTS + 7  # the greatest that was ever indexed
PROBES = DOUBTS + 8  # address: scratch, the probes of some queries
SIMILARITY_MIN = DOUBTS + 9  # 0: nothing is confirmed, the best look is taken
FOUND = DOUBTS + 10  # address: scratch, slots that are found, then the ranks of the best candidates
FOUND_COUNT = DOUBTS + 11  # slots that wait there
BEST_COUNT = DOUBTS + 12  # ranks that stand there
SKETCHES = DOUBTS + 13  # address: of each chunk of the sketches, by row, its address
SKETCH_BITS = DOUBTS + 14  # a chunk has 2^SKETCH_BITS rows
SKETCH_FIRST = DOUBTS + 15  # the first row of the first chunk
FRESH = DOUBTS + 16  # address: the sketches of the documents that are judged
FRESH_FIRST = DOUBTS + 17  # the first row that these get
FRESH_PLACES = DOUBTS + 18  # address, by row from FRESH_FIRST on: its place among them
CONFIRMED = DOUBTS + 19  # sketches of candidates read, ever
ASKING = DOUBTS + 20  # 1: sketches are not read but asked for, if their pages are on disk; nothing matches
INDEX_WORDS = int(ASKING) + 1
