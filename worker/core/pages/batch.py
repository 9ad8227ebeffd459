"""
Turns a batch of pages into texts as the fingerprint kernel reads them, with no Python object per
page. The buffers of texts grow: made for an eighth of the batch at once, they saved 0.3 % of time.
"""

# ruff: noqa: PLR1714, SIM109  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.charset import well_formed
from worker.core.compiled import apart_allocating, fused, fused_allocating, kernel
from worker.core.extract import AS_PLAIN, AS_XML
from worker.core.kernels.fingerprint import END, IS_WIDE, START, PackedTexts
from worker.core.kernels.machine import SLACK, count_less_than
from worker.core.kernels.utf8 import put_wide
from worker.core.pages.accounts import B_REASON, REASONS, account_for
from worker.core.pages.characters import REFERENCES
from worker.core.pages.embedded import (
    EMBEDDED_MIN,
    LETTERS_MAX,
    longest_embedded,
    read_embedded,
    scan_and_select,
    shows_little,
)
from worker.core.pages.names import IN_HEADING
from worker.core.pages.plain import (
    BEGIN,
    KIND,
    STOP,
    find_invalid,
    is_ascii,
    plain_batch,
    put_narrow,
    with_room,
)
from worker.core.pages.scan import HAS_PART, HAS_SLOT, scan
from worker.core.pages.select import select
from worker.core.pages.skeleton import (
    B_END,
    B_KEEP,
    B_NODE,
    B_START,
    BLOCKS,
    N_ABOVE,
    STREAMED,
    TITLE_MAX,
    TITLE_SIZE,
    room_for,
)
from worker.core.pages.streamed import place_streamed
from worker.core.pages.titles import words_of_title
from worker.errors import check_type

# ---- what was kept of a page -> bytes where all is ASCII, else code points

# What a field holds; TEXT is HEADINGS and BODY in the order of the page. From LEFT_OUT on fields
# hold what was left out, one for each of REASONS.
TEXT = 0
TITLE = 1
HEADINGS = 2
BODY = 3
LEFT_OUT = 4


@fused
def _is_of(room: Any, block: Any, field: Any) -> Any:
    """Return whether a block is in this field."""
    if field >= LEFT_OUT:
        return room.blocks[block, B_REASON] == field - LEFT_OUT + 1
    if not room.blocks[block, B_KEEP]:
        return False
    heading = (room.nodes[room.blocks[block, B_NODE], N_ABOVE] & IN_HEADING) != 0
    return field == TEXT or (field == HEADINGS) == heading


@fused
def is_ascii_field(room: Any, field: Any) -> Any:
    """Return whether a whole field is ASCII."""
    if field == TITLE:
        return is_ascii(room.title, np.int64(0), room.state[TITLE_SIZE])
    for block in range(room.state[BLOCKS]):
        if _is_of(room, block, field) and not is_ascii(
            room.out, room.blocks[block, B_START], room.blocks[block, B_END]
        ):
            return False
    return True


@fused
def put_field(room: Any, field: Any, put: Any, texts: Any, at: Any, limit: Any) -> Any:
    """Append a field's text, with a line break between its blocks. Returns where it ends."""
    if field == TITLE:
        return put(room.title, np.int64(0), room.state[TITLE_SIZE], texts, at, limit)
    begin = at
    for block in range(room.state[BLOCKS]):
        if at >= limit:
            break
        if _is_of(room, block, field):
            if at > begin:
                texts[at] = 10
                at += 1
            at = put(
                room.out, room.blocks[block, B_START], room.blocks[block, B_END], texts, at, limit
            )
    return at


# ---- pages in, texts out

PAGE_RULES = "pages-12"  # the version of all rules of this package: another text, another name
PLAIN = 0
MAIN = 1
ALL_TEXT = 2
METHODS = ("plain", "main", "all")
FIELDS = {"text": TEXT, "title": TITLE, "headings": HEADINGS, "body": BODY}
FIELDS |= {reason: LEFT_OUT + number for number, reason in enumerate(REASONS)}
CHARACTERS_MAX = 16 << 20
_ZEROS = bytes(SLACK)


class PackedPages(NamedTuple):
    """The texts of n pages: one for each page and requested field, side by side."""

    texts: PackedTexts
    methods: NDArray[np.uint8]  # [n]: positions in METHODS
    titles: NDArray[
        np.uint32
    ]  # [n]: `titles.title_words` of each page's title, 0 where it has none
    regions: NDArray[np.uint8]  # [n]: positions in accounts.REGIONS; 0 for plain texts

    def text(self, number: int) -> str:
        """Return one of the texts, for people and tests: page · fields + field."""
        return self.texts.text(number)


