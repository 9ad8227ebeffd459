"""
What the scanner makes of a page, in plain Python and the slow way: the kernel must equal it on
every input.

Tokens by regular expressions, the open elements in a list that every rule walks through. It shares
the names of elements and words with the kernel, and nothing else. The rules are in
worker/core/pages/README.md.
"""

from __future__ import annotations

import html.entities
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import NamedTuple

from worker.core.pages import names as n
from worker.core.pages.skeleton import SPANS_MAX, STACK_MAX, TITLE_MAX

SPACES = b" \t\n\f\r"
ATTRIBUTE = re.compile(
    rb"""(?P<name>=?[^ \t\n\f\r/>=]*)(?:[ \t\n\f\r]*=[ \t\n\f\r]*(?:
        "(?P<double>[^"]*)(?P<closed>"?) | '(?P<single>[^']*)(?P<ended>'?) | (?P<bare>[^ \t\n\f\r>]*)))?""",
    re.VERBOSE,
)
END_OF_SCRIPT = re.compile(rb"<!--|-->|<(/?)script(?=[ \t\n\f\r/>])", re.IGNORECASE)
END_OF_COMMENT = re.compile(rb"(?<!.)-?>|--!?>", re.DOTALL)
WORD = re.compile(rb"[A-Z]*[a-z]*")


class Start(NamedTuple):
    """A start tag; attributes as (name, value), `None` for one without '='."""

    name: str
    attributes: list[tuple[str, bytes]]
    self_closing: bool
    raw: bytes  # the whole tag


class End(NamedTuple):
    name: str


class Text(NamedTuple):
    """Characters, and how many bytes of the page each piece stood for: a reference is one piece."""

    pieces: list[bytes]


Token = Start | End | Text
NOTHING = Text([])  # a comment, a doctype, CDATA


def lower(raw: bytes) -> str:
    """A name in lower case, ASCII alone."""
    return raw.decode("latin-1").translate({c: c + 32 for c in range(65, 91)})


def reference(page: bytes, at: int) -> tuple[bytes, int]:
    """
    The characters that a reference at '&' stands for, and where it ends; ("&", at + 1) when it is
    none.
    """
    number = re.compile(rb"&#(?:[xX]([0-9a-fA-F]+)|([0-9]+));?").match(page, at)
    if number:
        base, digits = (16, number[1]) if number[1] else (10, number[2])
        code = int(digits.lstrip(b"0")[:10] or b"0", base)
        if 0x80 <= code < 0xA0:
            text = bytes([code]).decode("cp1252", "replace")
            return (chr(code) if text == "\ufffd" else text).encode(), number.end()
        good = 0 < code <= 0x10FFFF and not 0xD800 <= code < 0xE000
        return (chr(code) if good else "\ufffd").encode(), number.end()
    for size in range(33, 0, -1):
        text = html.entities.html5.get(page[at + 1 : at + 1 + size].decode("latin-1"))  # type: ignore[assignment]
        if text:
            return text.encode(), at + 1 + size
    return b"&", at + 1


def pieces(page: bytes, references: bool = True) -> Iterator[bytes]:
    """The characters of a stretch of text, one by one or by reference."""
    at = 0
    while at < len(page):
        if references and page[at : at + 1] == b"&":
            piece, at = reference(page, at)
            yield piece
            continue
        size = 2 if page[at : at + 2] == b"\xc2\xa0" else 1
        yield page[at : at + size]
        at += size


