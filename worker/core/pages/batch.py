"""A batch of pages in, their texts out as the fingerprint kernel reads them; no Python object a page in between."""

# ruff: noqa: PLR1714, SIM109  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.charset import well_formed
from worker.core.compiled import fused_allocating, kernel
from worker.core.kernels.batch import END, IS_WIDE, START, Texts
from worker.core.kernels.machine import SLACK, count_less_than
from worker.core.pages.characters import REFERENCES
from worker.core.pages.emit import (
    BODY,
    HEADINGS,
    TEXT,
    TITLE,
    is_ascii,
    is_ascii_field,
    put_field,
    put_narrow,
    put_wide,
    valid_utf8,
    with_room,
)
from worker.core.pages.scan import scan
from worker.core.pages.select import select
from worker.core.pages.skeleton import (
    BLOCK_COLUMNS,
    BLOCKS,
    BLOCKS_MAX,
    NODE_COLUMNS,
    NODES,
    NODES_MAX,
    STACK_COLUMNS,
    STACK_MAX,
    STATE_SIZE,
    TITLE_MAX,
    TITLE_SIZE,
    Skeleton,
)

PAGE_RULES = "pages-2"  # the version of all rules of this package: another text, another name
PLAIN, MAIN, ALL_TEXT = 0, 1, 2
METHODS = ("plain", "main", "all")
FIELDS = {"text": TEXT, "title": TITLE, "headings": HEADINGS, "body": BODY}
CHARACTERS_MAX = 16 << 20
_ZEROS = bytes(SLACK)
_BEGIN, _END, _PLAIN = 0, 1, 2


class PackedPages(NamedTuple):
    """The texts of n pages: of each page one for each field asked for, side by side."""

    texts: Texts
    methods: NDArray[np.uint8]  # [n]: positions in METHODS

    def text(self, number: int) -> str:
        """
        One of the texts, for people and tests: page · fields + field.

        Cost: O(characters).
        """
        start, end, is_wide, _ = self.texts.spans[number].tolist()
        if is_wide:
            return self.texts.wide[start:end].astype("<u4").tobytes().decode("utf-32-le")
        return self.texts.narrow[start:end].tobytes().decode("ascii")


def extract_pages(
    bodies: Sequence[bytes | str],
    plain: Sequence[bool] | None = None,
    *,
    fields: Sequence[str] = ("text",),
    characters_max: int = CHARACTERS_MAX,
) -> PackedPages:
    """
    The main text of pages; of plain ones all of it.

    Args:
        bodies: HTML as `str`, or as bytes in UTF-8 without a byte order mark; what is no UTF-8 becomes U+FFFD, as in
            `bytes.decode("utf-8", "replace")`.
        plain: for each body whether it is plain text, not HTML; None when none is.
        fields: what to return of each page: "text", or any of "title", "headings" and "body", which share it out.
        characters_max: what is longer ends there.
    Raises:
        ValueError: a field of another name, or not as many `plain` as bodies.

    Cost: linear in the bodies, about 2 ns a byte, without the interpreter's lock.

    >>> extract_pages(["<nav><a href=/>Home</a></nav><p>The fox jumps over the lazy dog, and runs.</p>"]).text(0)
    'The fox jumps over the lazy dog, and runs.'
    """
    unknown = [name for name in fields if name not in FIELDS]
    if unknown:
        raise ValueError(f"the fields of a page are {sorted(FIELDS)}, got {unknown}")
    return extract_packed(*pack_bodies(bodies, plain), fields=fields, characters_max=characters_max)


