"""neardup: near-duplicate detection on a live crawl. The engine as a library; the command is `neardup`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EXPORTS: dict[str, str] = {
    "Document": "worker.core.document",
    "FingerprintBatch": "worker.core.fingerprint",
    "Fingerprinter": "worker.core.fingerprint",
    "Kind": "worker.core.fingerprint",
    "NeardupError": "worker.errors",
    "Parameters": "worker.core.parameters",
    "hamming_distance": "worker.core.fingerprint",
    "similarity": "worker.core.fingerprint",
}

__all__ = list(_EXPORTS)  # one table says both the names and where they live


def __getattr__(name: str) -> Any:
    """Import an exported name on first use, so that `import worker` costs nothing."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'worker' has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)
