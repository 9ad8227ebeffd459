"""Settings: bounds, cross-checks, precedence of their sources, and errors that name the source."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.conftest import REPOSITORY, definition_file
from worker.core.definition import Parameters
from worker.core.pages import PAGE_RULES
from worker.devkit.demo import _environment
from worker.errors import StopError
from worker.log.record import RECORD_BYTES_MAX
from worker.settings import (
    DECIDING,
    OVERHEAD_BYTES_MAX,
    SETTINGS,
    Settings,
    bounds_of,
    default_of,
    env_name,
    flag_name,
    load_definition,
    load_settings,
    unit_of,
)
from worker.shell.admin.rebuild import RebuildPlan
from worker.shell.kafka.configuration import publisher_config
from worker.shell.messages import VALUE_BYTES_MAX
from worker.shell.messages.dead_letter import DEAD_LETTER_BYTES_MAX

# What a number is counted in is the end of its name; these are counted in what they are named
# after.
UNITS_IN_NAMES = {
    "ms": "_ms",
    "s": "_s",
    "bytes": "_bytes_max",
    "MB": "_mb",
    "characters": "_characters_max",
}


pytestmark = pytest.mark.usefixtures("clean_environment")


def test_every_setting_says_what_it_is_and_every_number_has_bounds() -> None:
    """
    A description, a unit, a default that can be shown; a number without a bound would be a queue
    without one.
    """
    for name, field in Settings.model_fields.items():
        assert field.description and field.description.endswith("."), name
        assert unit_of(field), name
        assert default_of(field), name
        if field.annotation in (int, float):
            assert bounds_of(field), name
            assert name.endswith(UNITS_IN_NAMES.get(unit_of(field), "")), name


def test_every_setting_is_read_by_the_program() -> None:
    """
    By its name, outside of `worker/settings/`: a worker offers them all, so nothing else would show
    one without effect.
    """
    read = {
        node.attr
        for path in (REPOSITORY / "worker").rglob("*.py")
        if "settings" not in path.relative_to(REPOSITORY).parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert set(SETTINGS) - read == set()


def test_the_defaults_are_those_of_the_code() -> None:
    """Where the code has a default of its own, the setting has the same."""
    settings = Settings()
    assert settings.parameters == Parameters()
    with pytest.raises(ValidationError, match="frozen"):  # made once at the start, never changed
        settings.group = "other"  # type: ignore[misc]
    assert settings.document_bytes_max == VALUE_BYTES_MAX
    # No package is in it: a library that makes no text may be upgraded without a new log.
    assert settings.rules.pages == f"{PAGE_RULES}, {settings.text_characters_max} characters"


def test_every_parameter_of_the_fingerprint_reaches_the_engine(tmp_path: Path) -> None:
    """A setting of the engine that is changed changes the parameters' hash."""
    words = tmp_path / "words.txt"
    words.write_text("the  # article\nof\n")
    changed = {
        "stopwords_file": words,
        "token_unit": "character",
        "shingle_widths": (1, 3),
        "anchored_weight": 2,
        "unanchored_weight": 0,
        "term_frequency": "tf",
        "anchors": "named",
        "tokens_min": 9,
        "mask_numbers": True,
        "mask_identifiers": True,
    }
    hashes = {Settings(**{name: value}).parameters.hash for name, value in changed.items()}
    assert len(hashes) == len(changed)
    assert Parameters().hash not in hashes