class Tokenizer:
    """The tokens of a page, one at a time: what raw text and CDATA are depends on what is open."""

    def __init__(self, page: bytes, xml: bool = False) -> None:
        self.page, self.at, self.xml = page, 0, xml
        self.closed = False  # whether the last raw text had its end tag

    def token(self, foreign: bool = False) -> Token | None:  # noqa: PLR0911
        """The next token; None at the end, and for a tag that the page's end cuts off."""
        page, at = self.page, self.at
        if at >= len(page):
            return None
        if page[at] != 60:
            self.at = self._find(b"<", at)
            return Text(list(pieces(page[at : self.at])))
        if re.compile(rb"</?[a-zA-Z]").match(page, at):
            return self._tag()
        if page.startswith(b"<!--", at):
            found = END_OF_COMMENT.search(page[at + 4 :])
            self.at = at + 4 + found.end() if found else len(page)
            return NOTHING
        if foreign and page.startswith(b"<![CDATA[", at):
            self.at = self._find(b"]]>", at + 9) + 3
            return NOTHING
        if self.xml and page.startswith(b"<![CDATA[", at):
            self.at = at + 9
            return NOTHING
        if page[at : at + 2] in (b"<!", b"<?") or (
            page.startswith(b"</", at) and at + 2 < len(page)
        ):
            self.at = self._find(b">", at + 2) + 1
            return NOTHING
        self.at += 1
        return Text([b"<"])

    def _find(self, wanted: bytes, at: int) -> int:
        found = self.page.find(wanted, at)
        return len(self.page) if found < 0 else found

    def _tag(self) -> Start | End | None:
        name = re.compile(rb"</?([^ \t\n\f\r/>]*)").match(self.page, self.at)
        assert name
        at, found, slash = name.end(), [], False
        while at < len(self.page) and self.page[at] != 62:
            slash = self.page[at] == 47
            if slash or self.page[at] in SPACES:
                at += 1
                continue
            one = ATTRIBUTE.match(self.page, at)
            assert one
            if b"" in (one["closed"], one["ended"]):
                at = len(self.page)  # the quote never ends
            else:
                at = one.end()
                value = next(
                    (value for value in one.group("double", "single", "bare") if value is not None),
                    b"",
                )
                found.append((lower(one["name"]), value))
        if at >= len(self.page):
            self.at = len(self.page)
            return None
        begin, self.at = self.at, at + 1
        if self.page[begin + 1] == 47:
            return End(lower(name[1]))
        return Start(lower(name[1]), found, slash, self.page[begin : self.at])

    def raw(self, name: str) -> bytes:
        """The content of an element without markup, which began before; its end tag is read too."""
        begin = self.at
        end = self._script_end() if name == "script" else None
        if end is None and name != "script":
            found = re.compile(
                rb"</" + name.encode() + rb"(?=[ \t\n\f\r/>])", re.IGNORECASE
            ).search(self.page, begin)
            end = found.start() if found else None
        if end is None:
            self.at = len(self.page)
            return self.page[begin:]
        self.at = end
        self.closed = self._tag() is not None
        return self.page[begin:end]

    def _script_end(self) -> int | None:
        state, at = "plain", self.at
        while found := END_OF_SCRIPT.search(self.page, at):
            at = found.end()
            if found[0] == b"<!--":
                at = found.start() + 2  # its dashes may be those of '-->'
                if state == "plain":
                    state = "escaped"
            elif found[0] == b"-->":
                state = "plain"
            elif found[1] and state != "double":
                return found.start()
            elif found[1]:
                state = "escaped"
            elif state == "escaped":
                state = "double"
        return None


@dataclass
class Level:
    name: str
    flags: int
    node: int
    foreign: bool  # in SVG or MathML itself, not in HTML inside it


