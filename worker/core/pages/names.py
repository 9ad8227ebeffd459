"""
The names that a page's markup is read by: elements, words of classes, roles; each with what it means, as bits.

Names are looked up by the FNV-1a hash that the scanner makes of their bytes in lower case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import fused

# ---- open tables of 64-bit hashes, which the scanner makes on its way through a name, one byte at a time

U = np.uint64
PRIME = U(0x100000001B3)  # FNV-1a
SEED = U(0xCBF29CE484222325)


def name_hash(name: str) -> int:
    """The hash of a name's bytes: FNV-1a, its high bits folded into the low ones that choose the slot."""
    value = int(SEED)
    for byte in name.encode():
        value = (value ^ byte) * int(PRIME) & (1 << 64) - 1
    return value ^ (value >> 29)


def lookup_table(entries: Mapping[str, int], bits: int) -> NDArray[np.uint64]:
    """Rows of 2**bits slots, a hash and its value; a free slot is 0. Two names of one hash would be an error here."""
    table = np.zeros((1 << bits, 2), np.uint64)
    for name, value in entries.items():
        key = name_hash(name)
        slot = key & ((1 << bits) - 1)
        while table[slot, 0]:
            if int(table[slot, 0]) == key:
                raise ValueError(f"{name!r} has the hash of another name, {key:#x}: one would hide the other")
            slot = (slot + 1) & ((1 << bits) - 1)
        table[slot] = key, value
    return table


@fused
def add_byte(value: Any, byte: Any) -> Any:
    """The hash of a name and one more byte; SEED is that of none."""
    return (value ^ U(byte)) * PRIME


@fused
def finished(value: Any) -> Any:
    """The hash to look up."""
    return value ^ (value >> U(29))


@fused
def look_up(table: Any, key: Any) -> Any:
    """The value of a hash, 0 for one that is not there."""
    mask = U(table.shape[0] - 1)
    slot = key & mask
    while True:
        held = table[slot, 0]
        if held == key:
            return np.int64(table[slot, 1])
        if held == U(0):
            return np.int64(0)
        slot = (slot + U(1)) & mask


# ---- elements: a number of 1 to 255 below these bits
VOID = 1 << 8  # has no content
BLOCK = 1 << 9  # ends a block of text before and after it
RAW = 1 << 10  # holds no markup
DROPPED = 1 << 11  # its text is no text of the page
CLASSED = 1 << 12  # its attributes are read
SPECIAL = 1 << 13  # an end tag of another element does not reach beyond it (WHATWG "special")
SCOPE = 1 << 14  # nor do end tags of blocks (WHATWG "in scope")
BREAKOUT = 1 << 15  # ends SVG and MathML
CLOSES_P = 1 << 16  # ends an open paragraph
INTEGRATION = 1 << 17  # inside SVG and MathML: holds HTML again
CELLS = 1 << 18  # a part of a table: only table parts close and open it
MARKER = 1 << 19  # a link that begins inside ends with it
TAG = 255

_NAMES = (
    "a p li ul ol dl dt dd tr td th table tbody thead tfoot caption br script title plaintext svg math body html head "
    "article main nav aside footer header form fieldset figure figcaption h1 h2 h3 h4 h5 h6 span div section pre "
    "blockquote button option optgroup menu address search dialog select input textarea template xmp frameset noframes "
    "label"
)
# fmt: off
(A, P, LI, UL, OL, DL, DT, DD, TR, TD, TH, TABLE, TBODY, THEAD, TFOOT, CAPTION, BR, SCRIPT, TITLE, PLAINTEXT, SVG, MATH,
 BODY, HTML, HEAD, ARTICLE, MAIN, NAV, ASIDE, FOOTER, HEADER, FORM, FIELDSET, FIGURE, FIGCAPTION, H1, H2, H3, H4, H5,
 H6, SPAN, DIV, SECTION, PRE, BLOCKQUOTE, BUTTON, OPTION, OPTGROUP, MENU, ADDRESS, SEARCH, DIALOG, SELECT, INPUT,
 TEXTAREA, TEMPLATE, XMP, FRAMESET, NOFRAMES, LABEL) = range(1, len(_NAMES.split()) + 1)
