"""
Options and their help: no command offers what it does not use, each fits a screen, long ones tell
progress.
"""

from __future__ import annotations

import io
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner

from tests.cli.program import ARTICLE, defined, lines, misused, page, run
from tests.faults import cluster
from tests.report.made import copy, verdict
from tests.shell.local_engine import local_engine
from worker.cli import PANELS, app, load_command, progress
from worker.settings import DECIDING, SETTINGS, Settings, env_name
from worker.shell.archive import steps
from worker.shell.messages import encode_verdict
from worker.shell.runtime import kernels

ON_FILES = {
    "archive": ["--input", "{file}", "--output", "{folder}"],
    "compare": ["{file}", "{file}"],
    "dedup": ["{file}"],
    "evaluate": ["{file}", "{pairs}"],
    "tune": ["{file}", "{pairs}"],
    "fingerprint": ["{file}"],
    "find-all": ["--input", "{file}"],
    "find-clusters": ["--input", "{file}"],
    "nearest": ["{file}", "--to", "a"],
    "warm-up": [],
}
ON_A_CLUSTER = {  # in the order in which they can run
    "topics create": [],
    "topics check": [],
    "topics alter": ["{topic}", "retention.ms=-1"],
    "feed": ["{file}"],
    "verdicts": [],
    "verify": [],
    "offsets restore": [],
    "report": ["--documents", "{file}", "--output", "{page}"],
    "explain": ["a", "--documents", "{file}"],
    "top": ["--once", "--interval", "0.2"],
}
ALL_SETTINGS = {"worker", "rebuild", "settings"}
ON_A_GROUP = {"log renew", "log retire"}  # that has worked: see tests/faults/test_renew.py

READ_DOCUMENTS = {"ask", "feed", "report", "explain", *ON_FILES} - {"compare", "warm-up"}
OF_READING = {
    "--fetched-at",
    "--id-column",
    "--text-column",
    "--url-column",
    "--time-column",
    "--encoding",
}
Run = Callable[..., set[str]]


@pytest.mark.parametrize("name", sorted(PANELS))
def test_every_command_that_reads_documents_can_be_told_how(name: str) -> None:
    """The same options everywhere, so that a document has one doc_id; other commands have none."""
    for command in PANELS[name]:
        options = {option for param in load_command(command).params for option in param.opts}
        assert options & OF_READING == (OF_READING if command in READ_DOCUMENTS else set()), command


def _commands() -> Iterator[tuple[str, Any]]:
    yield "", get_command(app)
    for entries in PANELS.values():
        for name in entries:
            command = load_command(name)
            yield name, command
            for inner_name, inner in getattr(command, "commands", {}).items():
                yield f"{name} {inner_name}", inner


COMMANDS = dict(_commands())  # groups, too


def offered(name: str) -> set[str]:
    """The settings that a command has options for."""
    return {parameter.name for parameter in COMMANDS[name].params} & set(SETTINGS)