def pack_bodies(
    bodies: Sequence[bytes | str], plain: Sequence[bool] | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """
    Bodies as `extract_packed` reads them: in one buffer, and where each begins and ends, and whether it is plain.

    Raises:
        ValueError: not as many `plain` as bodies.

    Cost: linear in the bodies.
    """
    if plain is not None and len(plain) != len(bodies):
        raise ValueError(f"each body is plain or not, got {len(bodies)} bodies and {len(plain)} flags")
    raw = [body if isinstance(body, bytes) else _encoded(body) for body in bodies]
    data, spans = joined(raw, plain)
    invalid = np.flatnonzero(find_invalid(data, spans)).tolist()
    if invalid:
        for number in invalid:
            raw[number] = raw[number].decode("utf-8", "replace").encode()
        data, spans = joined(raw, plain)
    return data, spans


def extract_packed(
    data: NDArray[np.uint8],
    spans: NDArray[np.int64],
    *,
    fields: Sequence[str] = ("text",),
    characters_max: int = CHARACTERS_MAX,
) -> PackedPages:
    """
    The same of bodies that are packed already: well-formed UTF-8, SLACK zeros behind each.

    Cost: that of `extract_pages`.
    """
    wanted = np.array([FIELDS[name] for name in fields], np.int64)
    found = np.zeros((len(spans) * wanted.size, 4), np.uint64)
    methods = np.zeros(len(spans), np.uint8)
    narrow, wide = extract_batch(data, spans, wanted, characters_max, REFERENCES, found, methods)
    narrow.flags.writeable = False  # as Python's bytes are: else the fingerprint kernel would be compiled twice
    return PackedPages(Texts(narrow, wide, found), methods)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 has not
        return well_formed(text).encode()


def joined(bodies: Sequence[bytes], plain: Sequence[bool] | None) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """All bodies in one buffer, SLACK zeros behind each; where each begins and ends, and whether it is plain."""
    data = np.frombuffer(bytearray(_ZEROS).join([*bodies, b"", b""]), np.uint8)  # to be written: one type with texts
    lengths = np.array([len(body) for body in bodies], np.int64)
    spans = np.zeros((len(bodies), 3), np.int64)
    spans[:, _END] = np.cumsum(lengths + SLACK) - SLACK
    spans[:, _BEGIN] = spans[:, _END] - lengths
    if plain is not None:
        spans[:, _PLAIN] = plain
    return data, spans


@kernel
def find_invalid(data: Any, spans: Any) -> Any:
    """Which bodies are no well-formed UTF-8."""
    found = np.zeros(spans.shape[0], np.uint8)
    for number in range(spans.shape[0]):
        found[number] = not valid_utf8(data, spans[number, _BEGIN], spans[number, _END])
    return found


@fused_allocating
def room_for(size: Any, tags: Any, references: Any) -> Any:
    """A Skeleton for a page of so many bytes and so many '<'."""
    return Skeleton(
        np.empty(size + size // 4 + SLACK, np.uint8),
        np.empty((min(tags, BLOCKS_MAX) + 2, BLOCK_COLUMNS), np.int64),
        np.empty((min(tags, NODES_MAX) + 2, NODE_COLUMNS), np.int64),
        np.empty(TITLE_MAX + TITLE_MAX // 4 + SLACK, np.uint8),
        np.empty((STACK_MAX, STACK_COLUMNS), np.int64),
        np.empty(256, np.int64),
        np.empty(STATE_SIZE, np.int64),
        references,
    )


@fused_allocating
def _largest(data: Any, spans: Any, references: Any) -> Any:
    """A Skeleton that each page fits into."""
    size, tags = np.int64(0), np.int64(0)
    for number in range(spans.shape[0]):
        begin, end = spans[number, _BEGIN], spans[number, _END]
        if not spans[number, _PLAIN]:
            size = max(size, end - begin)
            tags = max(tags, count_less_than(data, begin, end))
    return room_for(size, tags, references)


@kernel
def extract_batch(
    data: Any, spans: Any, fields: Any, characters_max: Any, references: Any, found: Any, methods: Any
) -> Any:
    """Scan each page, select its blocks, write them out: returns bytes and code points; fills `found` and `methods`."""
    room = _largest(data, spans, references)
    narrow, wide = np.empty(0, np.uint8), np.empty(0, np.uint32)
    narrow_at, wide_at = np.int64(0), np.int64(0)
    for number in range(spans.shape[0]):
        begin, end, plain = spans[number, _BEGIN], spans[number, _END], spans[number, _PLAIN] != 0
        size = end - begin
        if not plain:
            size = scan(np.int64(data.ctypes.data), begin, end, room)
            methods[number] = ALL_TEXT if select(room) else MAIN
        size = min(size + TITLE_MAX, characters_max)
        for k in range(fields.size):
            row, field = found[number * fields.size + k], fields[k]
            if plain:
                narrow_only = (field == TITLE or field == HEADINGS) or is_ascii(data, begin, end)
            else:
                narrow_only = is_ascii_field(room, field)
            row[IS_WIDE] = not narrow_only
            if narrow_only:
                narrow = with_room(narrow, narrow_at, size)
                row[START] = narrow_at
                if not plain:
                    narrow_at = put_field(room, field, put_narrow, narrow, narrow_at, narrow_at + characters_max)
                elif field == TEXT or field == BODY:
                    narrow_at = put_narrow(data, begin, end, narrow, narrow_at, narrow_at + characters_max)
                row[END] = narrow_at
            else:
                wide = with_room(wide, wide_at, size)
                row[START] = wide_at
                if plain:
                    wide_at = put_wide(data, begin, end, wide, wide_at, wide_at + characters_max)
                else:
                    wide_at = put_field(room, field, put_wide, wide, wide_at, wide_at + characters_max)
                row[END] = wide_at
    return with_room(narrow, narrow_at, np.int64(0)), with_room(wide, wide_at, np.int64(0))


@kernel
def _scan_one(page: Any, size: Any, references: Any) -> Any:
    room = room_for(size, count_less_than(page, 0, size), references)
    text = scan(np.int64(page.ctypes.data), np.int64(0), size, room)
    return room, text, select(room)


def skeleton(page: bytes | str) -> tuple[Skeleton, str]:
    """
    What was read and selected of one page, for people and tests: its arrays, as far as in use, and all its text.

    Cost: linear in the page.
    """
    raw = page.decode("utf-8", "replace") if isinstance(page, bytes) else well_formed(page)
    data, spans = joined([raw.encode()], None)
    room, text, _ = _scan_one(data, spans[0, _END], REFERENCES)
    nodes, blocks, title = (int(room.state[k]) for k in (NODES, BLOCKS, TITLE_SIZE))
    cut = room._replace(blocks=room.blocks[:blocks], nodes=room.nodes[:nodes], title=room.title[:title])
    return cut, room.out[:text].tobytes().decode()
