"""All steps fused: a batch of texts becomes columns of fingerprints in one pass, without Python."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core import definition
from worker.core.compiled import fused, fused_allocating, kernel
from worker.core.kernels import unicode
from worker.core.kernels.anchors import ELECT, UNION, elected, find_votes, join_others
from worker.core.kernels.machine import SLACK
from worker.core.kernels.shingles import finished, pair_products, shingle_hashes
from worker.core.kernels.sketch import NO_HASH, add_sketch, find_numbers, mask_first, pack_minima
from worker.core.kernels.tally import (
    GROUP,
    PLANES,
    add_hashes,
    doubt_rule,
    doubts,
    settle,
    signs,
    table_bits,
)
from worker.core.kernels.tokens import (
    FAR,
    TOKEN_LANES,
    mask_tokens,
    scan_bytes,
    scan_code_points,
    settled,
    token_hashes,
    xxh64,
)
from worker.core.kernels.utf8 import put_wide
from worker.core.sketch import BITS

U = np.uint64
EMPTY = 0
SHORT = 1
FULL = 2
NOT_COMPOSED = 255  # no kind: the caller must compose the text (NFC) and call again
START = 0
END = 1
IS_WIDE = 2
LIST = 3
FEATURES = 0
DIGEST = 1
KIND = 2


class PackedTexts(NamedTuple):
    """A batch of texts, in UTF-8 or as code points."""

    narrow: NDArray[np.uint8]  # SLACK bytes behind the last text
    wide: NDArray[np.uint32]
    # [n, 4]: START and END in `narrow` or `wide`, IS_WIDE, and LIST: a bit of a vote, or ELECT.
    spans: NDArray[np.uint64]

    def text(self, row: int) -> str:
        """Return one of the texts."""
        start, end, is_wide, _ = self.spans[row].tolist()
        if is_wide:
            codes = self.wide[start:end].astype("<u4")
            return codes.tobytes().decode("utf-32-le", "surrogatepass")
        return self.narrow[start:end].tobytes().decode()


class Rules(NamedTuple):
    """The parameters, as numbers."""

    bits: int  # of a fingerprint: 32, 64 or 128
    halves: int  # of 64 bits: 1 or 2
    low_mask: np.uint64  # of the first half: 32 ones for 32 bits
    widths: NDArray[np.uint64]
    anchored_weight: int
    unanchored_weight: int
    # The weight of each field. A document has a text per field, in a row; without fields, one text.
    fields: NDArray[np.int64]
    term_frequency: int  # ONE, LOG, TF
    tokens_min: np.uint64
    shingles_min: np.uint64
    mask_numbers: bool
    mask_identifiers: bool
    mask_hash: np.uint64
    by_letter: bool  # the unit is a character


class Columns(NamedTuple):
    """The results of a batch, one row per document."""

    fingerprints: NDArray[np.uint64]  # [n, halves]
    doubts: NDArray[np.uint64]  # [n, halves]
    # [n, 3]: FEATURES, DIGEST, KIND (EMPTY, SHORT, FULL; a NOT_COMPOSED row has no other value)
    about: NDArray[np.uint64]
    sketches: NDArray[np.uint64]  # [n, 8]


@fused
def _find_anchors(hashes: Any, count: Any, anchors: Any, which: Any, scratch: Any) -> None:
    """Write which tokens of a text are function words of its language."""
    _, anchor, _, with_anchor, without, counting, planes, points, _, _ = scratch
    words = counting[1]
    words = words[: find_votes(hashes, count, anchors, without, words)]
    elects = which == U(ELECT)
    if elects:
        which = elected(without, words, with_anchor, planes, points)
    for t in range(count):
        anchor[t] = (without[t] >> which) & U(1)
    if elects and which != U(UNION):
        join_others(hashes, without, words, which, (with_anchor, planes), points, anchor)


@fused
def _make_shingles(hashes: Any, count: Any, rules: Any, scratch: Any) -> None:
    """Write the hashes of a text's shingles, those with an anchor apart."""
    product, anchor, anchored, with_anchor, without, _, _, _, sizes, pairs = scratch
    sizes[0], sizes[1] = U(0), U(0)
    pair_products(hashes, count, pairs)
    out = with_anchor, without
    for width in rules.widths:
        shingle_hashes(hashes, pairs, anchor, count, width, (product, anchored), out, sizes)


@fused
def _add_shingles(rules: Any, times: Any, scratch: Any, tally: Any) -> Any:
    """
    Add the shingles of a text to `tally`, `times` times. Returns how many distinct ones count.
    """
    product, _, _, with_anchor, without, counting, planes, _, sizes, _ = scratch
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
        for half in range(rules.halves):
            if half == 1:
                for i in range(kept):
                    product[i] = finished(product[i] + U(definition.SECOND_HALF))
            add_hashes(product, kept, times * weight, planes, tally[64 * half :])
    return distinct


@fused_allocating
def _scratch(tokens: Any, widths: Any) -> Any:
    """The arrays that the stages need for a text of this many tokens."""
    room = max(tokens * widths, U(2) * min(tokens, U(definition.TOKENS_MAX))) + U(TOKEN_LANES)
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
        np.empty(PLANES + GROUP, np.uint64),
        np.empty(64, np.int64),
        np.empty(2, np.uint64),
        np.empty(tokens + U(1), np.uint64),
    )