# fmt: on
_numbers = {name: number for number, name in enumerate(_NAMES.split(), start=1)}
TAGS: dict[str, int] = {}


def set_of(elements: str) -> NDArray[np.bool_]:
    """[256]: whether an element is one of them."""
    members = np.zeros(256, np.bool_)
    members[[_numbers[name] for name in elements.split()]] = True
    return members


def _elements(names: str, flags: int) -> None:
    for name in names.split():
        TAGS[name] = TAGS.get(name, _numbers.setdefault(name, len(_numbers) + 1)) | flags


_elements("area base br col embed hr img input link meta source track wbr param bgsound keygen frame basefont", VOID)
_elements(
    "address article aside blockquote body center dd details dialog dir div dl dt fieldset figcaption figure footer "
    "form frameset h1 h2 h3 h4 h5 h6 head header hgroup html legend li main menu nav ol p pre section summary table "
    "tbody td tfoot th thead tr ul caption listing search optgroup option xmp plaintext",
    BLOCK | CLASSED | SPECIAL,
)
_elements(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header hgroup main menu nav ol p pre section summary ul listing li dd dt hr search xmp plaintext table",
    CLOSES_P,
)
_elements("hr", BLOCK)
_elements("script style title textarea noscript iframe noembed noframes xmp", RAW)
_elements("template select button object applet marquee", SPECIAL)
_elements("annotation annotation-xml svg template select canvas audio video datalist frameset rt rp", DROPPED)
_elements("button object span math nobr", CLASSED)
_elements("td th caption table html template object applet marquee select", SCOPE)
_elements("td th caption object applet marquee template", MARKER)
_elements("td th tr tbody thead tfoot caption", CELLS)
_elements(
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu meta "
    "nobr ol p pre ruby s small span strong strike sub sup table tt u ul var",
    BREAKOUT,
)
_elements("a", 0)
_elements("foreignobject desc title mi mo mn ms mtext annotation-xml", INTEGRATION)
TAG_TABLE = lookup_table(TAGS, 9)

# ---- words of class and id, whole ones after splitting at what is no letter and in camelCase
HIDDEN, NEGATIVE, WEAK, POSITIVE, PART_A, PART_B, BODY_WORD, COMMENT, STATE_WORD = (1 << bit for bit in range(9))
SURE = 1 << 9  # never holds a page
WORDS: dict[str, int] = {}


def _words(names: str, flags: int) -> None:
    for name in names.split():
        WORDS[name] = WORDS.get(name, 0) | flags


