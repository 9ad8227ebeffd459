"""
`import neardup`: what is public, that it is typed and documented, and that a user's own `worker.py`
is no matter.
"""

from __future__ import annotations

import ast
import copy
import doctest
import inspect
import json
import os
import pickle
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import neardup
import numpy as np
import pytest
from pydantic import BaseModel

from tests.conftest import REPOSITORY, output_of
from worker.devkit import machine_code
from worker.errors import install_extra
from worker.settings import Settings
from worker.shell.runtime import kernels

PUBLIC = REPOSITORY / "worker" / "public"
UNSHIPPED = {".md", ".png"}
library: Any = neardup  # for what mypy would not let pass


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, as a notebook there would."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_every_public_name_is_there() -> None:
    """Each name of `__all__` can be used, and nothing else."""
    assert all(getattr(neardup, name) is not None for name in neardup.__all__)
    assert sorted(neardup.__all__) == dir(neardup)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        neardup.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_the_stub_has_the_names_of_the_table() -> None:
    """Type checkers see each public name, from the module that programs get it from."""
    stub = ast.parse((PUBLIC / "neardup" / "__init__.pyi").read_text())
    imported = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    module_of = {alias.asname: node.module for node in imported for alias in node.names}
    assert module_of == library._MODULE_OF
    assert set(neardup.__all__) == module_of.keys() | {"__version__"}


def test_everything_public_has_a_doctest() -> None:
    """What does something shows it; values, messages and errors are described field by field."""
    parser = doctest.DocTestParser()
    for name in neardup.__all__:
        value = getattr(neardup, name)
        is_value = isinstance(value, type) and (
            issubclass(value, Enum | Exception | BaseModel | tuple)
        )
        described = inspect.getdoc(value) or ""
        assert described and (
            is_value or name == "__version__" or parser.get_examples(described)
        ), name


def test_importing_the_library_is_cheap() -> None:
    """Neither the kernels nor the Kafka client are loaded before they are used."""
    script = (
        "import sys, neardup; neardup.__version__; neardup.__all__;"
        "print([m for m in ('numba', 'confluent_kafka', 'numpy', 'pydantic') if m in sys.modules])"
    )
    assert run(REPOSITORY, "-c", script).stdout.strip() == "[]"


def test_the_version_is_the_distributions() -> None:
    """In the library, and on the command line with either word."""
    assert neardup.__version__ == version("neardup")
    assert (
        run(REPOSITORY, "-m", "neardup", "--version").stdout == f"neardup {neardup.__version__}\n"
    )
    assert "Usage: neardup" in run(REPOSITORY, "-m", "neardup", "-h").stdout.replace(
        "python -m neardup", "neardup"
    )


def test_a_workers_module_beside_a_notebook_shadows_nothing(tmp_path: Path) -> None:
    """`worker.py` and `schemas.py` of the user's own lie in front of ours on the path."""
    for name in ("worker", "schemas"):
        (tmp_path / f"{name}.py").write_text("print('the wrong one')\n")
    script = (
        "import neardup; print(neardup.hamming_distance(0, 7), neardup.DocumentMessage.__name__)"
    )
    found = run(tmp_path, "-c", script)
    assert (found.stdout, found.stderr) == ("3 DocumentMessage\n", "")
    assert run(tmp_path, "-m", "neardup", "--version").stdout == f"neardup {neardup.__version__}\n"
    loaded = run(tmp_path, "-c", "import worker, neardup")
    assert f"a module 'worker' of {tmp_path / 'worker.py'} is loaded" in loaded.stderr
    assert "rename yours" in loaded.stderr


def test_a_clone_next_to_a_script_shadows_nothing(tmp_path: Path) -> None:
    """The folder `neardup` that a clone is, next to the script, is not taken for the package."""
    for name in ("neardup", "worker", "schemas"):
        (tmp_path / name).mkdir()
    script = "import neardup; print(neardup.hamming_distance(0, 7))"
    found = run(tmp_path, "-c", script)
    assert (found.stdout, found.stderr) == ("3\n", "")
    assert run(tmp_path, "-m", "neardup", "--version").stdout == f"neardup {neardup.__version__}\n"


@pytest.mark.nightly
def test_types_are_found_without_a_setting(tmp_path: Path) -> None:
    """mypy knows the library of this installation, as a wheel's, from a folder elsewhere."""
    (tmp_path / "mine.py").write_text(
        "import neardup\nwrong: int = neardup.derive_doc_id('https://example.org/', 0)\n"
    )
    checked = run(tmp_path, "-m", "mypy", "--strict", "mine.py")
    assert 'mine.py:2: error: Incompatible types in assignment (expression has type "str"' in (
        checked.stdout
    )
    assert "Found 1 error" in checked.stdout


