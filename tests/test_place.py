"""A place writes and reads its own text, and the text is the one that keys are made of."""

from __future__ import annotations

import pytest

from skillopt.events import Reflected, parse_event
from skillopt.events.place import BASELINE, EARLY_TEST, FINISH, Place

STEP = Place.of_step(2, 7)
END = Place.end_of(2)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (BASELINE, "baseline"),
        (FINISH, "finish"),
        (EARLY_TEST, "test/seed"),
        (STEP, "e2/s7"),
        (Place.of_step(2, 7, 3), "e2/s7.3"),
        (STEP.part(candidate=0), "e2/s7"),
        (STEP.part(candidate=12), "e2/s7/c12"),
        (STEP.part(candidate=1).at("verdict"), "e2/s7/c1/verdict"),
        (STEP.at("rollout"), "e2/s7/rollout"),
        (STEP.at("analyst_failure", "0", attempt=1), "e2/s7/analyst_failure/0/a1"),
        (STEP.at("merge", "final-0-1", number=3), "e2/s7/merge/final-0-1#3"),
        (END, "e2/end"),
        (Place.end_of(2, 1).part(sample=4, arm="older"), "e2/end.1/more-4/older"),
        (END.part(arm="newer").at("rollout"), "e2/end/newer/rollout"),
        (END.at("slow_update", "0", attempt=0), "e2/end/slow_update/0/a0"),
        (Place.of_test(2, 8, (1, 2)), "test/2.8.1.2"),
        (Place.of_test(2, 8).part(name="best").at("test"), "test/2.8/best/test"),
        (Place.of_turn("a1b2", 1, 3), "rollout/a1b2.1/3"),
        (Place.named("judge", "f00", attempt=0), "judge/f00/a0"),
        (BASELINE.at("selection"), "baseline/selection"),
    ],
)
def test_a_place_writes_the_text_that_it_reads(place: Place, text: str) -> None:
    assert str(place) == text
    assert str(Place.parse(text)) == text
    if place.scope != "named":
        assert Place.parse(text) == place


def test_what_no_form_fits_is_a_name() -> None:
    assert Place.parse("my skill/val") == Place.named("my skill", "val")


def test_a_place_knows_its_step_whatever_happened_there() -> None:
    place = Place.parse("e2/s7.1/c2/merge/final-0-1#3")
    assert (place.epoch, place.step, place.takes, place.candidate, place.number) == (2, 7, (1,), 2, 3)
    assert place.root == Place.of_step(2, 7, 1)


def test_an_event_holds_a_place_and_writes_its_text() -> None:
    event = Reflected(id="x", place=STEP, patches=[])
    assert '"place":"e2/s7"' in event.model_dump_json()
    assert parse_event(event.model_dump_json()) == event
