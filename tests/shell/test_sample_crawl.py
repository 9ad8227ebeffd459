"""
The synthetic crawl: the same on every machine, as different as its truth says, and readable but for
its damage.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.program import refused, run
from worker.core.document import Document
from worker.core.evaluation import leaders
from worker.core.extract import Extracted, extract
from worker.core.fingerprint import Fingerprinter
from worker.core.search import SearchRules
from worker.core.tokens import tokens
from worker.devkit.sample.crawl import (
    LANGUAGES,
    RELATIONS,
    ROTATING,
    TEMPLATES,
    Article,
    Dice,
    crawl,
    edited,
    fill_template,
    load_language,
    truth_path,
    write_article,
    write_sample_crawl,
)
from worker.shell.files.crawl import CrawlFiles
from worker.shell.messages.documents import decode_document

DOCUMENTS = 1_500
Truth = dict[str, dict[str, Any]]  # what is said of each document, by doc_id


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl of 1,500 documents."""
    path = tmp_path_factory.mktemp("sample") / "crawl.warc.gz"
    write_sample_crawl(path, DOCUMENTS, seed=3)
    return path


@pytest.fixture(scope="module")
def truth(archive: Path) -> Truth:
    """The truth by doc_id."""
    lines = truth_path(archive).read_text().splitlines()
    return {entry["doc_id"]: entry for entry in map(json.loads, lines)}


@pytest.fixture(scope="module")
def texts(archive: Path) -> dict[str, str]:
    """The extracted text of every readable document, by doc_id."""
    found = {}
    for record in CrawlFiles([str(archive)]):
        document = decode_document(record.key, record.value)
        assert isinstance(document, Document)
        outcome = extract(document, 1 << 20)
        assert isinstance(outcome, Extracted)
        found[document.doc_id] = outcome.text
    return found


def text_of(article: Article) -> str:
    """The plain text of an article."""
    joiner = article.language.joiner
    return "\n".join([article.title, *(joiner.join(sentences) for sentences in article.paragraphs)])


def test_a_seed_gives_the_same_bytes_on_every_machine(tmp_path: Path) -> None:
    """Archive and truth are pinned by their digests; another seed gives another crawl."""
    path = tmp_path / "crawl.warc.gz"
    write_sample_crawl(path, 300, seed=1)
    digests = [
        hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in (path, truth_path(path))
    ]
    assert digests == ["7d380c32cf945d8b", "e5e106de24155c3d"]
    bodies = [{capture.body for capture in crawl(100, seed)} for seed in (1, 2)]
    assert bodies[0] & bodies[1] <= {b""}  # one of the ways of damage


def test_every_document_is_read_but_the_damaged_ones(
    archive: Path, truth: Truth, texts: dict[str, str]
) -> None:
    """What the truth calls unreadable is damage to the reader, and nothing else is."""
    unreadable = {doc_id for doc_id, entry in truth.items() if entry["expected"] == "unreadable"}
    assert len(truth) == DOCUMENTS
    assert texts.keys() == truth.keys() - unreadable
    files = CrawlFiles([str(archive)])
    assert len(list(files)) == len(texts) and files.tally.damaged == len(unreadable) > 0
    skipped = {doc_id for doc_id, entry in truth.items() if entry["expected"] == "skipped"}
    assert {doc_id for doc_id, text in texts.items() if not text.strip()} == skipped != set()


def test_relations_have_their_shares(truth: Truth) -> None:
    """As the plan draws them, within chance."""
    counted = Counter(entry["relation"] for entry in truth.values())
    for relation, share in RELATIONS.items():
        expected = DOCUMENTS * share / 100
        assert abs(counted[relation] - expected) < 5 * expected**0.5
    assert {entry["language"] for entry in truth.values()} == set(LANGUAGES)


