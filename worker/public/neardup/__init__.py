"""
neardup as a library: near-duplicates among documents, judged as a group of workers judges them.

    >>> import neardup
    >>> found = neardup.Deduplicator()
    >>> found.add("The council of the town has said that the bridge over the river will be open in May.").outcome.value
    'new'
    >>> verdict = found.add("THE COUNCIL of the town has said that the bridge over the river will be open in May!")
    >>> verdict.outcome.value, verdict.duplicate_of.original.doc_id, verdict.duplicate_of.kind.value
    ('duplicate', '0-b1a339e0c871a578', 'exact')

Every name of `__all__` is imported when it is first used, so `import neardup` costs nothing. The code stands in the
packages `worker` and `schemas` beside this one; they are taken from there, whatever else has their name on the path.
"""

from __future__ import annotations

import ast
import pkgutil
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any


def _bind(name: str) -> None:
    """Bind a package's name to the one beside this package: a notebook's own `worker.py` would be found before it."""
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
                f"a module {name!r} of {getattr(loaded, '__file__', None)} is loaded, and neardup has a package of "
                f"this name: rename yours, or import neardup in a process without it"
            )
        return
    spec = PathFinder.find_spec(name, [str(root)])
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


for _name in ("schemas", "worker"):
    _bind(_name)
_PUBLIC = {  # module and name of each public name, as the stub beside this file has them
    alias.asname or alias.name: (statement.module or "", alias.name)
    for statement in ast.parse(pkgutil.get_data(__name__, "__init__.pyi") or b"").body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
}
__all__ = [*_PUBLIC, "__version__"]  # noqa: PLE0604  # names, which ruff cannot see


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name == "__version__":
        return import_module("importlib.metadata").version("neardup")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'neardup' has no attribute {name!r}")
    module, original = _PUBLIC[name]
    value = globals()[name] = getattr(import_module(module), original)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
