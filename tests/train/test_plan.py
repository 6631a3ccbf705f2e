"""Which tasks are seen when."""

import random
from types import SimpleNamespace

from skillopt.tasks.task import Task
from skillopt.train.plan import Plan, constant

TASKS = [Task(id=f"t{number}", prompt=f"question {number}") for number in range(10)]


def plan(**changes):
    settings = {
        "train": TASKS,
        "epochs": 2,
        "batch_size": 4,
        "seed": 42,
        "schedule": constant,
        "largest_limit": 4,
        "smallest_limit": 2,
    }
    return Plan(**{**settings, **changes})


def at(step=0, epoch=0, takes=None, remaining=None):
    return SimpleNamespace(step=step, epoch=epoch, takes=takes or {}, remaining=remaining)


def test_batches_are_the_public_seeded_slices():
    order = list(TASKS)
    random.Random(42 + 1000).shuffle(order)
    batches = list(plan().batches_left(1, at()))
    assert [row.task for batch in batches for row in batch.rows] == order
    assert [len(batch.rows) for batch in batches] == [4, 4, 2]
    assert [batch.seed for batch in batches] == [1043, 1044, 1045]
    assert [str(batch.place) for batch in batches] == ["e1/s1", "e1/s2", "e1/s3"]


def test_closed_steps_and_epochs_are_not_planned_again():
    assert [batch.step for batch in plan().batches_left(1, at(step=2))] == [3]
    assert list(plan().epochs_left(at(epoch=1))) == [2]
    assert plan().total_steps == 6


def test_a_step_opened_again_has_a_place_of_its_own_and_so_has_its_epochs_end():
    (batch,) = plan().batches_left(1, at(step=2, takes={3: 1}))
    assert str(batch.place) == "e1/s3.1"
    assert str(plan().end_place(1, at(takes={3: 1}))) == "e1/end.1"
    assert str(plan().end_place(2, at(takes={3: 1}))) == "e2/end"


def test_the_slow_sample_is_seeded_by_epoch_and_no_longer_than_asked():
    order = list(TASKS)
    random.Random(42 + 2 * 2000).shuffle(order)
    samples = list(plan(slow_samples=3).slow_samples_of(2))
    assert samples[0] == order[:3]
    assert [task for sample in samples for task in sample] == order


def test_a_step_runs_each_task_as_often_as_told():
    (batch, *_) = plan(draws=3).batches_left(1, at())
    assert [row.draw for row in batch.rows] == [0, 1, 2] * 4
    assert len({row.task.id for row in batch.rows}) == 4


def test_the_first_look_back_of_a_run_that_goes_on_is_on_tasks_of_the_earlier_ones():
    past = [Task(id=f"p{number}", prompt=f"earlier {number}") for number in range(3)]
    going_on = plan(past=past, slow_samples=2)
    assert {task.id for sample in going_on.slow_samples_of(1) for task in sample} == {"p0", "p1", "p2"}
    assert list(going_on.slow_samples_of(2)) == list(plan(slow_samples=2).slow_samples_of(2))