def test_a_missing_extra_is_installed_by_the_packages_that_it_brings() -> None:
    """The remedy works wherever neardup was installed from, for it is on no index."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    for extra in ("archive", "broker", "otel", "parquet", "remote"):
        packages = shlex.split(install_extra(extra).removeprefix("pip install "))
        names = [re.split("[<>=]", package)[0] for package in packages]
        wanted = [re.split("[<>=]", line)[0] for line in project["optional-dependencies"][extra]]
        assert sorted(names) == sorted(wanted)
    assert install_extra("parquet") == "pip install 'pyarrow>=19.0'"


def test_nobody_is_told_to_install_neardup_from_an_index() -> None:
    """No text names a command that fails: neardup comes from a clone or a wheel."""
    from_an_index = re.compile(r"pip install ['\"]?(neardup)")
    tracked = output_of("git", "ls-files", cwd=REPOSITORY).splitlines()
    texts = {
        name: (REPOSITORY / name).read_text()
        for name in tracked
        if Path(name).suffix in {".py", ".md", ".yaml", ".ipynb", ".toml"}
    }
    assert [name for name, text in texts.items() if from_an_index.search(text)] == []


@dataclass(frozen=True)
class Installed:
    """A wheel, and an environment that has nothing else but the packages that it requires."""

    source: Path
    wheel: Path
    site: Path
    python: str


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """
    As `make wheel` builds it from a copy, except that its machine code is that of this process,
    which the tests compile anyway.
    """
    folder = tmp_path_factory.mktemp("wheel")
    source, code = folder / "source", folder / "machine_code"
    kernels.ready(Settings())
    machine_code.write(code)
    (source / "deploy").mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "deploy/wheel.py"):
        shutil.copy(REPOSITORY / name, source / name)
    for name in ("worker", "schemas"):
        shutil.copytree(
            REPOSITORY / name, source / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(source)]
    subprocess.run(build, check=True, env=os.environ | {"MACHINE_CODE": str(code)})
    [wheel] = folder.glob("neardup-*.whl")
    venv.create(folder / "venv", symlinks=True)
    [site] = (folder / "venv").glob("lib/python*/site-packages")
    packages = [path for path in sys.path if path.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(packages))
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
    return Installed(source, wheel, site, str(folder / "venv" / "bin" / "python"))


@pytest.mark.slow
def test_a_wheel_holds_the_library_with_its_types(installed: Installed, tmp_path: Path) -> None:
    """
    Whole, from a copy, installed elsewhere: it imports, it runs beside a `worker.py`, and mypy
    knows its types.
    """
    site, user = installed.site, tmp_path
    assert not (site / "worker" / "public").exists()
    for name in ("worker", "schemas"):
        whole = (
            path.relative_to(installed.source)
            for path in (installed.source / name).rglob("*.*")
            if path.suffix not in UNSHIPPED
        )
        assert not [
            path for path in whole if "public" not in path.parts and not (site / path).is_file()
        ]
    (user / "worker.py").write_text("print('the wrong one')\n")
    (user / "mine.py").write_text(
        "import neardup\n"
        "print(neardup.__file__)\n"
        "def judged() -> neardup.Verdict: return neardup.Deduplicator().add('a text')\n"
        "wrong: int = neardup.derive_doc_id('https://example.org/', 0)\n"
    )
    ran = subprocess.run(
        [installed.python, "mine.py"], cwd=user, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.returncode) == (f"{site / 'neardup' / '__init__.py'}\n", 0), ran.stderr
    checked = run(
        user, "-m", "mypy", "--strict", "--python-executable", installed.python, "mine.py"
    )
    assert (
        'mine.py:4: error: Incompatible types in assignment (expression has type "str"'
        in checked.stdout
    )
    assert "Found 1 error" in checked.stdout


@pytest.mark.slow
@pytest.mark.nightly
def test_a_wheel_with_machine_code_compiles_nothing(installed: Installed, tmp_path: Path) -> None:
    """
    Its first documents, a text and a page, are judged with the code that it carries: no kernel is
    compiled, and none stored. Its tag and its requirements name what the code is for.
    """
    documents = tmp_path / "documents.jsonl"
    documents.write_text(
        '{"text": "One bridge over one river."}\n{"html": "<p>Two bridges over one river."}\n'
    )
    environment = os.environ | {
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "NUMBA_DEBUG_CACHE": "1",
    }
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [installed.python, "-m", "worker", "dedup", str(documents)]
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    lines = ran.stdout.splitlines()
    verdicts = [json.loads(line)["verdict"] for line in lines if line.startswith("{")]
    assert verdicts == ["new", "new"]
    loaded = [line for line in lines if line.startswith("[cache] data loaded")]
    assert len(loaded) > 15 and all("worker/core/machine_code/" in line for line in loaded)
    assert "compil" not in ran.stderr and "[cache] data saved" not in ran.stdout
    assert [path for path in (*installed.site.rglob("*.nbc"), *tmp_path.rglob("*.nbc"))
            if path.parent.name != "machine_code"] == []  # fmt: skip
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    _, _, tag, abi, system = installed.wheel.stem.split("-")
    assert tag == python and abi.startswith(python)
    assert system == sysconfig.get_platform().replace("-", "_").replace(".", "_")
    [metadata] = installed.site.glob("neardup-*.dist-info/METADATA")
    assert f"Requires-Dist: numba=={version('numba')}\n" in metadata.read_text()


# ---- what is wrong is refused at once, with the value and what it must be

FINGERPRINTS = library.Fingerprinter()
KNOWN = neardup.Deduplicator(threads=1)
WRONG: list[tuple[Callable[..., Any], str]] = [
    (
        lambda: FINGERPRINTS.one(None),
        "a text is a str, got NoneType None: decode it, or leave it out",
    ),
    (
        lambda: FINGERPRINTS.many("abc"),
        "wanted a list of texts, got 'abc': use `one` for a single text",
    ),
    (lambda: FINGERPRINTS.many(None), "wanted a list of texts, got None"),
    (lambda: FINGERPRINTS.many(["a", 3]), "a text is a str, got int 3"),
    (lambda: FINGERPRINTS.features(None), "a text is a str, got NoneType None"),
    (lambda: library.hamming_distance(-1, 0), "a fingerprint is 0 or more, got -1 and 0"),
    (
        lambda: library.hamming_distance("5", 5),
        r"a fingerprint is a whole number, got str and int: read decimal digits with int\(",
    ),
    (
        lambda: library.match(library.Deduplicator(threads=1), ["a text"]),
        r"wanted a frame, got a Deduplicator: give the frame first, match\(frame, reference\)",
    ),
    *(
        (partial(copied, KNOWN), "cannot be copied or pickled: write what it knows with save")
        for copied in (copy.copy, copy.deepcopy, pickle.dumps)
    ),
    *(
        (partial(copied, library.PermutedIndex(3)), r"make another one of its arrays\(\) with")
        for copied in (copy.copy, copy.deepcopy, pickle.dumps)
    ),
    (lambda: library.CrawlFiles("crawl.warc"), "wanted a list of files, got 'crawl.warc'"),
    (lambda: library.PermutedIndex("3"), "max_distance must be a whole number, got '3'"),
    (
        lambda: library.PermutedIndex(3, documents_expected=1.5),
        "documents_expected must be a whole number, got 1.5",
    ),
    (lambda: library.derive_doc_id(None, 0), "url must be a text, got None"),
    (
        lambda: library.derive_doc_id("https://example.org/", 0.0),
        "fetched_at_ms must be a whole number, got 0.0",
    ),
    (lambda: library.PermutedIndex(3).query(7), "fingerprints are one column of uint64, got 7"),
    (
        lambda: list(library.all_pairs(np.array([1.5]), 3)),
        "fingerprints are one column of uint64, got float64",
    ),
    (
        lambda: library.Deduplicator({"bits": 64}),
        r"wanted neardup.Parameters\(…\), got dict {'bits': 64}",
    ),
    (
        lambda: library.Deduplicator(search="exact"),
        r"wanted neardup.SearchRules\(…\), got str 'exact'",
    ),
    (lambda: library.Deduplicator(retention=9), r"wanted neardup.Retention\(…\), got int 9"),
    (
        lambda: library.Deduplicator(recrawls="x"),
        "recrawls must be one of compare, replace, got 'x'",
    ),
    (
        lambda: library.Deduplicator(text_characters_max=0),
        "text_characters_max must be .* 1 to 67,108,864, got 0",
    ),
    (
        lambda: library.Deduplicator(text_characters_max=2**63),
        "text_characters_max must be .* 1 to 67,108,864, got 9223372036854775808",
    ),
    (
        lambda: library.extract_pages(["<p>a"], characters_max=-1),
        "characters_max must be 0 or more, got -1",
    ),
    (lambda: library.Retention(expire_after_ms=-1), "expire_after_ms must be 0 .* to .*, got -1"),
    (
        lambda: library.Retention(expire_from="middle"),
        "expire_from must be 'first' or 'last', got 'middle'",
    ),
    (
        lambda: library.Deduplicator(threads="2"),
        "threads must be a whole number, 1 or more, got '2'",
    ),
]


@pytest.mark.parametrize(("call", "text"), WRONG)
def test_what_is_wrong_is_named(call: Callable[..., Any], text: str) -> None:
    """By TypeError or ValueError, as Python's own functions do."""
    with pytest.raises((TypeError, ValueError), match=text):
        call()


