"""
Pages that would keep the parser busy for minutes, told from their tags alone, and what is done with them instead.

    over 4,096 elements inside each other     stripped    tags cut out, no parser: it is quadratic in open elements
    over 512 div or article in each other     all text    main-content extraction is quadratic in them
    over 10,000 attributes in a tag           the tag loses them: the parser compares each with all others

Each bound costs a second at most, and no page of a person comes near one: browsers stop at 512 levels. What escapes
these guards meets the time limit of the page processes.
"""

from __future__ import annotations

import html as html_entities
import re
from collections import Counter

__all__ = ["is_slow_to_extract", "is_slow_to_parse", "stripped_text", "without_attribute_floods"]

LEVELS_PARSED_MAX = 4_096
ATTRIBUTES_MAX = 10_000

# Main-content extraction reads the inside of each div and article again for each one around it, about 50 ns a tag.
_CONTAINER = re.compile(r"<(/?)(div|article|object|marquee|applet|template|table|svg|math)(?=[\s/>])", re.IGNORECASE)
_CONTAINERS = ("div", "article")  # the others hold end tags back: none of theirs closes an element outside
_TAGS_UNCOUNTED = 2_000  # with fewer tags no nesting costs more than 0.2 s
_TAGS_READ_MAX = 20_000_000  # levels x tags: 1 s

_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)([^<>]*)")
_TAGS_PARSED_ANYWAY = 10_000  # with fewer tags no nesting costs the parser more than 0.5 s
# Elements that hold no others, and those that the next of their kind ends; shapes of drawings close themselves.
_NOT_NESTING = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
    | {"p", "li", "dt", "dd", "tr", "td", "th", "tbody", "thead", "tfoot", "option"}
)
_SHAPES = frozenset({"path", "circle", "rect", "line", "g", "use", "polygon", "polyline", "ellipse", "stop", "image"})

_ATTRIBUTES_TEXT = 100_000  # characters of a tag from where the number of its attributes is worth a look
_LONG_TAG = re.compile(r"<[a-zA-Z][^<>]{100000,}")


def is_slow_to_extract(html: str, nesting_max: int) -> bool:
    """
    Say whether div and article elements nest so deep that main-content extraction would take seconds.

    An end tag counts only when its element is open and nothing between holds it back.

    Cost: none below 2,000 tags; else 0.2 µs a div.

    >>> is_slow_to_extract("<div></x>" * 3000, 512), is_slow_to_extract("<div></div>" * 3000, 512)
    (True, False)
    >>> is_slow_to_extract("<div><object></div>" * 3000, 512)
    True
    """
    tags = _start_tags(html)
    if tags < _TAGS_UNCOUNTED:
        return False
    levels_max = min(nesting_max, _TAGS_READ_MAX // tags)
    open_elements: list[str] = []
    for found in _CONTAINER.finditer(html):
        closing, tag = found.groups()
        name = tag.lower()
        if not closing:
            open_elements.append(name)
            if len(open_elements) > levels_max:
                return True
            continue
        for at in range(len(open_elements) - 1, -1, -1):
            if open_elements[at] == name:
                del open_elements[at:]
                break
            if open_elements[at] not in _CONTAINERS and name in _CONTAINERS:
                break
    return False


def is_slow_to_parse(html: str) -> bool:
    """
    Say whether more than 4,096 elements of any kind are open at once, so that building the tree would be quadratic.

    Cost: none below 10,000 tags; else 0.5 µs a tag.

    >>> is_slow_to_parse("<ol></b>" * 20_000), is_slow_to_parse("<b>x</b>" * 20_000)
    (True, False)
    """
    if _start_tags(html) < _TAGS_PARSED_ANYWAY:
        return False
    open_elements: Counter[str] = Counter()
    levels = 0
    for found in _TAG.finditer(html):  # not findall: most such pages are told after a few thousand tags
        closing, tag, rest = found.groups()
        name = tag.lower()
        if name in _NOT_NESTING or (name in _SHAPES and rest.endswith("/")):
            continue
        if not closing:
            open_elements[name] += 1
            levels += 1
            if levels > LEVELS_PARSED_MAX:
                return True
        elif open_elements[name]:
            open_elements[name] -= 1
            levels -= 1
    return False


def _start_tags(html: str) -> int:
    """Give at least the number of start tags; exactly counted only where the number matters."""
    tags = html.count("<")
    return tags if tags < _TAGS_UNCOUNTED else tags - html.count("</")


def stripped_text(html: str) -> str:
    """
    Give the text of a page without building a tree: what stands between tags, scripts and styles left out.

    Cost: O(len(html)), whatever is in it.

    >>> stripped_text("<p>one<b>two</b>&amp;<script>var x = '<i>no</i>'</script> three")
    'one two & three'
    """
    kept = []
    inside = None  # the script or style whose end is awaited
    for piece in ("x>" + html).split("<"):
        tag, bracket, text = piece.partition(">")
        name = tag.split(None, 1)[0].lower() if tag[:1].isalpha() or tag[:1] == "/" else ""
        if inside is not None:
            if name != "/" + inside:
                continue
            inside = None
        elif name in ("script", "style"):
            inside = name
            continue
        kept.append(text if bracket else "")
    return " ".join(html_entities.unescape(" ".join(kept)).split())


def without_attribute_floods(html: str) -> str:
    """
    Give the page without the attributes of any tag that has more than 10,000 of them.

    Cost: none below 100,000 characters; else 1 ns a character.
    """
    return html if len(html) < _ATTRIBUTES_TEXT else _LONG_TAG.sub(_without_attribute_flood, html)


def _without_attribute_flood(found: re.Match[str]) -> str:
    """Give a long tag, without its attributes if there are too many of them."""
    tag = found.group()
    return tag if len(tag.split(None, ATTRIBUTES_MAX)) <= ATTRIBUTES_MAX else tag.split(None, 1)[0]
