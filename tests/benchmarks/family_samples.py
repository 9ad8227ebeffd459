"""
Streams for `bench_families`: families of copies, and families of pages that only look like copies.

Documents of one group are copies of each other; those of another group are other documents, however
alike they look. Everything is drawn from a seed, and nothing is chosen by what a search finds.

    copies      articles between other advertisements; texts with words replaced
    templates   pages of one template with other facts, of six kinds in eight languages
    others      what shares most of its text and is not the same: airports, a shop, Thai products,
                numbers that called, licences of one model, release notes, offers of a few lines
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.accuracy_samples import (
    LENGTHS,
    articles_of,
    page_text,
    snippets_of,
    with_share,
)
from worker.core.evaluation import exact_jaccard, shingle_set
from worker.devkit.sample import crawl
from worker.devkit.sample.crawl import Dice
from worker.settings import Settings


class Stream(NamedTuple):
    """Documents in the order in which they arrive."""

    kind: str
    texts: list[str]
    languages: list[str | None]
    groups: list[int]


# ---- copies

ROTATING = (0.1, 0.2, 0.3)  # of an article's words, in advertisements
ONE_SIDED = 0.5
COPIES = 8
JACCARD = 0.75
REACH = 0.03
# Characters of the texts in which words are replaced: three for a word, as in the sketch.
LENGTHS_REPLACED = [3 * words for words in LENGTHS]
# Characters that are replaced together, in scripts that write words without spaces.
WORD_LENGTHS = {"zh": 2, "ja": 2, "th": 4}


def advertised(folder: Path, settings: Settings, articles: int, seed: int) -> Iterator[Stream]:
    """
    Articles of the labelled corpus that come eight times, each time between other advertisements,
    in random order; and articles that come alone, and then with advertisements.
    """
    snippets = snippets_of(folder)
    known = articles_of(folder, settings)
    for share in ROTATING:
        dice = Dice(seed)
        rows: list[tuple[int, str]] = []
        for group, article in enumerate(dice.several(known, articles)):
            for _ in range(COPIES):
                rows.append((group, with_share(article, share, snippets, dice)))
        yield _stream(f"advertisements {share}, eight copies", dice.several(rows, len(rows)), "en")
    dice = Dice(seed)
    rows = []
    for group, article in enumerate(dice.several(known, articles)):
        again = with_share(article, ONE_SIDED, snippets, dice)
        rows += [(group, article), (group, again)]
    yield _stream(f"advertisements {ONE_SIDED}, one copy", rows, "en")


def replaced(texts: int, seed: int) -> Iterator[Stream]:
    """
    Texts in Chinese, Japanese and Thai, of each length in turn, each followed by a copy with other
    words in it.
    """
    for code, length in WORD_LENGTHS.items():
        dice = Dice(seed)
        rows: list[tuple[int, str]] = []
        for group in range(texts):
            characters = LENGTHS_REPLACED[group % len(LENGTHS_REPLACED)]
            text = _text_of(characters, code, dice)
            donor = _text_of(characters, code, dice)
            rows += [(group, text), (group, _with_words_of(text, donor, length, dice))]
        yield _stream(f"words replaced to J {JACCARD}, {code}", rows, code)


def _with_words_of(text: str, donor: str, length: int, dice: Dice) -> str:
    """
    Replace words, one after the other in random order, until the Jaccard index is JACCARD. In
    short texts, the last word may take it lower.
    """
    shingles = shingle_set(text)
    places = range(0, len(text) - length, length)
    copy = text
    for place in dice.several(places, len(places)):
        copy = copy[:place] + donor[place : place + length] + copy[place + length :]
        if exact_jaccard(shingles, shingle_set(copy)) <= JACCARD + REACH / 2:
            break
    return copy


def _text_of(characters: int, code: str, dice: Dice) -> str:
    """Return so many characters of a text; Thai has no lists of words in the sample crawl."""
    text = ""
    while len(text) < characters:
        if code == "th":
            text += "".join(dice.pick(THAI_WORDS) for _ in range(dice.number(6, 14)))
        else:
            language = crawl.load_language(code)
            article = crawl.write_article("", language, dice)
            text += "".join(sentence for part in article.paragraphs for sentence in part)
    return text[:characters]


# ---- templates


def templates(pages: int, draws: int) -> Iterator[Stream]:
    """Each kind of template, drawn several times, in one language after the other; those below."""
    for draw, kind in product(range(draws), crawl.TEMPLATES):
        dice = Dice(1_000 + draw)
        code = crawl.LANGUAGES[draw % len(crawl.LANGUAGES)]
        rows = [(page, page_text(kind, page, code, dice)) for page in range(pages)]
        yield _stream(f"{kind} pages", rows, code)
    for draw, (kind, (code, write)) in product(range(draws), WRITTEN.items()):
        dice = Dice(2_000 + draw)
        rows = [(page, write(dice)) for page in range(pages)]
        yield _stream(kind, rows, code)


def _listed(text: str, separator: str | None = None) -> list[str]:
    return text.split(separator)


TOWNS = _listed(
    "Arles Bruges Cadiz Delft Evora Faro Ghent Hasselt Imola Jena Kaunas Lucca Metz Namur Odense "
    "Pisa Rouen Siena Trento Vaasa Windhoek Yaren Zadar Almaty Bergen Cork Dakar Elba Fes Goma"
)
NAMES = _listed(
    "Adler Blom Conti Dahl Egger Faber Greco Holm Ivens Jansen Koch Lund Moser Nilsen Olsen Prins "
    "Ricci Steen Toth Vidal Weiss Xavier Young Zanetti"
)
GOODS = _listed(
    "kettle|lamp|chair|desk|blanket|backpack|jacket|hammer|drill|pan|knife|teapot|carpet|mirror|"
    "bicycle|helmet|tent|stove|radio|speaker",
    "|",
)
MATERIALS = _listed("steel oak cotton linen copper glass wool leather bamboo aluminium")
COLOURS = _listed("black white red green blue grey brown yellow")
VERBS = _listed("keeps carries holds protects warms lights cleans cuts")
CALLERS = _listed(
    "They wanted to sell me a contract for electricity|Nobody spoke when I answered|It was a survey "
    "about my bank|They said that I had won a car|The voice came from a machine|They asked for the "
    "number of my card|It was the delivery of a parcel|They hung up at once",
    "|",
)
THAI_WORDS = _listed(
    "ที่ และ ของ ใน เป็น มี ได้ ไม่ จะ ให้ กับ จาก โดย ว่า นี้ บ้าน เมือง แม่น้ำ ตลาด โรงเรียน "
    "รถไฟ เรือ สะพาน คนงาน ครู หมอ นักเรียน ข้าว ปลา ดอกไม้ ภูเขา ทะเล ฝน ลม เช้า เย็น วันนี้ พรุ่งนี้ "
    "ใหม่ เก่า ใหญ่ เล็ก สวย เร็ว ช้า เดิน วิ่ง กิน ดื่ม อ่าน เขียน พูด ฟัง ทำงาน สร้าง ซื้อ ขาย เปิด ปิด "
    "ประชุม โครงการ รัฐบาล ราคา สินค้า"
)


def airport(dice: Dice) -> str:
    town, other, name = dice.pick(TOWNS), dice.pick(TOWNS), dice.pick(NAMES)
    code = "".join(chr(65 + dice.number(0, 25)) for _ in range(4))
    return (
        f"{town} {name} Airport ({code[:3]}, {code}) is an airport that serves {town}. It lies "
        f"{dice.number(2, 60)} kilometres from the centre of {town} and {dice.number(61, 300)} "
        f"kilometres from {other}, at a height of {dice.number(1, 2400)} metres above the level of "
        f"the sea. The airport has a runway of {dice.number(600, 4200)} by {dice.number(18, 60)} "
        f"metres with a surface of {dice.pick(('asphalt', 'concrete', 'gravel', 'grass'))}. It was "
        f"opened in {dice.number(1920, 2015)} and is run by {dice.pick(NAMES)} and {dice.pick(NAMES)}. "
        f"In {dice.number(2001, 2025)} it had {dice.number(1000, 900000)} passengers, which was "
        f"{dice.number(1, 40)} per cent more than in the year before. There are flights to "
        f"{dice.pick(TOWNS)}, {dice.pick(TOWNS)} and {dice.pick(TOWNS)}. A bus goes from the airport "
        f"to the station of {town} every {dice.number(10, 90)} minutes."
    )


SHIPPING = (
    "We send your order on the day on which we have it, and it will be with you in two or three "
    "days. If you do not like what you have bought, you can send it back to us within a month and "
    "we will pay for the parcel. All that we sell has a guarantee of two years, and if there is "
    "something wrong with it you can write to us or call us at any time of the day."
)


def shop(dice: Dice) -> str:
    """A product with facts of its own, below what the shop says on each page."""
    make, good, material = dice.pick(NAMES), dice.pick(GOODS), dice.pick(MATERIALS)
    return (
        f"{make} {good} of {material}, {dice.pick(COLOURS)}. This {good} by {make} is made of "
        f"{material} and {dice.pick(VERBS)} what you need for {dice.number(2, 20)} years. It is "
        f"{dice.number(5, 200)} centimetres high and {dice.number(5, 200)} centimetres wide, and it "
        f"weighs {dice.number(100, 20000)} grams. The {good} costs {dice.number(5, 900)} euros. "
        f"{dice.number(2, 900)} of our customers have rated it with {dice.number(1, 5)} stars. "
        f"{SHIPPING}"
    )


def who_called(dice: Dice) -> str:
    number = f"0{dice.number(100, 999)} {dice.number(100000, 9999999)}"
    reports = " ".join(
        f"{dice.pick(NAMES)} wrote on {dice.number(1, 28)}.{dice.number(1, 12)}."
        f"{dice.number(2018, 2026)}: {dice.pick(CALLERS)}."
        for _ in range(dice.number(2, 5))
    )
    return (
        f"Who called from {number}? The number {number} belongs to the area of {dice.pick(TOWNS)}. "
        f"It has been looked up {dice.number(10, 9000)} times, and {dice.number(2, 400)} people have "
        f"told us who was behind it. {reports} If you know who calls from this number, please tell "
        "the others about it, so that they can decide whether they want to answer. Never give the "
        "number of your card or a password to somebody who calls you, even if you know the name."
    )


def thai_product(dice: Dice) -> str:
    good = "".join(dice.several(THAI_WORDS[15:], 2))
    return (
        f"สินค้า{good} ยี่ห้อ {dice.pick(NAMES)} รุ่น {dice.number(100, 9999)} ราคา "
        f"{dice.number(90, 90000)} บาท ทำจาก{dice.pick(THAI_WORDS[15:])} น้ำหนัก "
        f"{dice.number(100, 9000)} กรัม ขนาด {dice.number(5, 200)} เซนติเมตร มีสินค้าในคลัง "
        f"{dice.number(1, 500)} ชิ้น ผู้ซื้อ {dice.number(2, 900)} คนให้คะแนน {dice.number(1, 5)} ดาว "
        "เราจะส่งสินค้าให้คุณภายในสองถึงสามวัน ถ้าคุณไม่พอใจ คุณสามารถคืนสินค้าได้ภายในสามสิบวัน "
        f"โดยไม่มีค่าใช้จ่าย รับประกัน {dice.number(1, 10)} ปี สอบถามได้ที่ {dice.pick(NAMES)} โทร "
        f"0{dice.number(10000000, 99999999)}"
    )


def model_offer(dice: Dice) -> str:
    """A few lines that are all alike but for the name of the model, one word with digits."""
    model = f"{dice.number(1, 90)}{dice.pick('DXSTM')}"
    return (
        f"For sale: a camera {model} with the lens that came with it, in its box and with all "
        "papers, from a house without smoke. You can have a look at it in the evening."
    )


def offer(dice: Dice) -> str:
    """A few lines with facts of their own, the model among them."""
    model = f"{dice.number(1, 90)}{dice.pick('DXSTM')}"
    return (
        f"{dice.pick(NAMES)} {model} for sale: the camera is {dice.number(1, 12)} years old and has "
        f"made {dice.number(500, 90000)} pictures. It comes with its box and a lens, and you can "
        f"have it in {dice.pick(TOWNS)} for {dice.number(20, 900)} euros."
    )


WRITTEN: dict[str, tuple[str, Callable[[Dice], str]]] = {
    "airport pages": ("en", airport),
    "shop pages": ("en", shop),
    "who-called pages": ("en", who_called),
    "Thai product pages": ("th", thai_product),
}


# ---- others

OFFERS = 260
MODEL_SENTENCES = 60
OWN_SHARE = 0.12  # of a licence's sentences
NOTE_SENTENCES = 14


def offers(seed: int) -> Iterator[Stream]:
    """260 offers; those of one text are copies."""
    for kind, write in (
        ("offers that differ in the model alone", model_offer),
        ("offers of a few lines", offer),
    ):
        dice = Dice(seed)
        texts = [write(dice) for _ in range(OFFERS)]
        group_of = {text: group for group, text in enumerate(dict.fromkeys(texts))}
        yield _stream(kind, [(group_of[text], text) for text in texts], "en")


def licences(pages: int, draws: int) -> Iterator[Stream]:
    """Licences that follow one model and have sentences of their own in it."""
    for draw in range(draws):
        dice = Dice(3_000 + draw)
        model = _sentences(MODEL_SENTENCES, dice)
        rows = [
            (page, " ".join(
                _sentences(1, dice)[0] if dice.chance(OWN_SHARE) else sentence
                for sentence in model
            ))
            for page in range(pages)
        ]  # fmt: skip
        yield _stream("licences of one model", rows, "en")


def notes(pages: int, draws: int) -> Iterator[Stream]:
    """Release notes: the same sentences, a version, and one sentence of their own."""
    for draw in range(draws):
        dice = Dice(4_000 + draw)
        shared = _sentences(NOTE_SENTENCES, dice)
        rows = []
        for page in range(pages):
            version = f"Version {page // 10}.{page % 10} of {dice.number(1, 28)} March."
            at = dice.number(0, NOTE_SENTENCES)
            own = _sentences(1, dice)
            rows.append((page, " ".join([version, *shared[:at], *own, *shared[at:]])))
        yield _stream("release notes", rows, "en")


def _sentences(count: int, dice: Dice) -> list[str]:
    """Return invented English sentences."""
    found: list[str] = []
    while len(found) < count:
        article = crawl.write_article("", crawl.load_language("en"), dice)
        found += [sentence for part in article.paragraphs for sentence in part]
    return found[:count]


def _stream(kind: str, rows: list[tuple[int, str]], code: str) -> Stream:
    groups = [group for group, _ in rows]
    return Stream(kind, [text for _, text in rows], [code] * len(rows), groups)
