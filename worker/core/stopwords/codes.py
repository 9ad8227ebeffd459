"""Language tags as the web writes them, mapped to the two-letter codes of our lists."""

from __future__ import annotations

# ISO 639-2 and 639-3 codes, the terminological and the bibliographic ones, of the languages that have a list.
_THREE_LETTERS = """
ara ar  arb ar  aze az  azj az  ben bn  bul bg  bur my  cat ca  ces cs  chi zh  cmn zh  cze cs  dan da  deu de  dut nl
ekk et  ell el  eng en  est et  fas fa  fin fi  fra fr  fre fr  geo ka  ger de  gre el  heb he  hin hi  hrv hr  hun hu
hye hy  arm hy  ind id  ita it  jpn ja  kat ka  khm km  kor ko  lao lo  lav lv  lit lt  lvs lv  may ms  msa ms  mya my
nld nl  nno no  nob no  nor no  per fa  pes fa  pol pl  por pt  prs fa  ron ro  rum ro  rus ru  slk sk  slo sk  slv sl
spa es  srp sr  swa sw  swe sv  swh sw  tam ta  tel te  tha th  tur tr  ukr uk  urd ur  vie vi  yue zh  zho zh  zsm ms
"""
# Replaced codes, country codes that stand for a language, and languages so near to another that they share its list.
_SHARED = "iw he  in id  mo ro  nb no  nn no  bs hr  bos hr  sh hr  cnr sr  hk zh  cn zh  jp ja  kr ko  ua uk"


def _pairs(table: str) -> dict[str, str]:
    words = table.split()
    return dict(zip(words[::2], words[1::2], strict=True))


_MAPPED = _pairs(_THREE_LETTERS) | _pairs(_SHARED)


def primary_code(language: str) -> str:
    """The two-letter code of a language tag's first subtag, or that subtag itself when no mapping is known."""
    first = language.strip().lower().replace("_", "-").partition("-")[0]
    return _MAPPED.get(first, first)
