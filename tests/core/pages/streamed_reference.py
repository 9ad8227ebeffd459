"""
Where streamed content belongs, in plain Python: the kernel must equal it on every input.

The rules are those of worker/core/pages/streamed.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.core.pages.reference import NOTHING, End, Start, Tokenizer
from worker.core.pages import names as n

ID = re.compile(rb"(.*)([BPS])(:[0-9a-f]{1,8})", re.DOTALL)
OPENS = re.compile(rb"<!--\$[?!~]?-->")


@dataclass
class Place:
    """A slot, or a part, and where it stands in the page."""

    letter: str  # B, P or S
    number: bytes  # with its prefix
    begin: int
    inner: int  # where a part's content begins
    end: int  # behind the part, or behind the slot and what it shows meanwhile
    inner_end: int = -1
    depth: int = 0  # of boundaries around a slot
    part: Place | None = None
    is_moved: bool = False  # whether it is a part that has a slot


def find_places(page: bytes) -> list[Place]:
    """All slots and parts that are whole, in the page's order."""
    places: list[Place] = []
    waiting: list[Place] = []
    part: Place | None = None
    part_name, level, depth = "", 0, 0
    tokenizer = Tokenizer(page)
    begin = 0
    while (token := tokenizer.token()) is not None:
        comment = page[begin : tokenizer.at] if token is NOTHING else b""
        begin_of_token, inner = begin, tokenizer.at
        if isinstance(token, Start):
            flags = n.TAGS.get(token.name, 0)
            if token.name == "plaintext":
                break
            if flags & n.RAW:
                tokenizer.raw(token.name)
            level += token.name == part_name
            place = place_of(token, flags, begin_of_token, inner)
            empty = page.startswith(b"</template>", inner)
            if inner >= len(page) or place is None:
                pass
            elif place.letter == "S" and part is None:
                part, part_name, level = place, token.name, 1
                waiting = []
                places.append(place)
            elif place.letter != "S" and empty:
                place.depth, place.end = depth, inner + len(b"</template>")
                places.append(place)
                waiting += [place] if place.letter == "B" else []
        elif OPENS.fullmatch(comment):
            depth += 1
        elif comment == b"<!--/$-->":
            depth -= 1
            while waiting and waiting[-1].depth > depth:
                waiting.pop().end = inner
        elif isinstance(token, End) and token.name == part_name:
            level -= 1
            if level == 0 and part:
                part.inner_end, part.end = begin_of_token, inner
                part, part_name, waiting = None, "", []
        begin = tokenizer.at
    return [place for place in places if place is not part]


def place_of(token: Start, flags: int, begin: int, inner: int) -> Place | None:
    """What the id of a start tag says that it begins."""
    ids = [value for name, value in token.attributes if name == "id"]
    found = ID.fullmatch(ids[0]) if ids else None
    if (
        found is None
        or flags & (n.VOID | n.RAW)
        or (token.name == "template") == (found[2] == b"S")
    ):
        return None
    return Place(found[2].decode(), found[1] + found[3], begin, inner, inner)


def placed(page: bytes) -> bytes:
    """The page in the order in which it is shown."""
    places = find_places(page)
    slots: dict[bytes, Place] = {}
    for place in places:
        if place.letter != "S":
            slots.setdefault(place.number, place)
        elif place.number in slots and slots[place.number].part is None:
            slots[place.number].part = place
            place.is_moved = True
    return b"".join(written(page, places, 0, len(page)))


def written(page: bytes, places: list[Place], at: int, stop: int) -> list[bytes]:
    """A stretch of the page, with its slots filled and without the parts that are moved."""
    out = []
    for place in places:
        if not at <= place.begin < stop or not (place.part or place.is_moved):
            continue
        out.append(page[at : place.begin])
        if place.part:
            out += written(page, places, place.part.inner, place.part.inner_end)
        at = place.end
    return [*out, page[at:stop]]
