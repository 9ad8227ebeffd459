"""neardup: near-duplicate detection on a live crawl. The engine as a library; the command is `neardup`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EXPORTS: dict[str, str] = {  # name -> module, or module:name where it has another one there
    "Document": "worker.core.document",
    "FingerprintBatch": "worker.core.fingerprint",
    "Feature": "worker.core.shingles",
    "Fingerprinter": "worker.core.fingerprint",
    "Kind": "worker.core.fingerprint",
    "NeardupError": "worker.errors",
    "Parameters": "worker.core.parameters",
    "hamming_distance": "worker.core.fingerprint",
    "load_stopwords": "worker.core.stopwords:load",
    "similarity": "worker.core.fingerprint",
}

__all__ = list(_EXPORTS)  # one table says both the names and where they live


def __getattr__(name: str) -> Any:
    """Import an exported name on first use, so that `import worker` costs nothing."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'worker' has no attribute {name!r}")
    module, _, original = _EXPORTS[name].partition(":")
    return getattr(import_module(module), original or name)
