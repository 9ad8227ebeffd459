"""What the accuracy benchmark counts."""

from __future__ import annotations

from tests.benchmarks.accuracy.measure import Variant, curves
from tests.benchmarks.accuracy.pairs import Sample, Texts
from worker.core.parameters import Parameters

PROSE = "the bridge over the river was built by two brothers who had learned their trade in the mountains of the north"
OTHER = "nobody knows why the older plans were never found but it is said that they were kept in a box below the floor"


def test_pairs_are_counted_by_distance() -> None:
    """Equal texts are within 0; a text and another one are not within 16; an empty one matches nothing, not itself."""
    sample = Sample("made", Texts([PROSE, PROSE.upper(), OTHER, ""], [None] * 4), [(0, 1), (3, 3)], [(0, 2)])
    (curve,) = curves(Variant("defaults", Parameters(), "union"), [sample])
    assert curve.recall == [0.5] * 17
    assert curve.false_positives[:11] == [0.0] * 11
    assert (curve.distances_same[0], curve.distances_same[65]) == (1, 1)
