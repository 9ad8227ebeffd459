"""
Turns pages into text: what a page says, without its menus, advertisements and frames. README.md has
the rules.
"""

from __future__ import annotations

from worker.core.pages.accounts import REASONS, REGIONS, PageAccount, page_account
from worker.core.pages.batch import (
    FIELDS,
    METHODS,
    PAGE_RULES,
    PackedPages,
    extract_packed,
    extract_pages,
    pack_bodies,
)
from worker.core.pages.titles import title_words

__all__ = [
    "FIELDS",
    "METHODS",
    "PAGE_RULES",
    "REASONS",
    "REGIONS",
    "PackedPages",
    "PageAccount",
    "extract_packed",
    "extract_pages",
    "pack_bodies",
    "page_account",
    "title_words",
]