# ---- nothing but documented classes comes out of the library

NESTED: list[Any] = []
for _ in range(30_000):
    NESTED = [NESTED]
DOCUMENT: Any = neardup.Document("a", "u", 0, neardup.BodyKind.TEXT, "One bridge over one river.")
ODD: list[Any] = [
    None, True, -1, 3, 10**30, 1.5, float("nan"), "", "\ud800", "a\0b", "x" * 5_000, b"", b"\xff",
    [], [None], [1], [-1], [2**64], ["\ud800"], {}, {1: 2}, {"a": None}, {"a": 2**70},
    {"text": "\ud800", "doc_id": 5}, {"text": NESTED}, {"text": "x", "language": NESTED}, (),
    object, object(), np.array([]), np.array([[1, 2]], np.uint64), np.array([1.5]),
    np.array([1], np.uint64), np.array([None]), DOCUMENT, DOCUMENT._replace(kind=None),
    DOCUMENT._replace(fetched_at_ms=10**18), DOCUMENT._replace(body=None),
    DOCUMENT._replace(doc_id=None, url=None), neardup.Deletion("\ud800"), library.Deletion(5),
    neardup.BodyKind.TEXT, {1}, range(3), 1j,
]  # fmt: skip
INDEX = neardup.PermutedIndex(3)
CALLS: dict[str, Callable[[Any], Any]] = {
    "Deduplicator.add": KNOWN.add,
    "Deduplicator.add_many": lambda odd: list(KNOWN.add_many([odd])),
    "Deduplicator.nearest": KNOWN.nearest,
    "Deduplicator.nearest, count": lambda odd: KNOWN.nearest("a text", odd),
    "Deduplicator.load": neardup.Deduplicator.load,
    "Deduplicator, retention": lambda odd: neardup.Deduplicator(retention=odd, threads=1),
    "Fingerprinter": neardup.Fingerprinter,
    "Fingerprinter.one": FINGERPRINTS.one,
    "Fingerprinter.many": FINGERPRINTS.many,
    "Fingerprinter.of_features": FINGERPRINTS.of_features,
    "Fingerprinter.packed": FINGERPRINTS.packed,
    "PermutedIndex": neardup.PermutedIndex,
    "PermutedIndex, layout": lambda odd: neardup.PermutedIndex(3, odd),
    "PermutedIndex.query": INDEX.query,
    "PermutedIndex.query_all": INDEX.query_all,
    "PermutedIndex.renumber": INDEX.renumber,
    "PermutedIndex.delete": lambda odd: INDEX.delete(odd, odd),
    "PermutedIndex.judge": lambda odd: INDEX.judge(np.array([1], np.uint64), odd),
    "CrawlFiles": lambda odd: neardup.CrawlFiles([odd]),
    "DocumentMessage": neardup.DocumentMessage.model_validate,
    "decode_document": lambda odd: neardup.decode_document(odd, odd),
    "decode_verdict": neardup.decode_verdict,
    "encode_verdict": neardup.encode_verdict,
    "extract": neardup.extract,
    "extract_pages": neardup.extract_pages,
    "hamming_distance": lambda odd: neardup.hamming_distance(odd, odd),
    "similarity": lambda odd: neardup.similarity(odd, odd),
    "load_stopwords": neardup.load_stopwords,
}


@pytest.mark.parametrize("name", CALLS)
def test_the_library_raises_its_documented_classes_alone(name: str) -> None:
    """
    A value of any kind gives an answer, a TypeError, a ValueError or an error of neardup's tree.
    """
    for number, odd in enumerate(ODD):
        try:
            CALLS[name](odd)
        except (TypeError, ValueError, neardup.NeardupError) as error:
            assert not isinstance(error, UnicodeError), (number, error)