_words(
    "nav navbar navigation navi menu menus submenu breadcrumb breadcrumbs pagination pager paging sitemap topnav "
    "subnav navlinks megamenu dropdown hamburger offcanvas toolbar",
    NEGATIVE,
)
_words(
    "footer foot footnav colophon copyright masthead topbar sitefooter sitehead siteheader pagefooter pageheader",
    NEGATIVE,
)
_words(
    "sidebar sidebars aside rail sidenav sidecol rightcol leftcol rightbar leftbar rightcolumn leftcolumn rightrail "
    "widget widgets secondary complementary tertiary sidepanel blogroll",
    NEGATIVE,
)
_words(
    "ad ads adv advert adverts advertisement advertisements advertising adsense adslot adunit adbox adblock "
    "adcontainer adwrapper sponsor sponsored sponsors promo promos promotion promoted outbrain taboola revcontent "
    "zergnet banner banners dfp gpt anzeige werbung publicidad publicite reklama skyscraper leaderboard billboard "
    "plista partner partners affiliate",
    NEGATIVE,
)
_words(
    "share sharing sharebar sharer sharetools shares sharedaddy addthis addtoany social socials socialmedia follow "
    "subscribe subscription subscriptions newsletter newsletters signup login signin register registration cookie "
    "cookies consent gdpr ccpa popup popups modal overlay lightbox tooltip notification notifications snackbar "
    "toast mailinglist optin feedback survey poll quiz donate donation bookmark bookmarks",
    NEGATIVE,
)
_words(
    "comment comments commentlist commentary disqus respond reply replies livefyre kommentare kommentar "
    "commentaires comentarios commento komentarze discussion usercomments reviews",
    NEGATIVE | COMMENT,
)
_words(
    "related relatedposts relatedarticles recommend recommended recommendation recommendations recommends similar "
    "popular trending mostread mostpopular morefrom readmore seealso teaser teasers outro onward upnext nextprev "
    "prevnext jumplinks tagcloud taglist tags latest recirc recirculation carousel slider slideshow ticker gallery "
    "galleries caption captions credit credits wpcaption crosslinks linkbox infobox authorbox authorbio bio yarpp "
    "relacionadas relacionados verwandte",
    NEGATIVE,
)
_words(
    "cookie cookies consent gdpr ccpa popup popups modal overlay lightbox newsletter newsletters signup login signin "
    "register registration snackbar toast notification notifications tooltip",
    SURE,
)
_words(
    "hidden hide invisible visuallyhidden screenreader sr skiplink skip noprint nodisplay displaynone print "
    "nocontent offscreen",
    NEGATIVE,
)
_words(
    "meta metadata byline author authors tag category categories cat date dateline timestamp published postmeta "
    "entrymeta header tools utility utilities info rating ratings votes vote stats thumbnail thumb thumbs toc "
    "source sources disclaimer license licence form search actions buttons button btn links linklist next prev "
    "previous more list legal edit editsection tease card cards module modules box kicker media video photo player "
    "image img figure contact about bottom right left col extra extras aux callout pullquote note sticky top "
    "profile user",
    WEAK,
)
_words(
    "article articles story entry post posts content contents body text main blog news page column maincontent "
    "mainbody articlebody articletext articlecontent storybody storytext storycontent postbody postcontent "
    "entrycontent bodytext bodycontent hentry paragraph paragraphs artikel article noticia nota",
    POSITIVE,
)
_words("article story entry post blog news page single field main artikel detail rich node default wysiwyg", PART_A)
_words("body content text copy entry contents paragraphs richtext maincontent container", PART_B)
_words(
    "articlebody articletext articlecontent storybody storytext storycontent postbody postcontent entrycontent "
    "bodytext bodycontent maincontent mainarticle",
    BODY_WORD,
)
_words("tag category cat term filed no has with without js hasno wp is not show enable disable", STATE_WORD)
WORD_TABLE = lookup_table(WORDS, 11)

ROLES = {
    "navigation": NEGATIVE,
    "banner": NEGATIVE,
    "contentinfo": NEGATIVE,
    "complementary": NEGATIVE,
    "search": NEGATIVE,
    "menu": NEGATIVE,
    "menubar": NEGATIVE,
    "dialog": NEGATIVE,
    "alertdialog": NEGATIVE,
    "main": POSITIVE,
    "article": POSITIVE,
}
ROLE_TABLE = lookup_table(ROLES, 5)
ARTICLE_BODY = np.uint64(name_hash("articlebody"))
TRUE = np.uint64(name_hash("true"))

# ---- what a container hands down to all inside it, beside the bits of its words
IN_NAV, IN_ASIDE, IN_FOOTER, IN_ARTICLE, IN_MAIN, IN_TABLE, IN_LIST, IN_HEADING, IN_QUOTE = (
    1 << bit for bit in range(12, 21)
)
INSIDE = np.zeros(256, np.int64)  # of each element
INSIDE[[NAV, ASIDE, FOOTER, ARTICLE, MAIN]] = IN_NAV, IN_ASIDE, IN_FOOTER, IN_ARTICLE, IN_MAIN
INSIDE[[TABLE, LI, BLOCKQUOTE, DIALOG]] = IN_TABLE, IN_LIST, IN_QUOTE, NEGATIVE
INSIDE[H1 : H6 + 1] = IN_HEADING
