"""`neardup dead-letters`: the documents that could not be judged, and why."""

from __future__ import annotations

from worker.cli.options import with_cluster
from worker.cli.shared import LinesOption, TableColumn, TableColumns
from worker.cli.verdicts import FollowOption, LimitOption, SinceOption, print_published
from worker.settings import Settings
from worker.shell.admin.watch import PublishedAnswer
from worker.shell.messages import DeadLetter


@with_cluster("group", "topic_dead_letter")
def dead_letters(
    settings: Settings,
    follow: FollowOption = False,
    as_json: LinesOption = False,
    since: SinceOption = None,
    limit: LimitOption = None,
) -> None:
    """Print the dead letters: the documents that could not be judged, and why."""

    def row(published: PublishedAnswer) -> tuple[bytes, list[str]] | None:
        letter = published.answer
        if not isinstance(letter, DeadLetter):
            return None
        source = f"[{letter.source_partition}] {letter.source_offset}"
        return letter.line(), [letter.code, source, letter.doc_id or "", letter.text]

    columns = TableColumns(
        TableColumn("class", 19),
        TableColumn("source", 15, is_right=True),
        TableColumn("doc_id"),
        TableColumn("reason"),
    )
    print_published(
        settings,
        settings.topic_dead_letter,
        columns,
        row,
        as_json=as_json,
        follow=follow,
        since=since,
        limit=limit,
    )
