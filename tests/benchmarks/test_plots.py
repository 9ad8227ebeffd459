"""The plots of kept results: bars begin at zero on an even scale, and no legend lies over data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.accuracy import report as accuracy
from tests.benchmarks.fingerprint import report as fingerprint
from tests.benchmarks.index import report as index
from tests.benchmarks.machine import RESULTS
from tests.benchmarks.pages import report as pages
from tests.benchmarks.stream import report as stream

figures = pytest.importorskip("matplotlib.figure", reason="no matplotlib: pip install 'neardup[bench]'")


def kept(name: str) -> Any:
    """The figures of a benchmark's last kept run."""
    return json.loads((RESULTS / f"{name}.json").read_text())


PLOTS: dict[str, Callable[[Path], object]] = {
    "accuracy": lambda path: accuracy.plot_edits(kept("accuracy")["parts"], path),
    "fingerprint": lambda path: fingerprint.plot(kept("fingerprint")["trials"], path),
    "index": lambda path: index.plot([index.Trial(**one) for one in kept("index")["trials"]], path),
    "pages": lambda path: pages.plot(kept("pages"), path),
    "stream": lambda path: stream.plot([stream.Line(**one) for one in kept("stream")["lines"]], path),
}


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_does_not_mislead(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar on a scale of powers, or one that begins beyond zero, has a length that means nothing."""
    drawn: list[Any] = []
    save = figures.Figure.savefig

    def noted(figure: Any, *arguments: Any, **options: Any) -> None:
        drawn.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(figures.Figure, "savefig", noted)
    PLOTS[name](tmp_path / "plot.png")
    (figure,) = drawn
    for axis in figure.axes:
        bars = [patch for patch in axis.patches if hasattr(patch, "get_width")]
        assert all(bar.get_x() == 0 for bar in bars)
        assert not bars or (axis.get_xscale() == "linear" and axis.get_xlim()[0] == 0)
    legends = [*figure.legends, *(axis.get_legend() for axis in figure.axes if axis.get_legend())]
    for legend in legends:
        place = legend.get_window_extent()
        assert not any(place.overlaps(axis.get_window_extent()) for axis in figure.axes)