@dataclass
class Reader:
    """The open elements, and what came of the page so far."""

    out: bytearray = field(default_factory=bytearray)
    blocks: list[list[int]] = field(default_factory=list)
    nodes: list[list[int]] = field(default_factory=lambda: [[-1, 0, 0, 0, 0, -1]])
    stack: list[Level] = field(default_factory=lambda: [Level("", n.SPECIAL | n.SCOPE, 0, False)])
    title: bytes = b""
    start: int = 0
    linked: int = 0  # bytes of the block that are in links
    link: int | None = None  # the level at which the open link began
    link_from: int = 0
    line_break: int = -1
    beyond: int = 0
    has_body: bool = False
    # The longest of each kind that the page embeds: JSON-LD, noscript, srcdoc.
    embedded: dict[str, bytes] = field(
        default_factory=lambda: dict.fromkeys(("data", "noscript", "frame"), b"")
    )

    def embed(self, kind: str, content: bytes) -> None:
        if len(content) > len(self.embedded[kind]) and not self.dropped():
            self.embedded[kind] = content

    # ---- text
    def space(self) -> None:
        if len(self.out) > self.start and self.out[-1] != 32:
            self.out += b" "

    def write(self, stretch: list[bytes]) -> None:
        for piece in stretch:
            if piece == b"\xc2\xa0" or (len(piece) == 1 and piece[0] <= 32):
                self.space()
            else:
                self.out += piece

    def mark_link(self) -> None:
        """Count what the open link holds so far."""
        if self.link is not None:
            self.linked += max(len(self.out) - self.link_from, 0)
            self.link_from = len(self.out)

    def divide(self) -> None:
        """End the block of text."""
        if len(self.out) > self.start and self.out[-1] == 32:
            del self.out[-1]
        self.mark_link()
        end = len(self.out)
        if end > self.start:
            text, linked = (
                self.out[self.start :].decode("utf-8", "replace"),
                min(self.linked, end - self.start),
            )
            marks = re.findall("[,.!?;،؟۔]|(?P<two>[、。，！？।])", text)
            seen = [character for character in text if ord(character) > 32]
            length = len(seen) + 2 * sum("\u3000" <= character <= "\udfff" for character in seen)
            stops = sum(2 if two else 1 for two in marks)
            self.blocks.append(
                [self.start, end, self.stack[-1].node, length, linked, stops, end - self.start]
            )
            self.out += b"\n"
        self.linked = 0
        self.start = self.link_from = len(self.out)

    # ---- the stack
    def dropped(self) -> bool:
        return any(level.flags & n.DROPPED for level in self.stack)

    def nearest(self, *wanted: str, barrier: int = 0, names: tuple[str, ...] = ()) -> int:
        """
        The innermost open element of these names; 0 when one of a barrier is further in, or there
        is none.
        """
        for k in range(len(self.stack) - 1, 0, -1):
            if self.stack[k].name in wanted:
                return k
            if self.stack[k].flags & barrier or self.stack[k].name in names:
                return 0
        return 0

    def pop(self, level: int) -> None:
        """Close all from this level on, and forms around it that ended before what they held."""
        while level > 1 and self.stack[level - 1].name == "":
            level -= 1
        while len(self.stack) > level:
            if self.stack[-1].node != self.stack[-2].node:
                self.divide()
                self.nodes[self.stack[-1].node][5] = len(self.blocks)
            if (
                self.stack[-1].flags & n.MARKER
                and self.link is not None
                and self.link > len(self.stack) - 1
            ):
                self.mark_link()
                self.link = None
            self.stack.pop()
        if self.link is not None:
            self.link = min(self.link, level)
        self.beyond = 0

    def push(self, name: str, words: int) -> None:
        flags = element_of(name, words)
        if len(self.stack) >= (STACK_MAX if flags & n.SPECIAL else SPANS_MAX):
            self.beyond += flags & n.SPECIAL != 0
            return
        foreign = self.stack[-1].foreign
        contains = not foreign and flags & (n.BLOCK | n.SPECIAL) != 0
        if name == CUSTOM and not foreign and len(self.out) == self.start:
            contains = bool(n.HOLDS_CUSTOM[self.nodes[self.stack[-1].node][1]])
        if foreign and flags & n.INTEGRATION:
            flags, foreign = flags | n.SPECIAL | n.SCOPE, False
        elif foreign:
            flags &= ~(n.SPECIAL | n.SCOPE | n.MARKER)
        elif name in ("svg", "math"):
            foreign = True
        node = self.stack[-1].node
        if not self.dropped() and not flags & n.DROPPED:
            if contains:
                node = self.add_node(name, words)
            elif words & n.HIDDEN:
                flags |= n.DROPPED
            elif words & n.NEGATIVE and self.nodes[node][1] != n.PRE:
                self.divide()
                node = self.add_node(name, words)
        self.stack.append(Level(name, flags, node, foreign))

    def add_node(self, name: str, words: int) -> int:
        parent, tag = self.stack[-1].node, n.TAGS[name] & n.TAG
        if name == "dialog":
            words |= n.NEGATIVE | n.SURE | n.ALIKE
        above = self.nodes[parent][3] & (~n.IN_LIST if name == "table" else ~0)
        above |= int(n.INSIDE[tag]) | words & n.HANDED_DOWN
        self.nodes.append([parent, tag, words, above, len(self.blocks), -1])
        return len(self.nodes) - 1

    # ---- tags
    def start_tag(self, name: str, words: int, has_href: bool, self_closing: bool) -> None:
        flags = element_of(name, words)
        held = flags & (n.SPECIAL | n.DROPPED | n.CLASSED | n.INTEGRATION)
        if self.stack[-1].foreign:
            if not flags & n.BREAKOUT:
                if held and not self_closing:
                    self.push(name, words)
                return None
            self.leave_foreign()
        if name == "br":
            return self.br()
        if name == "a":
            if not self.dropped():
                self.mark_link()
                self.link = len(self.stack) if has_href else None
                self.link_from = len(self.out)
            return None
        if name in ("input", "select") and self.close_select():
            return None
        if (
            flags & n.BLOCK or (flags & n.SPECIAL and not flags & n.DROPPED)
        ) and not self.dropped():
            self.divide()
        level = self.closed_by(name, flags)
        if 0 < level < len(self.stack):
            self.pop(level)
        self.has_body |= name == "body"
        if not flags & n.VOID and held and self.may_open(name, flags):
            self.push(name, words)
        return None

    def closed_by(self, name: str, flags: int) -> int:
        if flags & n.CELLS:
            keep = self.nearest("table", "template")
            if keep and name in ("td", "th", "tr"):
                keep = self.nearest("tbody", "thead", "tfoot", names=("table", "template")) or keep
            if keep and name in ("td", "th"):
                keep = max(keep, self.nearest("tr", names=("table", "template")))
            return keep + 1 if keep else 0
        if name == "table":
            table = self.nearest("table", names=("td", "th", "caption", "template"))
            if table:
                return table
        item = next(
            k
            for k in range(len(self.stack) - 1, -1, -1)
            if self.stack[k].flags & n.SPECIAL and self.stack[k].name not in ("p", "div", "address")
        )
        inner = self.stack[item].name
        if (name in ("li", "option") and inner == name) or (
            name in ("dd", "dt") and inner in ("dd", "dt")
        ):
            return item
        if name in ("optgroup", "button"):
            level = self.nearest(name, barrier=n.SCOPE)
            if level:
                return level
        if not flags & n.CLOSES_P:
            return 0
        level = self.nearest("p", barrier=n.SCOPE, names=("button",))
        last = (level or len(self.stack)) - 1
        return last if is_heading(name) and is_heading(self.stack[last].name) else level

    def may_open(self, name: str, flags: int) -> bool:
        inner = self.stack[-1]
        if flags & n.CELLS:
            return self.nearest("table", "template") > 0
        if name == "form":
            return self.nearest("form") == 0 and inner.name not in (
                "table",
                "tbody",
                "thead",
                "tfoot",
                "tr",
            )
        return name not in ("html", "head", "body", "frameset")

    def end_tag(self, name: str) -> None:
        flags = n.TAGS[name]
        if name in ("p", "br") and self.stack[-1].foreign:
            self.leave_foreign()
        if name == "br":
            return self.br()
        if name == "a":
            if (
                self.link is not None
                and self.stack[-1].foreign
                and self.foreign_root() >= self.link
            ):
                self.pop(self.foreign_root())
            self.mark_link()
            self.link = None
            return None
        if flags & n.VOID or not flags & (n.SPECIAL | n.DROPPED | n.CLASSED | n.INTEGRATION):
            return None
        if self.beyond > 0 and flags & n.SPECIAL:
            self.beyond -= 1
            return None
        level = self.ended_by(name, flags)
        if (
            flags & n.BLOCK or (flags & n.SPECIAL and not flags & n.DROPPED)
        ) and not self.dropped():
            self.divide()
        if level and name == "form":
            top = len(self.stack) - 1
            while top > level and self.stack[top].name in (
                "p",
                "li",
                "dd",
                "dt",
                "option",
                "optgroup",
            ):
                top -= 1
            if top > level:
                self.pop(top + 1)
                self.stack[level].name = ""
                return None
        if level:
            self.pop(level)
        return None

    def ended_by(self, name: str, flags: int) -> int:
        if flags & n.CELLS or name == "table":
            return self.nearest(name, names=("table", "template"))
        if is_heading(name):
            return self.nearest("h1", "h2", "h3", "h4", "h5", "h6", barrier=n.SCOPE)
        if name == "p":
            return self.nearest(name, barrier=n.SCOPE, names=("button",))
        if name == "template":
            return self.nearest(name)
        if flags & n.SPECIAL:
            return self.nearest(name, barrier=n.SCOPE, names=("ul", "ol") if name == "li" else ())
        return self.nearest(name, barrier=n.SPECIAL)

    def foreign_root(self) -> int:
        """The outermost level of the SVG or MathML that is read."""
        level = len(self.stack)
        while self.stack[level - 1].foreign:
            level -= 1
        return level

    def leave_foreign(self) -> None:
        self.pop(self.foreign_root())

    def close_select(self) -> bool:
        level = self.nearest("select", barrier=n.SCOPE)
        if level:
            self.pop(level)
        return level > 0

    def br(self) -> None:
        if self.dropped():
            return
        if len(self.out) > self.start and self.line_break == len(self.out):
            self.divide()
            self.line_break = -1
        else:
            self.space()
            self.line_break = len(self.out)