def test_copies_are_what_their_relation_says(truth: Truth, texts: dict[str, str]) -> None:
    """
    Mirrors and equal short pages have the same text; syndicated copies and re-crawls most of it.
    """
    first: dict[str, str] = {}
    shared: dict[str, list[float]] = {}
    for doc_id, entry in truth.items():
        if entry["expected"] != "verdict":
            continue
        original = first.setdefault(entry["group"], doc_id)
        if original != doc_id:
            words, others = (set(texts[one].split()) for one in (doc_id, original))
            shared.setdefault(entry["relation"], []).append(
                len(words & others) / len(words | others)
            )
    assert set(shared["short"]) == {1.0}
    assert (
        min(np.mean(shared[relation]) for relation in ("mirror", "syndicated", "recrawl", "edited"))
        > 0.85
    )


def test_rotating_copies_share_an_article_and_no_advertisements() -> None:
    """
    They are plain text; a fifth of their characters more than the article has is advertising, of
    which two copies share little. Most copies are found, and none is taken for another article.
    """
    pages = [capture for capture in crawl(3_000, 2) if capture.relation == ROTATING]
    texts = [capture.body.decode() for capture in pages]
    of = leaders(Fingerprinter().batch(texts), SearchRules()).tolist()
    assert all("text/plain" in capture.header for capture in pages)
    groups = [capture.group for capture in pages]
    assert all(original < 0 or groups[original] == groups[row] for row, original in enumerate(of))
    copies = [row for row, group in enumerate(groups) if groups.index(group) < row]
    assert len(copies) > 30
    assert sum(of[row] >= 0 for row in copies) >= 0.75 * len(copies)
    for row in copies:
        lines, others = (set(texts[at].splitlines()) for at in (row, groups.index(groups[row])))
        advertising = sum(map(len, lines - others)) / sum(map(len, lines & others))
        assert 0.12 < advertising < 0.5


def test_an_edit_is_small() -> None:
    """An edited article shares nearly all its sentences with the article, and is not the same."""
    for seed, code in itertools.product(range(30), LANGUAGES):
        dice = Dice(seed)
        article = write_article("a", load_language(code), dice)
        other = edited(article, dice)
        before, after = ([*one.paragraphs, (one.title,)] for one in (article, other))
        sentences, changed = (set(itertools.chain(*one)) for one in (before, after))
        assert 1 <= len(sentences ^ changed) <= 2


@pytest.mark.parametrize("code", LANGUAGES)
def test_unrelated_articles_are_unrelated(code: str) -> None:
    """
    The Jaccard index of 3-shingles (of characters where words are not apart) is below 0.1; bits are
    as if drawn.
    """
    dice = Dice(11)
    texts, shingles = [], []
    for number in range(60):
        article = write_article(str(number), load_language(code), dice)
        texts.append(text_of(article))
        words = texts[-1].split() if article.language.joiner else list(texts[-1])
        shingles.append(set(zip(words, words[1:], words[2:], strict=False)))
    assert max(len(a & b) / len(a | b) for a, b in itertools.combinations(shingles, 2)) < 0.1
    fingerprints = Fingerprinter().many(texts)
    pairs = np.triu_indices(len(texts), 1)
    distances = np.bitwise_count(fingerprints[:, None] ^ fingerprints[None, :])[pairs]
    if load_language(code).joiner:
        assert 30.5 < distances.mean() < 33 and 3.6 < distances.std() < 4.5
    assert distances.min() > 7


@pytest.mark.parametrize("kind", TEMPLATES)
def test_pages_of_a_template_share_its_text_and_have_other_facts(kind: str) -> None:
    """
    Every slot is filled. The Jaccard index of 2-shingles: legal notices are borderline, all others
    below .68.
    """
    for code in LANGUAGES:
        dice = Dice(2)
        texts = [text_of(fill_template(kind, str(number), code, dice)) for number in range(20)]
        assert "{" not in "".join(texts)
        shingles = [set(itertools.pairwise(tokens(text))) for text in texts]
        alike = np.mean([len(a & b) / len(a | b) for a, b in itertools.combinations(shingles, 2)])
        assert (0.75 < alike < 0.85) if kind == "legal" else (0.45 < alike < 0.68)


