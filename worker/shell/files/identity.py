"""
What a run over files is. By this, `dedup` and `archive` recognise a run that was begun or has ended
before.

    fact          a run that has ended              a run that was begun
                  (header of a state, state.py)     (folder of an archive, archive/run.py)
    command       the same                          the same
    options       the same                          the same
    outputs       the same places                   the folder itself
    references,   the same contents, in this        the same names, sizes and times of change,
    inputs        order, under any names            in this order
    state         the one that has the header       the same folder
    rules,        those of the state's snapshot     the same
    settings
    version       any: all of its files are there   the same: more files will be written

A run that has ended is compared by contents, because a file may have been moved or written again
meanwhile. A run that was begun is compared before anything is read, which may be many terabytes;
each of its tasks looks again whether its file is as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from worker.shell.files.places import shown_name

_SHOWN_MAX = 3  # names of files in a message
_EACH = ("options", "rules", "settings")  # facts that are values by their names
_FILES = ("references", "inputs")


class FileMark(NamedTuple):
    """
    A file of a run.

    Attributes:
        name: as messages have it.
        mark: what stays the same as long as the file does.
    """

    name: str
    mark: tuple[object, ...] = ()


class RunIdentity(NamedTuple):
    """
    The arguments of a run: the facts of the table above.

    Attributes:
        command: "dedup" or "archive".
        options: those that change its outputs.
        outputs: its places.
        references, inputs: its files, in order.
        version, state, rules, settings: empty where they are not compared.
    """

    command: str
    options: Mapping[str, Any]
    outputs: Sequence[str]
    references: Sequence[FileMark]
    inputs: Sequence[FileMark]
    state: str | None = None
    rules: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}
    version: str = ""


def files_named(names: Iterable[str]) -> list[FileMark]:
    """Return files of which nothing but the name is known."""
    return [FileMark(name) for name in names]


def differences(there: RunIdentity, here: RunIdentity) -> list[str]:
    """
    Return in what a run differs from an earlier one, with both values; nothing: it is the same run.

    Args:
        there: the earlier one.

    >>> monday = RunIdentity("dedup", {"keep": "new"}, ["out"], [], [FileMark("a", (1,))])
    >>> differences(monday, monday._replace(options={"keep": None}, inputs=[FileMark("a", (2,))]))
    ["keep was 'new' and is None", 'the inputs differ (1 then, 1 now: a has changed)']
    >>> differences(monday, monday._replace(command="archive", outputs=["folder"]))
    ['that was `neardup dedup`']
    """
    if there.command != here.command:
        return [f"that was `neardup {there.command}`"]
    told = [
        difference
        for name in RunIdentity._fields
        for difference in _told(name, getattr(there, name), getattr(here, name))
    ]
    return list(dict.fromkeys(told))  # a rule is a setting, too


def _told(name: str, there: Any, here: Any) -> Iterator[str]:
    """Yield the differences in one fact."""
    if there == here:
        return
    if name in _EACH:
        for one in {**there, **here}:
            if there.get(one) != here.get(one):
                yield f"{one} was {there.get(one)!r} and is {here.get(one)!r}"
    elif name in _FILES:
        if [file.mark for file in there] != [file.mark for file in here]:
            yield _listed_differences(name, there, here)
    elif name == "outputs":
        places = ([FileMark(place, (place,)) for place in places] for places in (there, here))
        yield _listed_differences(name, *places)
    else:
        yield f"{name} was {there!r} and is {here!r}"


def _listed_differences(name: str, there: Sequence[FileMark], here: Sequence[FileMark]) -> str:
    known = [{file.mark for file in files} for files in (there, here)]
    changed = [file.name for file in here if file.mark not in known[0]]
    changed += [file.name for file in there if file.mark not in known[1]]
    # A file that has been written again: its name alone would not say in what the runs differ.
    in_both = {file.name for file in there} & {file.name for file in here}
    told = [f"{file} has changed" if file in in_both else file for file in dict.fromkeys(changed)]
    shown = listed(told) if told else "in another order"
    return f"the {name} differ ({len(there):,} then, {len(here):,} now: {shown})"


def listed(names: Sequence[str]) -> str:
    """
    Return the first of some names, and how many there are besides.

    >>> listed(list("abcde"))
    'a, b, c and 2 more'
    """
    more = len(names) - _SHOWN_MAX
    shown = ", ".join(map(shown_name, names[:_SHOWN_MAX]))
    return f"{shown} and {more:,} more" if more > 0 else shown
