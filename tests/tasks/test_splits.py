"""Splits: disjoint by content, reproducible by seed, and never guessed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.errors import ConfigError, TaskError, UnknownName
from skillopt.tasks.splits import Splits, canonical_split, parse_ratio, ratio_split
from skillopt.tasks.task import SPLITS, Task


def task(name: str, prompt: str | None = None) -> Task:
    return Task(id=name, prompt=prompt if prompt is not None else f"question {name}")


def tasks(count: int) -> list[Task]:
    return [task(f"t{n}") for n in range(count)]


def sizes(splits: Splits) -> tuple[int, ...]:
    return tuple(len(splits.of(split)) for split in SPLITS)


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train", "train"),
        ("val", "val"),
        ("valid_seen", "val"),
        ("selection", "val"),
        ("test", "test"),
        ("valid_unseen", "test"),
    ],
)
def test_public_split_names_are_understood(name: str, split: str) -> None:
    assert canonical_split(name) == split


@pytest.mark.parametrize("name", ["tset", "VAL", "", "all"])
def test_a_mistyped_split_is_an_error_and_not_val(name: str) -> None:
    with pytest.raises(UnknownName, match="No split named"):
        canonical_split(name)


def test_the_near_miss_is_named() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'valid_unseen'"):
        canonical_split("valid_unsen")


@pytest.mark.parametrize(
    ("count", "ratio", "expected"),
    [
        (10, "2:1:7", (2, 1, 7)),
        (2000, "2:1:7", (400, 200, 1400)),
        (5, "2:2:1", (2, 2, 1)),
        (3, "2:2:1", (1, 1, 1)),  # 1.2 1.2 0.6: the largest remainder gets the third
        (4, "1:1:1", (2, 1, 1)),  # equal remainders and weights: the earlier split
        (2, "1:2:1", (1, 1, 0)),  # 0.5 1 0.5: equal weights, the earlier split
        (10, "1:5:2", (1, 6, 3)),  # 1.25 6.25 2.5: the largest remainder is test's
        (10, "5:1:6", (4, 1, 5)),  # 4.17 0.83 5
        (6, "3:1:8", (2, 0, 4)),  # 1.5 0.5 4: the tie goes to the bigger weight, and val stays empty
        (4, "1:1:0", (2, 2, 0)),
        (10, "0.2:0.1:0.7", (2, 1, 7)),
    ],
)
def test_counts_come_by_largest_remainder(count: int, ratio: str, expected: tuple[int, ...]) -> None:
    if 0 in expected[:2]:
        with pytest.raises(TaskError, match="val split is empty"):
            ratio_split(tasks(count), ratio, 42)
        return
    assert sizes(ratio_split(tasks(count), ratio, 42)) == expected


def test_the_shuffle_is_the_public_one_and_depends_on_the_seed_alone() -> None:
    order = tasks(20)
    expected = list(order)
    random.Random(7).shuffle(expected)
    splits = ratio_split(order, "2:1:7", 7)
    assert [*splits.train, *splits.val, *splits.test] == expected
    assert ratio_split(order, "2:1:7", 7) == splits
    assert ratio_split(order, "2:1:7", 0) != splits


@given(contents=st.lists(st.integers(0, 12), min_size=6, max_size=40), seed=st.integers(0, 1000))
def test_equal_questions_never_land_on_both_sides(contents: list[int], seed: int) -> None:
    rows = [task(f"t{n}", prompt=f"question  {content}") for n, content in enumerate(contents)]
    try:
        splits = ratio_split(rows, "2:2:1", seed)
    except TaskError as error:
        assert "split is empty" in str(error)  # one repeated question can fill a side; it never overlaps
        return
    home: dict[str, str] = {}
    for split in SPLITS:
        for row in splits.of(split):
            assert home.setdefault(row.content_hash, split) == split
    assert sorted(row.id for split in SPLITS for row in splits.of(split)) == sorted(row.id for row in rows)


def test_an_overlap_lists_both_ids_and_both_splits_whatever_the_ids_and_the_spacing() -> None:
    with pytest.raises(TaskError) as caught:
        Splits(
            train=(task("a", "same  question"), task("b")),
            val=(task("c", "same question\n"),),
            test=(task("d", "question b"),),
        )
    assert "2 tasks are in two splits" in str(caught.value)
    assert "a (train) = c (val)" in str(caught.value)
    assert "b (train) = d (test)" in str(caught.value)


def test_equal_questions_inside_one_split_are_allowed() -> None:
    assert sizes(Splits(train=(task("a", "x"), task("b", "x")), val=(task("c"),))) == (2, 1, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Splits(train=(task("a", "1"),), val=(task("a", "2"),)),
        lambda: Splits(train=(task("a", "1"), task("a", "2")), val=(task("b"),)),
        lambda: ratio_split([task("a", "1"), task("a", "2"), task("b")], "1:1:1", 0),
    ],
)
def test_an_id_used_twice_is_an_error_that_names_it(make) -> None:
    with pytest.raises(TaskError, match="1 task id is used more than once: a"):
        make()


def test_a_long_list_of_duplicates_is_cut() -> None:
    with pytest.raises(TaskError, match=r"t19 and 10 more\."):
        ratio_split(tasks(30) * 2, "1:1:1", 0)


def test_an_empty_val_or_train_is_an_error_and_an_empty_test_is_not() -> None:
    assert sizes(Splits(train=(task("a"),), val=(task("b"),))) == (1, 1, 0)
    with pytest.raises(TaskError, match="val split is empty"):
        Splits(train=(task("a"),), val=())
    with pytest.raises(TaskError, match="train split is empty"):
        Splits(train=(), val=(task("a"),))
    with pytest.raises(TaskError, match="val split is empty"):
        ratio_split(tasks(4), "2:1:7", 42)


def test_a_limit_keeps_the_first_tasks_of_each_split_and_zero_keeps_all() -> None:
    splits = ratio_split(tasks(20), "2:2:1", 1)
    assert splits.limited(0) == splits
    assert splits.limited(3).train == splits.train[:3]
    assert sizes(splits.limited(3)) == (3, 3, 3)


@pytest.mark.parametrize("ratio", ["", "2:1", "2:1:7:1", "a:b:c", "2:-1:7", "0:1:1", "1:0:1", "1/0:1:1"])
def test_a_ratio_that_cannot_work_is_refused(ratio: str) -> None:
    with pytest.raises(ConfigError, match="split_ratio"):
        parse_ratio(ratio)