def test_pages_of_a_template_are_told_apart(truth: Truth, texts: dict[str, str]) -> None:
    """
    Each is a group of its own, and new at the defaults but for legal notices; copies in the stream
    are found.
    """
    groups = Counter(entry["group"] for entry in truth.values())
    pages = [entry for entry in truth.values() if entry["relation"] in TEMPLATES]
    assert {(groups[entry["group"]], entry["expected"]) for entry in pages} == {(1, "new")}
    of = leaders(Fingerprinter().batch(list(texts.values())), SearchRules())
    rows = [truth[doc_id] for doc_id in texts]
    merged = {
        row["relation"] for row, original in zip(rows, of.tolist(), strict=True) if original >= 0
    }
    assert merged & set(TEMPLATES) <= {"legal"}
    assert {"syndicated", "recrawl", "mirror", "edited"} <= merged


def test_a_kind_goes_on_with_another_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each kind there is a template in every language."""
    monkeypatch.setattr("worker.devkit.sample.crawl.PAGES_MAX", 3)
    seen: dict[str, list[str]] = {kind: [] for kind in TEMPLATES}
    for capture in crawl(2_000, 6):
        if capture.relation in TEMPLATES:
            seen[capture.relation].append(capture.language)
    for languages in seen.values():
        assert {len(set(languages[at : at + 3])) for at in range(0, 24, 3)} == {1}
        assert set(languages[:24]) == set(LANGUAGES)


def test_memory_does_not_grow_with_the_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Once the window of recent articles is full, more documents cost nothing; full it holds 2,000
    articles.
    """
    monkeypatch.setattr("worker.devkit.sample.crawl.RECENT_MAX", 100)
    captures = crawl(1_000_000, 4)
    tracemalloc.start()
    try:
        for _ in itertools.islice(captures, 300):
            pass
        full, _ = tracemalloc.get_traced_memory()
        for _ in itertools.islice(captures, 600):
            pass
        later, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert later < 1.2 * full
    assert full < 20_000_000


def test_the_command_writes_both_files(tmp_path: Path) -> None:
    """
    And says what is in them; a path that cannot be written is one line, and so is another format's
    name.
    """
    path = tmp_path / "small.warc.gz"
    assert "original" in run("sample-crawl", "--documents", "50", "--seed", "9", path).stderr
    assert len(truth_path(path).read_bytes().splitlines()) == 50
    assert "damaged" not in run("sample-crawl", "--documents", "500", path).stderr
    assert "damaged" in run("sample-crawl", "--documents", "500", "--damaged", path).stderr
    assert "there is no folder" in refused("sample-crawl", tmp_path / "missing" / "small.warc.gz")
    assert "let it end in .warc" in refused(
        "sample-crawl", tmp_path / "small.jsonl", "--documents", "9"
    )


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/null"])
def test_a_crawl_without_a_place_for_its_truth_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The truth would be a file named -.truth.jsonl, or lie in /dev."""
    monkeypatch.chdir(tmp_path)
    assert "the truth is written next to it" in refused("sample-crawl", name, "--documents", "1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["mine\n", "{}\n", "5\n", '["group"]\n'])
def test_a_file_of_somebody_else_is_not_replaced_by_the_truth(tmp_path: Path, content: str) -> None:
    """Nobody has named it. That of an earlier crawl, and an empty file, are replaced."""
    path, other = tmp_path / "small.warc", tmp_path / "small.truth.jsonl"
    other.touch()
    for _ in range(2):
        write_sample_crawl(path, 1, seed=1)
    before = path.read_bytes()
    other.write_text(content)
    assert f"{other} is there and is no truth" in refused("sample-crawl", path, "--documents", "2")
    assert (other.read_text(), path.read_bytes()) == (content, before)
