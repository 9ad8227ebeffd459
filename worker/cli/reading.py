"""
The options that say how documents of files are read: declared here, for every command that reads
any, so that all name a document alike.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from worker.cli.shared import notice

if TYPE_CHECKING:
    from worker.shell.files.crawl import CrawlFiles
    from worker.shell.files.options import FileOptions


def _column(help_text: str) -> Any:
    return typer.Option(metavar="NAME", help=help_text, show_default=False)


class Reading(NamedTuple):
    """
    How documents are read. A command with a parameter `reading` has an option for each field.

    The same options give a document the same doc_id in every command.
    """

    fetched_at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Fetch time of documents without one (ISO 8601)."),
    ] = None
    id_column: Annotated[str | None, _column("Field of the id. [default: doc_id]")] = None
    text_column: Annotated[
        str | None, _column("Text field. [default: text, html or body_base64]")
    ] = None
    url_column: Annotated[str | None, _column("URL field. [default: url]")] = None
    time_column: Annotated[str | None, _column("Fetch time field. [default: fetched_at]")] = None
    encoding: Annotated[str | None, _column("Text encoding. [default: its mark, or UTF-8]")] = None

    def options(
        self,
        keep: str | None = None,
        prefer: str = "first",
        *,
        duplicates: bool = False,
        format: str | None = None,  # noqa: A002  # as the option is called
        per_cluster: int = 1,
    ) -> FileOptions:
        """
        Return the options of a run over files that reads documents so.

        Args:
            keep, prefer, duplicates, format, per_cluster: as in `FileOptions`.
        Raises:
            BadParameter: the options do not go together.
            StopError: there is no such encoding, or the fetch time is none.
        """
        # A command that reads no documents, or asks only for its help, starts faster without it.
        from worker.shell.files.options import FileOptions  # noqa: PLC0415

        options = FileOptions(
            keep, prefer, duplicates, **self._asdict(), format=format, per_cluster=per_cluster
        )
        try:
            options.check()
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        return options

    def open(self, files: Sequence[str], **more: Any) -> CrawlFiles:
        """Return the documents of files; `more` are arguments of `CrawlFiles`."""
        return self.options().open(files, **more)

    def check_columns(self, files: Sequence[str]) -> None:
        """Raise StopError if no row of these files has a column that is named."""
        if self.options().columns.named:
            self.open(files).check_columns()

    def files(
        self,
        names: Sequence[str],
        outputs: Sequence[str | Path] = (),
        others: Iterable[str | Path] = (),
    ) -> list[str]:
        """
        Return the files that names stand for: files, folders, patterns with *, URLs, or stdin.

        Args:
            names: as they were given.
            outputs: to be written.
            others: are read as well, but not as documents.
        Raises:
            StopError: a name stands for no file, an output is read, or would be read by the next
                run, or no row has a column that is named.
        """
        from worker.shell.files.places import checked_files  # noqa: PLC0415

        files = checked_files(names, outputs, others, notice)
        self.check_columns(files)
        return files


def with_reading(
    signature: inspect.Signature,
) -> tuple[list[inspect.Parameter], Callable[[dict[str, Any]], None]]:
    """
    Return a command's parameters, with those of `Reading` in the place of its parameter `reading`,
    and what makes the `Reading` of their values.
    """
    if "reading" not in signature.parameters:
        return [*signature.parameters.values()], lambda _: None
    hints = get_type_hints(Reading, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name != "reading":
            parameters.append(parameter)
            continue
        parameters += [
            inspect.Parameter(name, parameter.kind, default=None, annotation=hints[name])
            for name in Reading._fields
        ]

    def gather(arguments: dict[str, Any]) -> None:
        values = {name: arguments.pop(name) for name in Reading._fields}
        arguments["reading"] = Reading(**values)

    return parameters, gather
