"""All steps fused: a batch of texts in, columns of fingerprints out, one pass and no Python in between."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import fused, fused_allocating, kernel
from worker.core.kernels.code_points import LONG_BYTES
from worker.core.kernels.count import settle, table_bits
from worker.core.kernels.elect import ELECT, elected, find_votes
from worker.core.kernels.machine import SLACK
from worker.core.kernels.scan import scan_ascii, scan_code_points, settled
from worker.core.kernels.shingle import finished, mask_tokens, shingle_hashes
from worker.core.kernels.sketch import add_minima, clear_minima, pack_minima
from worker.core.kernels.tally import PLANES, add_hashes, doubt_rule, doubts, signs
from worker.core.kernels.xxh64 import token_hashes, xxh64
from worker.core.language import TOKENS_MAX
from worker.core.simhash import SECOND_HALF
from worker.core.sketch import BINS

U = np.uint64
EMPTY, SHORT, FULL = 0, 1, 2
NOT_COMPOSED = 255  # a kind for between: the text is to be composed and come again
START, END, IS_WIDE, LIST = 0, 1, 2, 3
FEATURES, DIGEST, KIND, TOKENS = 0, 1, 2, 3


class Texts(NamedTuple):
    """A batch of texts: those in ASCII as bytes, the others as code points."""

    narrow: NDArray[np.uint8]  # SLACK bytes behind the last text
    wide: NDArray[np.uint32]
    spans: NDArray[np.uint64]  # [n, 4]: START and END in `narrow` or `wide`, IS_WIDE, LIST: a bit of votes, or ELECT


class Rules(NamedTuple):
    """The parameters, as numbers."""

    bits: int  # of a fingerprint: 32, 64 or 128
    halves: int  # of 64 bits: 1 or 2
    low_mask: np.uint64  # of the first half: 32 ones for 32 bits
    widths: NDArray[np.uint64]
    anchored_weight: int
    unanchored_weight: int
    term_frequency: int  # count.ONE, LOG, TF
    tokens_min: np.uint64
    shingles_min: np.uint64
    mask_numbers: bool
    mask_identifiers: bool
    mask_hash: np.uint64


class Anchors(NamedTuple):
    """The function words, and in which lists each of them is."""

    rows: NDArray[np.uint64]  # [slots, 2]: hash and vote
    shape: NDArray[np.uint64]  # slots - 1, and two shifts: a word lies in the slot of its bits above one of the two


class Columns(NamedTuple):
    """What a batch gives, n rows."""

    fingerprints: NDArray[np.uint64]  # [n, halves]
    doubts: NDArray[np.uint64]  # [n, halves]
    about: NDArray[np.uint64]  # [n, 4]: FEATURES, DIGEST, KIND (EMPTY … FULL, or NOT_COMPOSED and nothing else), TOKENS
    sketches: NDArray[np.uint64]  # [n, 8]
    tallies: NDArray[np.int64]  # [n, 64 * halves], or [0, 0]: the sums before their signs; then no text is SHORT
    minima: NDArray[np.uint64]  # [n, 256], or [0, 0]: the least hash of each bin of the sketch, with tallies

    def rows(self, begin: int, end: int) -> Columns:
        """Some of the rows, to be filled in place."""
        rows = slice(begin, end)
        return Columns(*(column[rows] for column in self))  # type: ignore[arg-type]


@fused
def _features(
    hashes: Any, count: Any, rules: Any, anchors: Any, which: Any, scratch: Any, tally: Any, minima: Any
) -> Any:
    """Token hashes to tally and minima; returns the number of distinct features that count."""
    product, anchor, anchored, with_anchor, without, counting, planes, sizes = scratch
    find_votes(hashes, count, anchors, without)
    if which == U(ELECT):
        which = elected(without, count, with_anchor, planes, tally)
    for t in range(count):
        anchor[t] = (without[t] >> which) & U(1)
    for bit in range(tally.size):
        tally[bit] = 0
    clear_minima(minima)
    sizes[0], sizes[1] = U(0), U(0)
    for width in rules.widths:
        shingle_hashes(hashes, anchor, count, width, (product, anchored), (with_anchor, without), sizes)
    distinct = U(0)
    for side in range(2):
        features = with_anchor if side == 0 else without
        weight = rules.anchored_weight
        if side == 1 and (rules.unanchored_weight != 0 or sizes[0] >= rules.shingles_min):
            weight = rules.unanchored_weight
        if weight == 0:
            continue
        kept, found = settle(features, sizes[side], rules.term_frequency, product, counting)
        distinct += found
        add_minima(product, kept, minima)
        for half in range(rules.halves):
            if half == 1:
                for i in range(kept):
                    product[i] = finished(product[i] + U(SECOND_HALF))
            add_hashes(product, kept, weight, planes, tally[64 * half :])
    return distinct


@fused_allocating
def _scratch(tokens: Any, widths: Any) -> Any:
    """The arrays that a text of so many tokens needs, as `_features` takes them."""
    room = max(tokens * widths, U(2) * min(tokens, U(TOKENS_MAX))) + U(3)
    counting = (
        np.empty(U(1) << table_bits(room), np.uint32),
        np.empty(room, np.uint32),
        np.empty(room, np.uint32),
        np.empty(room, np.uint64),
    )
    return (
        np.empty(room, np.uint64),
        np.empty(tokens + U(1), np.uint8),
        np.empty(tokens + U(1), np.uint8),
        np.empty(room, np.uint64),
        np.empty(room, np.uint64),
        counting,
        np.empty(PLANES, np.uint64),
        np.empty(2, np.uint64),
    )


@fused
def _short(count: Any, digest: Any, rules: Any, fingerprint: Any, about: Any) -> None:
    """The row of a text with few tokens or none: its digest is the only feature."""
    empty = count == U(0)
    about[KIND] = EMPTY if empty else SHORT
    about[FEATURES] = U(not empty)
    fingerprint[0] = U(0) if empty else digest & rules.low_mask
    if rules.halves == 2:
        fingerprint[1] = U(0) if empty else finished(digest + U(SECOND_HALF))


@fused_allocating
def _token_room(spans: Any) -> Any:
    """The arrays that take the tokens of any of these texts."""
    narrow_max, wide_max = U(0), U(0)
    for d in range(spans.shape[0]):
        length = spans[d, END] - spans[d, START]
        narrow_max = max(narrow_max, U(0) if spans[d, IS_WIDE] else length)
        wide_max = max(wide_max, length if spans[d, IS_WIDE] else U(0))
    return (
        np.empty(max(narrow_max, U(LONG_BYTES) * wide_max) + U(SLACK), np.uint8),
        np.empty(max(narrow_max, U(2) * wide_max) + U(SLACK), np.uint32),
    )


@kernel
def fingerprint_batch(texts: Any, composed: Any, points: Any, rules: Any, anchors: Any, columns: Any) -> None:
    """Fingerprints of all texts, into the columns. Unless they are known to be composed, some are NOT_COMPOSED."""
    out, edges = _token_room(texts.spans)
    room = U(0)
    hashes = np.empty(room + U(1), np.uint64)
    scratch = _scratch(room, U(rules.widths.size))
    tally, minima = np.empty(64 * rules.halves, np.int64), np.empty(BINS, np.uint64)
    for d in range(texts.spans.shape[0]):
        start, end = texts.spans[d, START], texts.spans[d, END]
        if texts.spans[d, IS_WIDE]:
            count, doubtful = scan_code_points(texts.wide, start, end, points, out, edges)
            if doubtful and not composed and not settled(texts.wide, start, end, points):
                columns.about[d, KIND] = NOT_COMPOSED
                continue
        else:
            count = scan_ascii(texts.narrow, start, end, out, edges)
        if count > room:
            room = count + (count >> U(2))
            hashes = np.empty(room, np.uint64)
            scratch = _scratch(room, U(rules.widths.size))
        token_hashes(out, edges, count, hashes, scratch[0], scratch[3], scratch[5][1])
        digest = xxh64(hashes, U(0), count << U(3))
        about = columns.about[d]
        about[DIGEST] = digest
        about[TOKENS] = count
        if count < rules.tokens_min and columns.tallies.size == 0:
            _short(count, digest, rules, columns.fingerprints[d], about)
            columns.doubts[d, :] = U(0)
            columns.sketches[d, :] = U(0)
            continue
        if rules.mask_numbers or rules.mask_identifiers:
            mask_tokens(out, edges, count, rules, hashes)
        about[FEATURES] = _features(hashes, count, rules, anchors, texts.spans[d, LIST], scratch, tally, minima)
        pack_minima(minima, columns.sketches[d])
        about[KIND] = FULL
        shift, limit = doubt_rule(tally, rules.bits)
        for half in range(rules.halves):
            columns.fingerprints[d, half] = signs(tally[64 * half :]) & rules.low_mask
            columns.doubts[d, half] = doubts(tally[64 * half :], shift, limit) & rules.low_mask
        if columns.tallies.size != 0:
            for bit in range(tally.size):
                columns.tallies[d, bit] = tally[bit]
            for number in range(BINS):
                columns.minima[d, number] = minima[number]
