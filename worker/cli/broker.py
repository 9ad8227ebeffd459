"""`neardup broker`: a real Apache Kafka on this machine, from Python alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from worker.cli import group_of_commands
from worker.cli.progress import BYTES, counted
from worker.devkit.broker import EmbeddedKafka, Runtime, default_data, prepare
from worker.devkit.broker.runtime import listed

PORT_DEFAULT = 19_092  # the port of the setting `bootstrap`
PORT_MAX = 65_000  # leaves room for the other ports of three nodes

broker = group_of_commands("broker")


def _one_or_three(nodes: int) -> int:
    if nodes not in {1, 3}:
        raise typer.BadParameter(f"must be 1 or 3, got {nodes}: a quorum of 2 survives no failure")
    return nodes


NodesOption = Annotated[
    int,
    typer.Option(
        help="Number of nodes: 1, or 3 so that topics survive the loss of one.",
        callback=_one_or_three,
    ),
]

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder of data and logs. [default: in the user's data directory]",
    ),
]
RepositoryOption = Annotated[
    str | None,
    typer.Option(
        "--repository",
        metavar="URL",
        help="A Maven repository of your own. [default: the public one]",
    ),
]


@broker.command()
def start(
    nodes: NodesOption = 1,
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=PORT_MAX,
            help="Port of the first node; the others follow it. 0 takes free ports.",
        ),
    ] = PORT_DEFAULT,
    data: DataOption = None,
    repository: RepositoryOption = None,
) -> None:
    """
    Start a broker that runs until `neardup broker stop`; return when it serves.

    The first time it downloads the broker's jars (45 MB) and checks each; a download that was
    interrupted is continued. If some of three nodes run, it starts the others on their data.
    """
    runtime = prepare_with_progress(repository)
    place = (data or default_data()).absolute()
    cluster = EmbeddedKafka.revive(place, runtime)
    if cluster is None:
        cluster = EmbeddedKafka(nodes, port, place, runtime=runtime, detached=True)
        cluster.start()
    typer.echo(f"Apache Kafka serves at {cluster.bootstrap}, data and logs in {cluster.data}")


@broker.command()
def stop(
    kill: Annotated[
        int | None,
        typer.Option(
            "--kill", metavar="NODE", help="Kill only this node (SIGKILL), as a power cut would."
        ),
    ] = None,
    data: DataOption = None,
) -> None:
    """Stop all nodes cleanly; keep the data."""
    cluster = EmbeddedKafka.attach((data or default_data()).absolute())
    if kill is not None:
        if not 1 <= kill <= cluster.nodes:
            raise typer.BadParameter(
                f"the cluster was started with --nodes {cluster.nodes}, got {kill}",
                param_hint="--kill",
            )
        cluster.kill(kill)
        typer.echo(f"node {kill} killed; `neardup broker start` starts it again")
        return
    running = sum(pid is not None for pid in cluster.pids().values())
    cluster.stop()
    typer.echo(
        f"{running or 'no'} {'node' if running == 1 else 'nodes'} ended, "
        f"the data stays in {cluster.data} (remove this folder to begin with an empty broker)"
    )


def prepare_with_progress(repository: str | None) -> Runtime:
    """Find Java and fetch the jars, and show how far the download is."""
    total = sum(jar.size_bytes for jar in listed())
    arrived = 0
    with counted(BYTES) as tell:

        def advance(count: int) -> None:
            nonlocal arrived
            arrived += count
            tell("the broker's jars", arrived, total)

        return prepare(repository=repository, advance=advance)