CUSTOM = "custom-element"


def element_of(name: str, words: int) -> int:
    """What an element is: a template that is a shadow root is shown."""
    shown = name == "template" and words & n.SHADOW
    return n.TAGS[name] & ~(n.DROPPED if shown else 0)


def is_heading(name: str) -> bool:
    return re.fullmatch("h[1-6]", name) is not None


def words_of(value: bytes, words_max: int) -> int:
    """What the words of a class or id say."""
    flags = alone = shown = 0
    for name in re.split(rb"[ \t\n\f\r]+", value[:512]):
        places = [match for match in WORD.finditer(name) if match[0]]
        words = [match[0] for match in places]
        found = [n.WORDS.get(lower(word), 0) if 1 < len(word) <= 15 else 0 for word in words]
        for match, flag in zip(places[1:], found[1:], strict=True):
            shown |= flag & n.SHOWN if name[: match.start()].endswith(b":") else 0
        if len(words) == 1 and name.endswith(words[0]):
            alone |= found[0] if found[0] & n.ALONE else 0
        found = [0 if one & n.ALONE else one for one in found]
        if found and not found[0] & n.STATE_WORD and len(words) <= words_max:
            flags |= reduce(or_, found)
    flags |= 0 if shown else alone
    if flags & n.POST and flags & n.COMMENT:
        flags &= ~(n.COMMENT | n.NEGATIVE)
    return flags & ~(n.ALONE | n.SHOWN | n.POST)


