"""The judgement said again in plain Python, over a tree of objects: slow, and what the kernel must equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from worker.core.pages import names
from worker.core.pages.names import H1, H6, NEGATIVE, P

MARGINS = NEGATIVE | names.IN_NAV | names.IN_ASIDE | names.IN_FOOTER
ARTICLES = names.IN_ARTICLE | names.IN_MAIN
CELLS = {names.TR, names.TD, names.TH, names.TBODY, names.THEAD, names.TFOOT, names.DT, names.DD}
LISTS = {names.UL, names.OL, names.DL, names.TABLE}
HEADINGS = set(range(H1, H6 + 1))
INTERFACE = {names.NAV, names.FOOTER, names.ASIDE, names.BUTTON, names.LABEL, names.OPTION}


@dataclass(eq=False)
class Block:
    number: int
    node: Node
    text: bytes
    length: int
    link: int
    stops: int
    grade: str = ""
    keep: str = ""

    def links(self, percent: int) -> bool:
        """Whether so many percent of its bytes are links'."""
        return self.link * 100 >= percent * len(self.text)


@dataclass(eq=False)
class Node:
    number: int
    parent: Node | None
    tag: int
    own: int
    above: int
    first: int
    end: int
    children: list[Node] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    cut: bool = False
    before: int = 0
    on_way: bool = False
    paragraphs: int = 0

    def below(self) -> Iterator[Node]:
        """Itself and all below it."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(node.children)

    def up(self) -> Iterator[Node]:
        """Itself and all around it."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent


@dataclass
class Sums:
    """Of the blocks in a container that are not cut out."""

    length: int = 0
    link: int = 0
    prose: int = 0
    matter: int = 0
    pure: int = 0
    titles: int = 0
    heads: int = 0
    h1: int = 0
    boxes: int = 0
    boxed: int = 0
    alien: int = 0

    def are_teasers(self) -> bool:
        return self.titles >= 3 and self.prose < 150 * self.titles

    def are_alien(self) -> bool:
        boxes = self.boxes >= 4 and self.boxed * 100 >= 70 * self.prose and self.heads <= 1
        return self.are_teasers() or boxes

    def alien_prose(self) -> int:
        return self.prose if self.are_alien() else self.alien