def test_flags_win_over_environment_over_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each value knows where it came from."""
    config, definition = tmp_path / "neardup.toml", definition_file(shingle_widths=(1, 2))
    config.write_text(
        f'group = "file"\nworker_id = "file"\nbatch_wait_ms = 1\ndefinition = "{definition}"\n'
    )
    monkeypatch.setenv("NEARDUP_GROUP", "environment")
    monkeypatch.setenv("NEARDUP_WORKER_ID", "environment")
    monkeypatch.setenv("NEARDUP_LOG_LEVEL", "")  # as compose files pass what is not set
    monkeypatch.setenv("NEARDUP_CONFIG", str(config))  # stands for --config
    settings, origins = load_settings({"group": "flag"})
    assert (settings.group, settings.worker_id, settings.batch_wait_ms) == (
        "flag",
        "environment",
        1,
    )
    assert settings.shingle_widths == (1, 2)
    assert origins == {
        "group": "flag", "worker_id": "environment", "batch_wait_ms": str(config), "definition": str(config),
        "shingle_widths": str(definition),
    }  # fmt: skip


def test_only_the_loader_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses what is wrong there; settings that a program makes are its own."""
    monkeypatch.setenv("NEARDUP_GROUP", "environment")
    monkeypatch.setenv("NEARDUP_DEFINITION", "/none.toml")
    monkeypatch.setenv("NEARDUP_MAX_DISTANCE", "3")
    assert Settings() == Settings.model_construct()
    with pytest.raises(StopError, match="NEARDUP_MAX_DISTANCE"):
        load_settings()


def test_a_worker_of_the_demo_has_the_settings_that_were_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Maps, secrets, paths, switches and the definition, by way of its environment."""
    settings = Settings(
        kafka={"sasl.password": "*\"real", "linger.ms": "5"}, definition=definition_file(shingle_widths=(1, 3), mask_numbers=True),
        state_dir=Path("a b"), topic_new="fresh", batch_wait_ms=7,
        ask_token="0123456789abcdef",
    )  # fmt: skip
    for name, value in _environment(settings, "w1").items():
        monkeypatch.setenv(name, value)
    assert load_settings().settings == settings.model_copy(
        update={"worker_id": "w1", "log_format": "json"}
    )


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"topic_verdicts": "documents"}, "must differ, got documents, fingerprints, documents"),
        (
            {"topic_new": "verdicts"},
            "documents.dead-letter, verdicts: a worker would read what it writes",
        ),
        ({"bootstrap": "localhost"}, "must be host:port"),
        ({"bootstrap": "a:9092,[::1]:9093,b:70000"}, "got 'b:70000'"),
        (
            {"kafka": {"max.poll.interval.ms": "10000", "session.timeout.ms": "20000"}},
            "must be at least kafka.session.timeout.ms, got 10,000 and 20,000",
        ),
        (
            {"kafka": {"transaction.timeout.ms": "900001"}},
            "kafka.transaction.timeout.ms must be a whole number, 1,000 to 900,000 ms, got '900001'",
        ),
        (
            {"kafka": {"session.timeout.ms": "soon"}},
            "kafka.session.timeout.ms must be a whole number, 6,000 to 1,800,000 ms, got 'soon'",
        ),
        (
            {"kafka": {"fetch.wait.max.ms": "3000"}},
            "kafka.fetch.wait.max.ms must be at most 2,000, got 3000",
        ),
        (
            {"call_timeout_s": 400},
            "call_timeout_s must be below kafka.max.poll.interval.ms, got 400 s and 300,000 ms",
        ),
        (
            {"call_timeout_s": 10},
            "call_timeout_s must exceed kafka.transaction.timeout.ms, got 10 s and 10,000 ms",
        ),
    ],
)
def test_settings_that_do_not_agree_are_refused(values: dict[str, Any], says: str) -> None:
    """The error names both values and the reason."""
    with pytest.raises(StopError) as caught:
        load_settings(values)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("batch_documents_max", "0", "must be 1 to 100,000 documents"),
        ("batch_documents_max", "many", "must be a whole number, 1 to 100,000 documents"),
        ("call_timeout_s", "nan", "must be 1 to 3,600 s"),
        ("call_timeout_s", "soon", "must be a number, 1 to 3,600 s"),
        ("metrics_port", "65536", "must be 0 to 65,535"),  # nobody counts ports
        ("metrics_port", "x", "must be a whole number, 0 to 65,535"),
        ("static_membership", "perhaps", "must be true or false"),
        ("log_level", "loud", "Input should be 'debug', 'info', 'warning' or 'error'"),
        ("group", "a b", "must be letters, digits, dots, hyphens and underscores"),
        ("worker_id", "w" * 129, "must be 1 to 128 characters"),
        ("topic_verdicts", "..", "must be another name: Kafka refuses '..'"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_its_source(
    name: str, text: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flag, variable or file; the value, cut at 100 characters; the bound."""
    shown = text if len(text) <= 100 else text[:99] + "…"
    config = tmp_path / "neardup.toml"
    config.write_text(f'{name} = "{text}"\n', encoding="utf-8")
    with pytest.raises(StopError) as from_file:
        load_settings(config=config)
    with pytest.raises(StopError) as from_flag:
        load_settings({name: text})
    monkeypatch.setenv(env_name(name), text)
    with pytest.raises(StopError) as from_environment:
        load_settings()
    assert str(from_file.value).splitlines()[1] == f"  {name} = {shown} in {config}: {line}"
    assert str(from_flag.value).splitlines()[1] == f"  {flag_name(name)} {shown}: {line}"
    assert str(from_environment.value).splitlines()[1] == f"  {env_name(name)}={shown}: {line}"