@pytest.fixture
def read_by(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """
    Run a command on a document; give the settings that it has read.

    The checks read some settings whenever Settings are made, which does not count. The tasks of
    `archive` make theirs from the run's folder, as everywhere, but run in this process, which
    notes what they read.
    """
    file, pairs, read = tmp_path / "in.jsonl", tmp_path / "pairs.tsv", set[str]()
    pairs.write_text("a\ta\t1")
    document = {
        "doc_id": "a",
        "url": "https://example.org/",
        "fetched_at": "2026-01-02T03:04:05Z",
        "text": ARTICLE,
    }
    file.write_text(lines(document))
    make = Settings.__init__
    get = Settings.__getattribute__

    def made(settings: Settings, **values: Any) -> None:
        read_before = set(read)
        make(settings, **values)
        read.intersection_update(read_before)

    def noted(settings: Settings, name: str) -> Any:
        read.add(name)
        return get(settings, name)

    def invoke(name: str, arguments: list[str]) -> set[str]:
        files = {
            "file": file,
            "pairs": pairs,
            "page": tmp_path / "page",
            "folder": tmp_path / "folder",
        }
        topic = os.environ.get(env_name("topic_verdicts"))
        given = [argument.format(**files, topic=topic) for argument in arguments]
        result = CliRunner().invoke(app, [*name.split(), *given])
        assert result.exit_code == 0, (result.output, result.exception)
        return read & set(SETTINGS) | ({"definition"} if read & set(DECIDING) else set())

    monkeypatch.setattr(Settings, "__init__", made)
    monkeypatch.setattr(Settings, "__getattribute__", noted)
    monkeypatch.setattr(steps, "engine", local_engine)
    return invoke


def test_every_command_with_settings_is_looked_at() -> None:
    """A new one is to be added here."""
    listed = {*ON_FILES, *ON_A_CLUSTER, *ON_A_GROUP, *ALL_SETTINGS}
    with_settings = {name for name in COMMANDS if offered(name)}
    assert with_settings == listed, "list it in ON_FILES or ON_A_CLUSTER, with arguments"


def test_a_worker_takes_every_setting_but_those_of_topics_to_create() -> None:
    """And no secret: others of the machine can read a flag."""
    secret = {"ask_token"}
    assert set(SETTINGS) - offered("settings") == secret
    assert set(SETTINGS) - offered("worker") == secret | {
        "partitions",
        "replication_factor",
    }


@pytest.mark.parametrize("name", ON_FILES)
def test_no_command_on_files_offers_a_setting_that_it_does_not_use(name: str, read_by: Run) -> None:
    """find-clusters --max-distance was offered and without effect."""
    assert offered(name) - read_by(name, ON_FILES[name]) == set()


def test_no_command_on_a_cluster_offers_a_setting_that_it_does_not_use(
    commands_settings: Settings, read_by: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, on topics of their own."""
    bootstrap, topic = commands_settings.bootstrap, commands_settings.topic_verdicts
    monkeypatch.setenv(env_name("topic_new"), f"{topic}.new")
    for name, arguments in ON_A_CLUSTER.items():
        if name == "report":  # of something
            answers = verdict(1, doc_id="a"), copy(2, 1, doc_id="a", original_id="a")
            cluster.append(bootstrap, topic, [encode_verdict(answer)[1] for answer in answers])
        assert offered(name) - read_by(name, arguments) == set()


pytestmark = pytest.mark.usefixtures("clean_environment")


def test_settings_describes_every_setting() -> None:
    """And every key of the definition, with default and bounds; the output stays a file for --config."""
    text = run("settings", "--describe").stdout
    assert "batch_wait_ms = 20  # ms; default" in text
    words = " ".join(text.replace("\n# ", " ").split())
    assert (
        "adds to the latency when few documents arrive. Default: 20; 0 to 10,000. batch_wait_ms = 20 # ms"
        in words
    )
    assert tomllib.loads(text) == tomllib.loads(run("settings").stdout)
    for field in Settings.model_fields.values():
        assert str(field.description) in words


def test_kafkas_own_settings_are_repeated_names_and_values() -> None:
    """
    A value may hold an equals sign; without one it is refused, and so is a secret, which others on
    the machine could read.
    """
    given = "--kafka", "client.rack=b=c", "--kafka", "linger.ms=5"
    assert run("settings", *given, "--changed").stdout.splitlines() == [
        'kafka."client.rack" = "b=c"  # name=value; flag',
        'kafka."linger.ms" = "5"  # name=value; flag',
    ]
    assert "NAME=VALUE, got 'linger.ms'" in misused("settings", "--kafka", "linger.ms")
    said = misused("settings", "--kafka", "sasl.password=hush")
    assert "Set NEARDUP_KAFKA_SASL_PASSWORD" in said and "hush" not in said


def test_settings_that_are_given_as_they_are_by_default_are_not_changed() -> None:
    """Neither a setting nor a key of the definition, of which no heading is left then."""
    usual = Settings.model_fields["group"].default
    given = ("--batch-wait-ms", 50, "--group", usual, *defined(recrawls="compare"))
    lines = run("settings", *given, "--changed").stdout.splitlines()
    assert [line.partition(" = ")[0] for line in lines] == ["batch_wait_ms", "definition"]


def test_the_output_of_settings_is_a_config_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is shown is TOML that gives the same settings again; passwords are not in it."""
    monkeypatch.setenv("NEARDUP_KAFKA_SASL_PASSWORD", "hush")
    monkeypatch.setenv("NEARDUP_STATE_DIR", 'a "b"\n\\ć')
    definition = defined(shingle_widths=(1, 2), mask_numbers=True)
    arguments = ["settings", *definition, "--no-static-membership", "--kafka", "client.rack=a"]
    first = run(*arguments).stdout
    assert "hush" not in first
    assert '# kafka."sasl.password" is set and hidden' in first
    config = tmp_path / "neardup.toml"
    config.write_text(first, encoding="utf-8")
    assert tomllib.loads(first)["state_dir"] == 'a "b"\n\\ć'
    assert tomllib.loads(first)["definition"] == definition[1]
    assert f"# shingle_widths = [1, 2]  # tokens; {definition[1]}" in first
    monkeypatch.delenv("NEARDUP_STATE_DIR")
    second = run("settings", "--config", str(config)).stdout
    assert tomllib.loads(second) == tomllib.loads(first)


def shown(*path: str) -> list[str]:
    """Return the lines of a command's help."""
    return run(*path, "--help", COLUMNS="100", TERMINAL_WIDTH="100").stdout.splitlines()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_screen(name: str) -> None:
    """
    44 lines of 100 columns; nothing ends in dots, no type of Python's is named.
    """
    lines = shown(*name.split())
    assert len(lines) <= 44
    assert max(map(len, lines)) <= 100
    assert not [line for line in lines if re.search(r"(…|\.\.\.) *│$|<\w+", line)]


def test_the_list_says_of_each_command_what_the_command_says_itself() -> None:
    """The list is made without importing a command, so its summaries are written twice."""
    for entries in PANELS.values():
        for name, entry in entries.items():
            first, *_ = COMMANDS[name].help.split("\n\n")
            assert entry.summary == first, name


def test_every_command_has_its_panel_and_a_line() -> None:
    """A new command is to be added to PANELS, with a summary that fits."""
    rows = [line.split("│")[1] for line in shown() if line.startswith("│")]
    named = [row.split()[0] for row in rows if not row.startswith(" --")]
    assert named == [name for names in PANELS.values() for name in names]


JUDGING = ("dedup", "archive", "worker", "rebuild", "compare", "evaluate", "tune")


@pytest.mark.parametrize("name", JUDGING)
def test_the_definition_is_in_the_help_of_what_judges(name: str) -> None:
    """Every command that decides what a duplicate is shows `--definition`, and what it holds."""
    (line,) = (line for line in shown(name) if "--definition" in line)
    assert "what decides verdicts: similarity" in line


@pytest.mark.parametrize("option", ["--similarity-min=.6", "--no-mask-numbers", "--max-distance"])
def test_an_option_that_has_moved_into_the_definition_says_so(option: str) -> None:
    """In place of "no such option"; an option of that name which a command has is its own."""
    said = misused("dedup", "in.jsonl", option)
    assert "it decides verdicts, so it is a key of the definition" in said
    assert "--definition FILE, NEARDUP_DEFINITION=FILE" in said


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--dead-letter-bytes-max", "it was removed"),
        ("--shingles-min=9", "it was removed"),
        ("--processes", "it was removed"),
        ("--search-blocks", 'write search_size = "10x26x64" into the definition'),
        ("--kafka-options", "such as NEARDUP_KAFKA_LINGER_MS=5"),
    ],
)
def test_a_former_option_is_refused_with_what_to_do(option: str, says: str) -> None:
    """Not with possible options that mean something else, such as --batch-bytes-max."""
    said = misused("worker", option, "3")
    assert says in said
    assert "Possible options" not in said


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["x.jsonl", "--state", ""], "--state"),
        (["x.jsonl", "--state="], "--state"),
        ([""], "Invalid value"),  # an argument has no name in a message
        (["--quiet", ""], "Invalid value"),
        (["--state=x", ""], "Invalid value"),
        (["--", "--id-column", ""], "Invalid value"),
    ],
)
def test_an_empty_argument_is_no_name_of_the_folder_that_we_are_in(
    arguments: list[str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable of a script is not set. The folder would be read, or filled with a state."""
    monkeypatch.chdir(tmp_path)
    said = misused("dedup", *arguments)
    assert f"{name}: must not be empty: is a variable of the shell not set?" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["dedup", "x.jsonl", "--output", "a", "--output=b"],
            "--output: is given 2 times, with 'a' and 'b'",
        ),
        (["worker", "--group", "a", "--group", "a"], "--group: is given 2 times, with 'a' and 'a'"),
        (
            ["topics", "create", "--partitions", "1", "--partitions", "2", "--partitions", "3"],
            "--partitions: is given 3 times, with '1' and '2' and '3'",
        ),
    ],
    ids=["own", "setting", "command of a group"],
)
def test_an_option_of_one_value_is_refused_if_it_is_given_again(
    arguments: list[str], says: str
) -> None:
    """The last value would win in silence."""
    assert f"{says}: it takes one value" in misused(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        [
            "settings",
            "--kafka",
            "linger.ms=5",
            "--kafka",
            "client.rack=a",
            "--changed",
            "--changed",
        ],
        ["settings", "--group", "a", "--worker-id=--group"],
    ],
    ids=["lists and flags", "a value like a name"],
)
def test_what_may_be_given_again_is_taken(arguments: list[str]) -> None:
    """Options with lists and flags; and a name that stands as the value of another option."""
    run(*arguments)


@pytest.mark.parametrize("given", [["--id-column", ""], ["--id-column="]])
def test_a_column_without_a_name_can_be_named(given: list[str], tmp_path: Path) -> None:
    """So pandas' `to_csv` calls the numbers of the rows."""
    path = tmp_path / "pages.csv"
    path.write_text(",text\n7,The river rose in the night\n")
    result = CliRunner().invoke(app, ["fingerprint", *given, str(path)])
    assert '"doc_id":"7"' in result.stdout


def test_brackets_are_shown_as_they_are() -> None:
    """Defaults and shapes stand in brackets, which a markup would take for its own."""
    assert "[doc_id or fingerprint, bits that differ]" in " ".join(shown("nearest"))
    assert "[default: the host name]" in " ".join(shown("worker"))


def test_what_is_seldom_set_is_an_option_all_the_same() -> None:
    """The help has no room for all; `neardup settings --describe` has. A flag can be taken back."""
    assert "--batch-wait-ms" not in " ".join(shown("worker"))
    said = " ".join(" ".join(shown("worker")).replace("│", "").split())
    further = "--topic-new, --base-snapshot, --metrics-host"
    assert f"More, like {further}: `neardup settings --describe`." in said
    assert "--metrics-host" not in " ".join(shown("dedup"))
    told = run(
        "settings", "--batch-wait-ms", "50", "--no-static-membership", "--changed"
    ).stdout.splitlines()
    assert sorted(told) == [
        "batch_wait_ms = 50  # ms; flag",
        "static_membership = false  # yes/no; flag",
    ]


def test_warm_up_says_where_the_code_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory that `cache_directory` names; that nothing can be kept, with the remedy."""
    said = run("warm-up").output
    assert "kernels ready in" in said and ("__pycache__" in said or "kept in" in said)
    monkeypatch.setattr(kernels, "kept_in", lambda: None)
    said = run("warm-up").output
    assert "in memory only" in said and "Set NUMBA_CACHE_DIR" in said


LONG = (
    "archive", "ask", "dedup", "evaluate", "explain", "feed", "find-all", "find-clusters",
    "fingerprint", "nearest", "rebuild", "report", "sample-crawl", "tune", "verify",
)  # fmt: skip


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal shows."""
    found = io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(
        progress, "Console", lambda **_: Console(file=found, force_terminal=True, width=100)
    )
    return found


@pytest.mark.parametrize("name", LONG)
def test_every_long_command_can_be_quiet(name: str) -> None:
    """The same option everywhere."""
    assert [one.opts for one in COMMANDS[name].params if one.name == "quiet"] == [["--quiet"]]


def test_progress_says_how_far_how_fast_and_how_long(screen: io.StringIO) -> None:
    """On a terminal; each step has its line."""
    seconds = iter([0.0, 1.0, 2.0, 3.0, 4.0])
    with progress.counted("messages", clock_s=lambda: next(seconds)) as tell:
        for done in (1, 500, 1_000):
            tell("documents", done, 2_000)
        tell("verdicts", 10, 10)
    shown = screen.getvalue()
    assert "documents" in shown
    assert "verdicts" in shown
    assert re.search(r"50%.* 1,000 messages, 500/s, 0:00:02 left", shown)
    screen.truncate(0)
    with progress.counted("messages", quiet=True) as tell:
        tell("documents", 1, 2)
    assert "documents" not in screen.getvalue()


def test_answers_are_read_with_progress(screen: io.StringIO, tmp_path: Path) -> None:
    """
    Of a file the size tells how many there are; `report` and the commands before it are silent if
    asked.
    """
    source, verdicts, drawn = tmp_path / "in.jsonl", tmp_path / "verdicts", tmp_path / "page"
    source.write_text(lines(*(page(number, text=ARTICLE) for number in range(1_000))))
    for arguments in (
        ["dedup", source, "--output", verdicts],
        ["report", verdicts, "--output", drawn],
    ):
        assert (run(*arguments, "--quiet").output, screen.getvalue()) == ("", "")
    run("report", verdicts, "--output", drawn)
    assert re.search(r"reading answers .*100%.* 1,000 answers", screen.getvalue())


def test_damage_is_named_thrice_and_then_counted(tmp_path: Path) -> None:
    """
    Not a line for each of a thousand; nothing of it with --quiet. Most of a sample's damaged
    records are read.
    """
    source = tmp_path / "crawl.warc.gz"
    said = run("sample-crawl", "--documents", "2000", "--damaged", source).stderr
    [damaged] = re.findall(
        r"(\d+) damaged, .*; of what is damaged, three in five are read all the same$", said.strip()
    )
    command = ("dedup", source, "--output", tmp_path / "verdicts")
    told = run(*command).stderr.splitlines()
    unread = 2000 - int(told[-1].split()[0].replace(",", ""))
    assert [line.partition(":")[0] for line in told] == ["damaged"] * 4 + [
        told[-1].partition(":")[0]
    ]
    assert (told[3], f"{unread} damaged records" in told[-1]) == (
        f"damaged: {unread - 3} more",
        True,
    )
    assert 2 * int(damaged) // 5 <= unread <= 2 * int(damaged) // 5 + 2
    assert run(*command, "--quiet").stderr == ""