@fused
def _short(tokens: Any, digest: Any, rules: Any, columns: Any, d: Any) -> None:
    """Write the row of a document with few tokens (its digest is its only feature) or with none."""
    empty = tokens == U(0)
    columns.about[d, KIND] = EMPTY if empty else SHORT
    columns.about[d, FEATURES] = U(not empty)
    columns.fingerprints[d, 0] = U(0) if empty else digest & rules.low_mask
    if rules.halves == 2:
        columns.fingerprints[d, 1] = U(0) if empty else finished(digest + U(definition.SECOND_HALF))
    columns.doubts[d, :] = U(0)
    columns.sketches[d, :] = U(0)


@fused
def _full(features: Any, tally: Any, minima: Any, rules: Any, columns: Any, d: Any) -> None:
    """Write the row of a document with enough tokens."""
    columns.about[d, KIND] = FULL
    columns.about[d, FEATURES] = features
    pack_minima(minima, columns.sketches[d])
    shift, limit = doubt_rule(tally, rules.bits)
    for half in range(rules.halves):
        columns.fingerprints[d, half] = signs(tally[64 * half :]) & rules.low_mask
        columns.doubts[d, half] = doubts(tally[64 * half :], shift, limit) & rules.low_mask


@fused_allocating
def _token_room(spans: Any) -> Any:
    """
    Arrays with room for the tokens of the longest of these texts, and for its code points if it is
    in UTF-8.
    """
    narrow_max = U(0)
    longest = U(0)
    for d in range(spans.shape[0]):
        length = spans[d, END] - spans[d, START]
        narrow_max = max(narrow_max, U(0) if spans[d, IS_WIDE] else length)
        longest = max(longest, length)
    return (
        np.empty(U(unicode.LONG_BYTES) * longest + U(SLACK), np.uint8),
        np.empty(U(2) * longest + U(SLACK), np.uint32),
        np.empty(longest + U(SLACK), np.uint8),
        np.empty(narrow_max + U(SLACK), np.uint32),
    )


@fused
def _scan(texts: Any, row: Any, composed: Any, points: Any, room: Any) -> Any:
    """
    Write the tokens of one text.

    Args:
        room: as `_token_room` returns it.
    Returns:
        The number of tokens, whether the text must be composed first, and whether any token is a
        character of a script without spaces.
    """
    out, edges, kinds, codes = room
    start = texts.spans[row, START]
    end = texts.spans[row, END]
    wide = texts.wide
    if not texts.spans[row, IS_WIDE]:
        count = scan_bytes(texts.narrow, start, end, points, out, edges)
        if count != FAR:
            return count, False, False
        size = np.int64(end - start)
        end = U(put_wide(texts.narrow, np.int64(start), np.int64(end), codes, np.int64(0), size))
        start = U(0)
        wide = codes
    count, changes, characters = scan_code_points(wide, start, end, points, out, edges, kinds)
    doubtful = changes and not composed and not settled(wide, start, end, points)
    return count, doubtful, characters


@kernel
def fingerprint_batch(
    texts: Any, composed: Any, points: Any, rules: Any, anchors: Any, columns: Any
) -> Any:
    """
    Write the fingerprints of all documents into the columns.

    Returns how many documents are NOT_COMPOSED. There are none if the texts are `composed`.
    """
    token_room = _token_room(texts.spans)
    out, edges, kinds, _ = token_room
    room = U(0)
    hashes = np.empty(room + U(TOKEN_LANES), np.uint64)
    numbers = np.empty(room + U(1), np.uint32)
    scratch = _scratch(room, U(rules.widths.size))
    tally = np.empty(64 * rules.halves, np.int64)
    minima = np.empty(BITS, np.uint32)
    fields = max(rules.fields.size, 1)
    digests = np.empty(fields, np.uint64)
    again = 0
    for d in range(columns.about.shape[0]):
        tokens = features = U(0)
        doubtful = False
        for field in range(fields):
            row = d * fields + field
            count, doubtful, characters = _scan(texts, row, composed, points, token_room)
            if doubtful:
                break
            if count > room:
                room = count + (count >> U(2))
                hashes = np.empty(room + U(TOKEN_LANES), np.uint64)
                numbers = np.empty(room + U(1), np.uint32)
                scratch = _scratch(room, U(rules.widths.size))
            token_hashes(out, edges, count, hashes, scratch[0], scratch[5][1])
            digests[field] = xxh64(hashes, U(0), count << U(3))
            tokens += count
            if rules.fields.size == 0 and count < rules.tokens_min:
                continue
            if rules.mask_numbers or rules.mask_identifiers:
                mask_tokens(out, edges, count, rules, hashes)
                mask_first(hashes, rules.mask_hash, count, scratch[0])
            number_count = find_numbers(scratch[0], count, numbers)
            if field == 0:
                tally[:] = 0
                minima[:] = NO_HASH
            times = rules.fields[field] if rules.fields.size else np.int64(1)
            _find_anchors(hashes, count, anchors, texts.spans[row, LIST], scratch)
            _make_shingles(hashes, count, rules, scratch)
            features += _add_shingles(rules, times, scratch, tally)
            add_sketch(
                hashes,
                scratch[9],
                (kinds, numbers[:number_count]),
                characters,
                count,
                rules.by_letter,
                (scratch[0], scratch[1]),
                minima,
            )
        if doubtful:
            columns.about[d, KIND] = NOT_COMPOSED
            again += 1
            continue
        digest = xxh64(digests, U(0), U(8 * fields)) if rules.fields.size else digests[0]
        columns.about[d, DIGEST] = digest
        if tokens < rules.tokens_min or features == U(0):
            _short(tokens, digest, rules, columns, d)
        else:
            _full(features, tally, minima, rules, columns, d)
    return again