def test_every_wrong_value_has_its_line_and_no_secret_is_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All at once, not one after the other; neither a token nor one of Kafka's secrets."""
    monkeypatch.setenv("NEARDUP_ASK_TOKEN", "hush")
    with pytest.raises(StopError) as caught:
        load_settings({"kafka": {"sasl.pasword": "hush"}, "log_level": "loud", "metrics_port": -1})
    assert len(str(caught.value).splitlines()) == 4 and "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("batch_waits_ms = 1", "there is no setting 'batch_waits_ms': did you mean batch_wait_ms?"),
        ("qqq = 1", "`neardup settings` lists all"),
        ("group = ", "is not TOML"),
        ("threads = " + "[" * 20_000, "is not TOML"),
        ("threads = true", "threads = true in "),
        ("tracing = 1", "must be true or false"),
        ("[definition]\nmax_distance = 3", "definition = {'max_distance': 3} in "),
        ("definition = 5", "definition = 5 in "),
        (None, "No such file"),
    ],
)
def test_a_wrong_file_is_named(text: str | None, says: str, tmp_path: Path) -> None:
    """Misspelt settings, broken TOML, no file."""
    config = tmp_path / "neardup.toml"
    if text is not None:
        config.write_text(text, encoding="utf-8")
    with pytest.raises(StopError) as caught:
        load_settings(config=config)
    assert says in str(caught.value)
    assert str(config) in str(caught.value)


# As the list of changes names them, so that none can be lost; and a part of what is said.
FORMERS = {
    **dict.fromkeys(
        (
            "dead_letter_bytes_max", "originals_on_disk_from", "page_memory_mb",
            "page_nesting_max", "page_timeout_s", "processes", "queue_batches_max",
            "record_bytes_max", "retries_max", "search_prefix_max", "shingles_min",
        ),
        "it was removed, as nobody has to choose it",
    ),
    "record_format": "a log says its format itself",
    **dict.fromkeys(
        ("search_block_bits", "search_blocks", "search_patterns"), "search_size = \"10x26x64\""
    ),
    "fault": "it is for tests alone",
    "kafka_options": "such as NEARDUP_KAFKA_LINGER_MS=5",
}  # fmt: skip