class ReferencePage:
    """One page's judgement. `keeps` are B_KEEP of its blocks."""

    def __init__(self, out: bytes, blocks: list[list[int]], nodes: list[list[int]]) -> None:
        self.nodes: list[Node] = []
        for number, (parent, tag, own, above, first, end) in enumerate(row[:6] for row in nodes):
            node = Node(number, self.nodes[parent] if number else None, tag, own, above, first, end)
            self.nodes.append(node)
            if node.parent is not None:
                node.parent.children.append(node)
        self.blocks = []
        for number, (start, end, at, length, link, stops, _, size) in enumerate(blocks):
            text = out[start:end].ljust(size)[:size]  # the last block of a page of too many holds more than it shows
            block = Block(number, self.nodes[at], text, length, link, stops)
            self.blocks.append(block)
            self.nodes[at].blocks.append(block)
        self.page = self.nodes[0]
        self.sums: list[Sums] = []
        self.method = self._judge()

    @property
    def keeps(self) -> list[int]:
        return [{"": 0, "text": 1, "heading": 2}[block.keep] for block in self.blocks]

    def kept(self) -> int:
        return sum(block.length for block in self.blocks if block.keep)

    # ---- the order of the steps

    def _judge(self) -> str:
        teasers = self._attempt(NEGATIVE, sure=True)
        little = self.kept()
        if little >= 300:
            return "main"
        titled = any(block.keep and block.node.tag == H1 for block in self.blocks)
        least = little * (12 if titled and little >= 60 else 4)
        for words, sure in ((names.SURE | names.COMMENT, True), (names.COMMENT, False)):
            teasers = self._attempt(words, sure=sure)
            if self.kept() >= max(least, 100) and not teasers:
                return "main"
        self._keep_most()
        if self.kept() >= max(least, 1):
            self._keep_all_of_next_to_nothing()
            return "all"
        self._attempt(NEGATIVE, sure=True)
        return "all" if self._keep_all_of_next_to_nothing() else "main"

    def _keep_all_of_next_to_nothing(self) -> bool:
        shown = [block for block in self.blocks if not block.node.own & names.HIDDEN]
        if self.kept() >= 30 or sum(block.length for block in shown) < 10 * self.kept():
            return False
        for block in self.blocks:
            block.keep = "text" if block in shown else ""
        return True

    def _attempt(self, words: int, *, sure: bool) -> bool:
        for node in self.nodes:
            node.cut = node.on_way = False
        for block in self.blocks:
            block.grade = grade(block)
        self._look_before()
        self._sum_up()
        self._cut_furniture(words, sure)
        self._sum_up()
        self._cut_later_articles()
        self._items_are_prose()
        self._sum_up()
        core = self._core()
        root = self._root(core)
        self._prune(core, root)
        self._sum_up()
        teasers = self.sums[root.number].are_teasers()
        self._cut_inserts(root)
        self._keep_blocks(root)
        return teasers

    # ---- sums

    def _look_before(self) -> None:
        for node in self.nodes:
            before = (block for block in self.blocks[: node.first] if not block.node.above & MARGINS)
            node.before = sum(block.length for block in before if block.grade == "prose")

    def _sum_up(self) -> None:
        self.sums = [Sums() for _ in self.nodes]
        for node in reversed(self.nodes):
            own = self.sums[node.number]
            for block in [] if node.cut else node.blocks:
                own.length += block.length if block.grade != "heading" else 0
                own.link += block.length * block.link // len(block.text)
                own.prose += block.length if block.grade == "prose" else 0
                own.matter += block.length if block.grade in ("prose", "item") else 0
                own.pure += block.length if block.links(90) else 0
                heads = bool(node.above & names.IN_HEADING)
                own.titles += (1 + heads) * (block.grade == "title") - (block.grade == "heading")
                own.heads += heads
                own.h1 += node.tag == H1 and block.link * 2 < len(block.text)
            for child in node.children:
                held = self.sums[child.number]
                for name in ("length", "link", "prose", "matter", "pure", "titles", "heads", "h1"):
                    setattr(own, name, getattr(own, name) + getattr(held, name))
                if child.tag in (names.DIV, names.ARTICLE, names.SECTION) and 0 < held.prose < 600:
                    own.boxes += 1
                    own.boxed += held.prose
                own.alien += held.alien_prose()

    # ---- what is cut out

    def _cut_furniture(self, words: int, sure: bool) -> None:
        total = self.sums[0].prose
        for node in self.nodes[1:]:
            assert node.parent is not None
            node.cut = node.parent.cut or self._is_furniture(node, node.parent, total, words, sure)

    def _is_furniture(self, node: Node, parent: Node, total: int, words: int, sure: bool) -> bool:
        prose, own, tag = self.sums[node.number].prose, node.own, node.tag
        if own & names.HIDDEN:
            return True
        said = own & words != 0 and tag not in CELLS | HEADINGS | {names.TABLE}
        marked = said or tag in INTERFACE | {names.MENU, names.FIGCAPTION}
        article = tag in (names.ARTICLE, names.MAIN) and not own & names.COMMENT and prose * 100 >= 20 * total
        quoted = node.first < node.end and self.blocks[node.first].node.above & names.IN_QUOTE != 0
        paragraph = ((tag == P and prose >= 80) or quoted) and parent.above & ARTICLES != 0
        question = tag == names.BUTTON and parent.above & names.IN_HEADING != 0
        little = prose < 200 or prose * 100 < 50 * total
        if marked and not (article or paragraph or question):
            if little or tag in (names.NAV, names.FOOTER) or (sure and own & names.SURE):
                return True
            if own & names.COMMENT and node.before >= 60:
                return True
        if little and (tag == names.FORM or (tag == names.HEADER and not parent.above & ARTICLES)):
            return True
        text = tag in CELLS | LISTS | HEADINGS | {P, names.LI, names.PRE, names.BLOCKQUOTE}
        weak = own & names.WEAK != 0 and not own & names.POSITIVE and not text
        return weak and prose == 0 and self.sums[node.number].length < 120 and not quoted

    def _cut_later_articles(self) -> None:
        first: Node | None = None
        for node in self.nodes[1:]:
            sums = self.sums[node.number]
            node.cut = node.cut or (node.parent is not None and node.parent.cut)
            if node.cut or node.tag != names.ARTICLE or sums.h1 != 1 or sums.prose < 200:
                continue
            first = first or node
            node.cut = node is not first and node.first >= first.end

    def _items_are_prose(self) -> None:
        if self.sums[0].prose * 4 < self.sums[0].matter:
            for block in self.blocks:
                if block.grade == "item" and not block.node.cut:
                    block.grade = "prose"

    # ---- where the text is

    def _core(self) -> Node:
        points = dict.fromkeys(self.nodes, 0)
        paragraphs = {P, names.LI, names.DD, names.TD, names.PRE, names.BLOCKQUOTE}
        for block in self.blocks:
            if block.grade == "prose" and not block.node.cut:
                node = block.node
                if node.tag in paragraphs and node.parent is not None:
                    node = node.parent
                for _ in range(8):
                    if node.parent is not None and node.end - node.first <= 1:
                        node = node.parent
                for above, share in zip(node.up(), (1, 2, 6), strict=False):
                    points[above] += min(block.length, 2_000) // share
        scores = {node: self._weighed(node, points[node]) for node in self.nodes if not node.cut}
        core = max(scores, key=lambda node: (scores[node], -node.number))
        rows = CELLS - {names.TD, names.TH, names.DT, names.DD}
        return next(node for node in core.up() if node.parent is None or node.tag not in LISTS | rows)

    def _weighed(self, node: Node, score: int) -> int:
        sums = self.sums[node.number]
        score *= 100 - sums.link * 100 // max(sums.length, 1)
        if node.own & names.BODY_WORD or (node.own & names.PART_A and node.own & names.PART_B):
            score = score * 3 // 2
        elif node.own & names.POSITIVE or node.tag == names.ARTICLE:
            score = score * 5 // 4
        score = score * 3 // 4 if node.own & names.WEAK else score
        score = score // 2 if node.above & MARGINS else score
        return score // 2 if sums.are_alien() else score

    def _root(self, core: Node) -> Node:
        root, alien, path, inside = core, 0, list(core.up()), True
        for below, node in pairwise(path):
            if below.own & names.BODY_WORD or (below.tag == names.ARTICLE and not (inside and self._has_peers(below))):
                break
            inside = inside and below.tag != names.ARTICLE
            has, had = self.sums[node.number], self.sums[root.number]
            alien += has.alien - self.sums[below.number].alien_prose()
            prose, matter = has.prose - had.prose - alien, has.matter - had.matter - alien
            length = has.length - had.length - alien
            items, titles = matter - prose, has.titles - had.titles
            is_like = prose * 100 >= 60 * length or matter * 100 >= 50 * length
            many_items = items * 100 >= 5 * had.matter and items * 2 >= prose
            is_teasers = titles >= 3 and prose < 150 * titles
            more = 20 if node.above & names.IN_MAIN else 60
            much = prose * 100 >= more * had.prose or prose >= 3_000 or many_items
            if is_like and matter > 0 and much and not is_teasers:
                root, alien = node, 0
        return root

    def _has_peers(self, article: Node) -> bool:
        others = (node for node in self.nodes if node.tag == article.tag and node.own == article.own and not node.cut)
        prose = sum(self.sums[node.number].prose for node in others if node is not article)
        return prose * 100 >= 60 * self.sums[article.number].prose

    def _prune(self, core: Node, root: Node) -> None:
        if core is root:
            return
        for node in core.up():
            node.on_way = True
            if node is root:
                break
        need = self.sums[core.number].prose * 10 // 100
        for node in self.nodes[root.number + 1 :]:
            parent = node.parent
            assert parent is not None
            if parent.number < root.number or node.on_way:
                continue
            beside = parent.on_way and parent is not core
            node.cut = node.cut or parent.cut or (beside and not self._is_like(node, root, need))

    def _is_like(self, node: Node, root: Node, need: int) -> bool:
        sums = self.sums[node.number]
        if node.tag in HEADINGS or (node.tag == P and sums.prose > 0):
            return True
        in_article = root.above & names.IN_ARTICLE != 0
        enough = sums.prose >= need or (in_article and sums.prose >= 80 and sums.prose * 4 >= sums.length * 3)
        items = sums.matter * 2 >= need and sums.matter * 100 >= 75 * sums.length
        return not sums.are_alien() and (enough or items)

    # ---- which blocks stay

    def _cut_inserts(self, root: Node) -> None:
        for node in self.nodes:
            prose = [child for child in node.children if child.tag == P]
            node.paragraphs = sum(block.grade == "prose" for child in prose for block in child.blocks)
        for node in self.nodes[root.number + 1 :]:
            sums, parent = self.sums[node.number], node.parent
            assert parent is not None
            if parent.cut:
                node.cut = True
            elif parent.number >= root.number and node.tag == names.DIV and node.first < node.end:
                beside = parent.paragraphs >= 3 and sums.length < 600
                quoted = self.blocks[node.first].node.above & (names.IN_QUOTE | names.IN_TABLE) != 0
                node.cut = node.cut or (beside and sums.link * 100 >= 25 * sums.length and not quoted)

    def _keep_blocks(self, root: Node) -> None:
        anchor = next((node for node in root.up() if node.tag == names.ARTICLE), None)
        end = anchor.end if anchor is not None else root.end
        if anchor is None:
            anchor = [node for node in root.up() if node.parent is not None or node is root][:6][-1]
            end = anchor.end if anchor.above & names.IN_ARTICLE else root.end
        for block in self.blocks:
            block.keep = ""
            if block.node.cut or block.grade == "notice":
                continue
            if root.first <= block.number < root.end:
                block.keep = self._keep(block, root)
            elif anchor.first <= block.number < end and block.grade == "prose" and block.length >= 80:
                block.keep = "" if block.links(20) else "text"
        follows = False
        for block in reversed(self.blocks):
            if block.keep == "text":
                follows = True
            elif block.keep == "heading":
                block.keep = "heading" if follows else ""
            else:
                follows = follows and block.length < 40

    def _keep(self, block: Block, root: Node) -> str:
        node = block.node
        parent = node.parent or self.page
        beside = parent.paragraphs if node.tag in (names.DIV, names.SECTION) else 0
        if block.grade == "prose":
            return "" if block.length < 250 and beside >= 3 else "text"
        if node.above & names.IN_HEADING:
            return "heading"
        own_words = block.link * 2 <= len(block.text)
        listed = next((above for above in list(node.up())[:6] if above.tag in LISTS or above.parent is None), None)
        if listed is not None and listed.number > root.number:
            sums = self.sums[listed.number]
            before = self.blocks[listed.first - 1] if listed.first else block
            announced = before.keep == "text" and before.text.endswith((b":", "\uff1a".encode()))
            return "text" if own_words or sums.pure * 2 <= sums.length or announced else ""
        if own_words:
            return "" if beside >= 2 else "text"
        plain = block.length * (len(block.text) - block.link) // len(block.text)
        return "text" if plain >= 40 else ""

    def _keep_most(self) -> None:
        for node in self.nodes[1:]:
            assert node.parent is not None
            node.cut = node.parent.cut or node.tag in INTERFACE or node.own & (names.HIDDEN | NEGATIVE) != 0
        for block in self.blocks:
            block.grade = grade(block)
            mostly_links = block.link * 10 > len(block.text) * 9
            block.keep = "" if block.node.cut or block.grade == "notice" or mostly_links else "text"


def grade(block: Block) -> str:
    """What a block is by itself."""
    tag, above = block.node.tag, block.node.above
    if block.text.startswith("©".encode()):
        return "notice"
    titled = block.links(80) and block.length >= 15
    if above & names.IN_HEADING and block.length < 120:
        return "title" if titled else "heading"
    sentence = block.length >= 80 or (block.length >= 25 and block.stops > 0)
    if sentence and not block.links(50 if tag == P else 25):
        return "prose"
    if titled and not above & names.IN_TABLE and tag != names.DT:
        return "title"
    listed = above & (names.IN_LIST | names.IN_TABLE | names.IN_QUOTE) != 0
    own_words = block.link * 100 <= 60 * len(block.text)
    return "item" if tag in (names.DD, names.DT, names.PRE) or (listed and own_words) else "plain"


def reference(room: Any) -> ReferencePage:
    """The reference's judgement of a scanned page."""
    return ReferencePage(room.out.tobytes(), room.blocks.tolist(), room.nodes.tolist())