def meaning(attributes: list[tuple[str, bytes]]) -> int:
    """What a tag's attributes say of its container."""
    flags = 0
    for name, value in attributes:
        short = lower(value[:24])
        hides = name == "style" and re.search(
            rb"(?i)(?<![a-z-])(display: *none|visibility: *hidden)", value[:256]
        )
        is_hidden = name == "hidden" and short != "until-found"
        if name in ("class", "id"):
            flags |= words_of(value, 3 if name == "id" else 512)
        elif hides or is_hidden or (name == "aria-hidden" and short == "true"):
            flags |= n.HIDDEN
        elif name == "shadowrootmode" and short in ("open", "closed"):
            flags |= n.SHADOW
        elif name == "aria-modal" and short == "true":
            flags |= n.NEGATIVE | n.SURE | n.ALIKE
        elif name == "role":
            flags |= n.ROLES.get(short, 0)
        elif name == "itemprop" and short == "articlebody":
            flags |= n.BODY_WORD | n.POSITIVE
    return flags


def read_title(raw: bytes) -> bytes:
    cut = raw[:TITLE_MAX]
    while len(cut) < len(raw) and raw[len(cut)] & 0xC0 == 0x80:
        cut = cut[:-1]
    reader = Reader()
    reader.write(list(pieces(cut)))
    return bytes(reader.out).removesuffix(b" ")