def extract_pages(
    bodies: Iterable[bytes | str],
    kinds: Sequence[int] | None = None,
    *,
    fields: Sequence[str] = ("text",),
    characters_max: int = CHARACTERS_MAX,
) -> PackedPages:
    """
    Extract the main text of pages; a plain text is returned whole.

    Args:
        bodies: HTML as `str`, or as bytes in UTF-8 without a byte order mark; what is no UTF-8
            becomes U+FFFD, as in
            `bytes.decode("utf-8", "replace")`.
        kinds: how each body is read: AS_PAGE, AS_PLAIN or AS_XML of `core.extract`; None when all
            are pages.
        fields: what to return of each page: "text", or any of "title", "headings" and "body", which
            share it out; and of REASONS, what was left out for each.
        characters_max: what is longer ends there.
    Raises:
        ValueError: a field of another name, not as many `kinds` as bodies, or `characters_max` is
            negative.
        TypeError: a body is neither `str` nor bytes, or `bodies` is one, not a list of them.

    Cost: linear in the bodies, about 2 ns a byte, without the interpreter's lock.

    >>> page = "<nav><a href=/>Home</a></nav><p>The fox jumps over the lazy dog, and runs.</p>"
    >>> extract_pages([page]).text(0)
    'The fox jumps over the lazy dog, and runs.'
    """
    if isinstance(bodies, str | bytes):
        raise TypeError(f"wanted a list of bodies, got one ({type(bodies).__name__})")
    bodies = [*bodies]  # an iterator is read once
    for body in bodies:
        check_type("a body", body, (str, bytes))
    check_type("characters_max", characters_max, (int, np.integer))
    if characters_max < 0:
        raise ValueError(f"characters_max must be 0 or more, got {characters_max}")
    unknown = [name for name in fields if name not in FIELDS]
    if unknown:
        raise ValueError(f"the fields of a page are {sorted(FIELDS)}, got {unknown}")
    return extract_packed(
        *pack_bodies(bodies, kinds),
        fields=fields,
        characters_max=characters_max,
    )


