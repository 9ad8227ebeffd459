"""
neardup as a library: near-duplicates among documents, judged as a group of workers judges them.

    >>> import neardup
    >>> found = neardup.Deduplicator()
    >>> story = "The council of the town has said that the bridge over the river is open."
    >>> found.add(story).outcome.value
    'new'
    >>> verdict = found.add(story.replace("The council", "THE COUNCIL") + "!")
    >>> verdict.outcome.value, verdict.duplicate_of.original.doc_id, verdict.duplicate_of.kind.value
    ('duplicate', '0.0.0-63abc66a6e338804', 'exact')

Every name of `__all__` is imported when it is first used, so `import neardup` costs nothing. The
code is in the packages `worker` and `schemas` of the same installation. They are loaded from there,
even if another module of that name comes earlier on the path.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any


def _bind(name: str) -> None:
    """
    Load one of this installation's packages under its name.

    Otherwise a notebook's own `worker.py` could be found in its place.

    Raises:
        ImportError: another module of this name is loaded already; one process has one of a name.
    """
    here = Path(__file__).resolve().parents
    root = next(
        folder for folder in (here[1], here[3]) if (folder / name / "__init__.py").is_file()
    )
    loaded = sys.modules.get(name)
    if loaded is not None:
        if not any(
            root / name == Path(place).resolve() for place in getattr(loaded, "__path__", ())
        ):
            raise ImportError(
                f"a module {name!r} of {getattr(loaded, '__file__', None)} is loaded, "
                "and neardup has a package of this name: "
                "rename yours, or import neardup in a process without it"
            )
        return
    spec = PathFinder.find_spec(name, [str(root)])
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


for _name in ("schemas", "worker"):
    _bind(_name)
# Each public name, and the module that has it: the stub `__init__.pyi` says the same to type
# checkers, and a test compares the two.
_MODULE_OF = {
    "DeadLetterHeaders": "schemas.dead_letter",
    "DeadLetterPointer": "schemas.dead_letter",
    "DocumentMessage": "schemas.document",
    "VerdictMessage": "schemas.verdict",
    "Feature": "worker.core.definition",
    "Kind": "worker.core.definition",
    "Parameters": "worker.core.definition",
    "hamming_distance": "worker.core.definition",
    "ApartReason": "worker.core.document",
    "BodyKind": "worker.core.document",
    "Changed": "worker.core.document",
    "Deletion": "worker.core.document",
    "Document": "worker.core.document",
    "DuplicateOf": "worker.core.document",
    "FormerVersion": "worker.core.document",
    "FoundBy": "worker.core.document",
    "KeptApart": "worker.core.document",
    "MatchKind": "worker.core.document",
    "Original": "worker.core.document",
    "Outcome": "worker.core.document",
    "Verdict": "worker.core.document",
    "derive_doc_id": "worker.core.document",
    "Extracted": "worker.core.extract",
    "Skipped": "worker.core.extract",
    "extract": "worker.core.extract",
    "FingerprintBatch": "worker.core.fingerprint",
    "Fingerprinter": "worker.core.fingerprint",
    "Judgement": "worker.core.index",
    "PermutedIndex": "worker.core.index",
    "PackedPages": "worker.core.pages",
    "extract_pages": "worker.core.pages",
    "all_pairs": "worker.core.pairs",
    "clusters": "worker.core.pairs",
    "SearchRules": "worker.core.search",
    "similarity": "worker.core.sketch",
    "load_stopwords": "worker.core.stopwords",
    "DocumentError": "worker.errors",
    "NeardupError": "worker.errors",
    "StopError": "worker.errors",
    "Retention": "worker.log.rules",
    "Record": "worker.shell.files.archives",
    "CrawlFiles": "worker.shell.files.crawl",
    "Deduplicator": "worker.shell.files.deduplicator",
    "match": "worker.shell.files.matching",
    "Neighbour": "worker.shell.files.neighbours",
    "decode_document": "worker.shell.messages",
    "decode_verdict": "worker.shell.messages",
    "encode_verdict": "worker.shell.messages",
}
__all__ = [*_MODULE_OF, "__version__"]  # noqa: PLE0604  # names, which ruff cannot see


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name == "__version__":
        return import_module("importlib.metadata").version("neardup")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'neardup' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value  # so that the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