@pytest.mark.parametrize(("name", "says"), FORMERS.items())
def test_a_former_setting_is_refused_with_what_to_do(
    name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with a similar name: dead_letter_bytes_max did not mean document_bytes_max."""
    assert name not in (*SETTINGS, *DECIDING)
    refused = f"there is no setting '{name}': .*{re.escape(says)}"
    config = tmp_path / "neardup.toml"
    config.write_text(f"{name} = 4")
    with pytest.raises(StopError, match=refused):
        load_settings(config=config)
    with pytest.raises(StopError, match=f"it has no key '{name}': .*{re.escape(says)}"):
        load_definition(config)
    if name == "fault":  # the one whose variable is left
        return
    # The variable of kafka_options would be that of a property, "options".
    of_variable = re.escape(says) if name == "kafka_options" else refused
    monkeypatch.setenv(env_name(name), "4")
    with pytest.raises(StopError, match=f"^{env_name(name)}: .*{of_variable}"):
        load_settings()


@pytest.mark.parametrize("name", sorted(FORMERS.keys() - {"fault", "kafka_options"}))
def test_a_former_variable_in_lower_case_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions read it, so it must not be passed over without a word."""
    variable = env_name(name).lower()
    monkeypatch.setenv(variable, "9")
    with pytest.raises(StopError, match=f"{variable}: there is no setting '{name}': "):
        load_settings()


def test_a_misspelt_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would else be without effect and without a word."""
    monkeypatch.setenv("NEARDUP_BATCH_WAITS_MS", "1")
    with pytest.raises(
        StopError,
        match="NEARDUP_BATCH_WAITS_MS: there is no setting 'batch_waits_ms': did you mean",
    ):
        load_settings()


@pytest.mark.parametrize(
    "name", ["Neardup_Group", "NEARDUP_group", "neardup_config", "neardup_kafka_linger_ms"]
)
def test_a_variable_in_lower_case_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It decided verdicts, past the definition; passed over without a word it would mislead, too."""
    monkeypatch.setenv(name, "3")
    with pytest.raises(StopError, match=f"{name}: .* in upper case: write {name.upper()}"):
        load_settings()
    monkeypatch.delenv(name)
    monkeypatch.setenv("neardup_max_distance", "3")
    with pytest.raises(
        StopError, match="neardup_max_distance: it decides verdicts, so it is a key"
    ):
        load_settings()
    monkeypatch.delenv("neardup_max_distance")
    monkeypatch.setenv("neardup_of_another_program", "3")
    assert load_settings().origins == {}


@pytest.mark.parametrize("bytes_max", [DEAD_LETTER_BYTES_MAX, RECORD_BYTES_MAX])
def test_nothing_is_larger_than_client_and_brokers_take(bytes_max: int) -> None:
    """A dead letter or a record that one of them refuses would stop the worker at its first one."""
    client_max = int(publisher_config(Settings())["message.max.bytes"])
    brokers_max = 1_048_588  # by default
    assert bytes_max + OVERHEAD_BYTES_MAX < min(client_max, brokers_max)


@pytest.mark.parametrize(
    "changed", [{}, {"max_distance": 6, "shingle_widths": (2, 3), "expire_after_s": 60}]
)
@pytest.mark.parametrize("own_words", [False, True])
def test_the_printed_settings_are_those_of_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], own_words: bool
) -> None:
    """LoadedSettings in another folder they give the same definition and the same names."""
    monkeypatch.chdir(tmp_path)
    Path("words.txt").write_text("the\nof\n")
    keys = changed | ({"stopwords_file": "words.txt"} if own_words else {})
    Path("own.toml").write_bytes(definition_file(**keys).read_bytes())
    settings = Settings(
        worker_id="a", state_dir=Path("state ć😀"), base_snapshot=Path("known"),
        definition=Path("own.toml") if keys else None,
    )  # fmt: skip
    lines = RebuildPlan(settings, (), {}, {}, {}).switch()
    monkeypatch.chdir("/")
    loaded = Settings(worker_id="a", **tomllib.loads("\n".join(lines)))
    assert loaded.rules == settings.rules
    assert loaded.definition == (tmp_path / "own.toml" if keys else None)
    assert (loaded.topic_fingerprints, loaded.group) == (
        settings.topic_fingerprints,
        settings.group,
    )
    assert (loaded.state_dir, loaded.base_snapshot) == (tmp_path / "state ć😀", tmp_path / "known")


def test_no_default_is_shown_as_a_bare_zero() -> None:
    """Zero says nothing: it is "off", "no limit", or what it stands for."""
    shown = {name: default_of(field) for name, field in Settings.model_fields.items()}
    assert [name for name, default in shown.items() if default == "0"] == [], (
        "say what 0 stands for: default_text"
    )
    assert (shown["metrics_port"], shown["documents_max"]) == ("off", "no limit")