def pack_bodies(
    bodies: Sequence[bytes | str], kinds: Sequence[int] | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """
    Pack bodies for `extract_packed`: one buffer, where each begins and ends, and how it is read.

    Raises:
        ValueError: not as many `kinds` as bodies.

    Cost: linear in the bodies.
    """
    if kinds is not None and len(kinds) != len(bodies):
        raise ValueError(f"each body has a kind, got {len(bodies)} bodies and {len(kinds)} kinds")
    raw = [body if isinstance(body, bytes) else _encoded(body) for body in bodies]
    data, spans = joined(raw, kinds)
    invalid = np.flatnonzero(find_invalid(data, spans)).tolist()
    if invalid:
        for number in invalid:
            raw[number] = raw[number].decode("utf-8", "replace").encode()
        data, spans = joined(raw, kinds)
    return data, spans


def extract_packed(
    data: NDArray[np.uint8],
    spans: NDArray[np.int64],
    *,
    fields: Sequence[str] = ("text",),
    characters_max: int = CHARACTERS_MAX,
) -> PackedPages:
    """
    Extract the main text of bodies that are packed already: well-formed UTF-8, SLACK zeros behind
    each.
    """
    wanted = np.array([FIELDS[name] for name in fields], np.int64)
    found = np.zeros((len(spans) * wanted.size, 4), np.uint64)
    methods = np.zeros(len(spans), np.uint8)
    titles = np.zeros(len(spans), np.uint32)
    regions = np.zeros(len(spans), np.uint8)
    if wanted.tolist() == [TEXT] and (spans[:, KIND] == AS_PLAIN).all():
        narrow, wide = data.view(), np.empty(0, np.uint32)
        plain_batch(data, spans, characters_max, found)
    else:
        about = methods, titles, regions
        narrow, wide = extract_batch(data, spans, wanted, characters_max, REFERENCES, found, about)
    # As Python's bytes are: else the fingerprint kernel would be compiled twice.
    narrow.flags.writeable = False
    return PackedPages(PackedTexts(narrow, wide, found), methods, titles, regions)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 has not
        return well_formed(text).encode()


def joined(
    bodies: Sequence[bytes], kinds: Sequence[int] | None
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """
    Return all bodies in one buffer, each followed by SLACK zeros; where each begins and ends; and
    how it is read.
    """
    # To be written: one type with texts.
    data = np.frombuffer(bytearray(_ZEROS).join([*bodies, b"", b""]), np.uint8)
    lengths = np.array([len(body) for body in bodies], np.int64)
    spans = np.zeros((len(bodies), 3), np.int64)
    spans[:, STOP] = np.cumsum(lengths + SLACK) - SLACK
    spans[:, BEGIN] = spans[:, STOP] - lengths
    if kinds is not None:
        spans[:, KIND] = kinds
    return data, spans


@fused_allocating
def _largest(data: Any, spans: Any, references: Any) -> Any:
    """A Skeleton that each page fits into."""
    size = np.int64(0)
    tags = np.int64(0)
    for number in range(spans.shape[0]):
        begin = spans[number, BEGIN]
        end = spans[number, STOP]
        if spans[number, KIND] != AS_PLAIN:
            size = max(size, end - begin)
            tags = max(tags, count_less_than(data, begin, end))
    return room_for(size, tags, references)


@apart_allocating
def _read_page(data: Any, begin: Any, end: Any, room: Any, is_xml: Any) -> Any:
    """
    Scan a page and select its blocks, in the order in which it is shown, or what it embeds.

    Returns how many bytes of text there are, whether all of it was taken, the title's words, and
    the room that holds them.
    """
    page = np.int64(data.ctypes.data)
    size = scan(page, begin, end, room, is_xml)
    if room.state[STREAMED] == HAS_SLOT | HAS_PART and not is_xml:
        placed, stop = place_streamed(page, begin, end, count_less_than(data, begin, end))
        own = room.title[:0]  # as the page says it
        size, has_all = scan_and_select(placed, np.int64(0), stop, room, is_xml, own)
        return _with_embedded(placed, np.int64(0), stop, room, is_xml, size, has_all)
    return _with_embedded(data, begin, end, room, is_xml, size, select(room))


@apart_allocating
def _with_embedded(
    data: Any, begin: Any, end: Any, room: Any, is_xml: Any, size: Any, has_all: Any
) -> Any:
    """Read a page that is scanned and selected from what it embeds, if it shows little."""
    title = words_of_title(room.title, room.state[TITLE_SIZE])
    if longest_embedded(room) * LETTERS_MAX >= EMBEDDED_MIN or shows_little(room):
        has_all, size, room = read_embedded(data, begin, end, room, is_xml, has_all, size)
    return size, has_all, title, room


@kernel
def extract_batch(
    data: Any,
    spans: Any,
    fields: Any,
    characters_max: Any,
    references: Any,
    found: Any,
    about: Any,
) -> Any:
    """
    Scan each page, select its blocks, and write their text.

    Returns bytes and code points, and fills `found` and `about`: methods, titles and regions.
    """
    methods, titles, regions = about
    has_left_out = (fields >= LEFT_OUT).any()
    room = _largest(data, spans, references)
    narrow = np.empty(0, np.uint8)
    wide = np.empty(0, np.uint32)
    narrow_at = np.int64(0)
    wide_at = np.int64(0)
    for number in range(spans.shape[0]):
        begin = spans[number, BEGIN]
        end = spans[number, STOP]
        plain = spans[number, KIND] == AS_PLAIN
        size = end - begin
        if not plain:
            is_xml = spans[number, KIND] == AS_XML
            size, has_all, titles[number], room = _read_page(data, begin, end, room, is_xml)
            methods[number] = ALL_TEXT if has_all else MAIN
            regions[number] = account_for(room, has_left_out)
        size = min(size + TITLE_MAX, characters_max)
        for k in range(fields.size):
            row = found[number * fields.size + k]
            field = fields[k]
            if plain:
                narrow_only = (field != TEXT and field != BODY) or is_ascii(data, begin, end)
            else:
                narrow_only = is_ascii_field(room, field)
            row[IS_WIDE] = not narrow_only
            if narrow_only:
                narrow = with_room(narrow, narrow_at, size)
                row[START] = narrow_at
                if not plain:
                    narrow_at = put_field(
                        room, field, put_narrow, narrow, narrow_at, narrow_at + characters_max
                    )
                elif field == TEXT or field == BODY:
                    narrow_at = put_narrow(
                        data, begin, end, narrow, narrow_at, narrow_at + characters_max
                    )
                row[END] = narrow_at
            else:
                wide = with_room(wide, wide_at, size)
                row[START] = wide_at
                if plain:
                    wide_at = put_wide(data, begin, end, wide, wide_at, wide_at + characters_max)
                else:
                    wide_at = put_field(
                        room, field, put_wide, wide, wide_at, wide_at + characters_max
                    )
                row[END] = wide_at
    return with_room(narrow, narrow_at, np.int64(0)), with_room(wide, wide_at, np.int64(0))