def read(page: bytes, xml: bool = False) -> Reader:
    """The skeleton of a page, well-formed UTF-8."""
    reader, tokenizer = Reader(), Tokenizer(page, xml)
    while (token := tokenizer.token(reader.stack[-1].foreign)) is not None:
        if isinstance(token, Text) and not reader.dropped():
            reader.write(token.pieces)
        elif isinstance(token, End) and (name := known(token.name)):
            reader.end_tag(name)
        elif (
            isinstance(token, Start)
            and (name := known(token.name))
            and not read_start(reader, tokenizer, token, name)
        ):
            break
    reader.divide()
    for node in reader.nodes:
        node[5] = len(reader.blocks) if node[5] < 0 else node[5]
    return reader


def known(name: str) -> str:
    """The element of a name; nothing if it has no meaning. A hyphen makes it a custom element."""
    if name in n.TAGS:
        return name
    return CUSTOM if "-" in name else ""


def read_start(reader: Reader, tokenizer: Tokenizer, token: Start, name: str) -> bool:
    """A start tag, and what it holds when that is no markup. Whether text may follow."""
    flags = n.TAGS[name]
    words = meaning(token.attributes) if flags & n.CLASSED else 0
    if token.name not in n.TAGS:
        words |= words_of(token.name.encode(), 512)
    has_href = any(
        name == "href" and not re.match(rb"#.", value, re.DOTALL)
        for name, value in token.attributes
    )
    has_content = flags & n.RAW or name in ("plaintext", "frameset")
    is_html = not reader.stack[-1].foreign
    if is_html and tokenizer.xml and token.self_closing and not flags & n.VOID:
        if not has_content:
            reader.start_tag(name, words, has_href, token.self_closing)
            reader.end_tag(name)
        return True
    if not is_html or not has_content:
        reader.start_tag(name, words, has_href, token.self_closing)
        return True
    if name == "frameset":
        if len(reader.stack) > 1 or reader.blocks or reader.out:
            reader.start_tag(name, words, has_href, token.self_closing)
            return True
        return reader.has_body
    content = tokenizer.page[tokenizer.at :] if name == "plaintext" else tokenizer.raw(name)
    note_embedded(reader, token, content)
    if name == "title" and not reader.title and not reader.dropped():
        reader.title = read_title(content)
    elif name == "textarea":
        reader.close_select()
    elif name in ("xmp", "plaintext"):
        reader.start_tag(name, words, has_href, token.self_closing)
        if not reader.dropped():
            reader.write(list(pieces(content, references=False)))
        if name == "xmp":
            reader.end_tag(name)
    return name != "plaintext"


def note_embedded(reader: Reader, token: Start, content: bytes) -> None:
    """Note what an element without markup embeds."""
    if token.name == "noscript":
        reader.embed("noscript", content)
    elif token.name == "iframe":
        documents = [value for name, value in token.attributes if name == "srcdoc"]
        reader.embed("frame", documents[0] if documents else b"")
    elif token.name == "script" and b"ld+json" in token.raw.lower() and b'"articleBody"' in content:
        reader.embed("data", content)
