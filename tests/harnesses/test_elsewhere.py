"""Rollouts of agent programs in a worker: the same trajectory, every file as content, records and money here."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from harnesses.test_agent import KEY, SKILL, Journal, harness, rollout
from skillopt.errors import Fault
from skillopt.executors import Executor
from skillopt.executors.port import WorkerLost
from skillopt.executors.processes import ProcessPool
from skillopt.harnesses._rollout_budget import RolloutBudget
from skillopt.money import Amount, Budget, Ledger
from skillopt.redact import Scrubber
from skillopt.skill.folder import load_skill

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def pool() -> AsyncIterator[Executor]:
    made = ProcessPool(1)
    yield made
    await made.close()


class Dies:
    """An executor whose workers go away."""

    async def run(self, work: Callable[[], Any]) -> Any:
        raise WorkerLost("simulated")

    async def open(self, make: Callable[[], object]) -> Any:
        raise WorkerLost("simulated")

    async def close(self) -> None:
        """Nothing is there."""


@pytest.mark.slow
async def test_a_rollout_is_the_same_in_a_worker(tmp_path: Path, pool: Executor) -> None:
    folder = tmp_path / "house"
    (folder / "references").mkdir(parents=True)
    (folder / "references" / "more.md").write_text("more")
    (folder / "SKILL.md").write_text("---\nname: house\ndescription: House rules.\n---\n\nRULE\n")
    table = tmp_path / "table.csv"
    table.write_text("a,b\n")
    seed = load_skill(folder)
    for prompt in ("one", "READS-IT", "WRITES"):
        done = [
            await rollout(
                harness(tmp_path, skill=seed, executor=executor),
                prompt,
                skill=seed.document.rendered,
                files=(table,),
            )
            for executor in (None, pool)
        ]
        assert replace(done[0], seconds=None) == replace(done[1], seconds=None)


@pytest.mark.slow
async def test_what_a_worker_brings_back_holds_no_credential(tmp_path: Path, pool: Executor) -> None:
    made = harness(tmp_path, executor=pool, scrub=Scrubber([KEY, "planted-other-secret"]).scrub)
    done = await rollout(made, f"SAYS {KEY} WRITES planted-other-secret")
    shown = repr(done) + "".join(base64.b64decode(one).decode() for one in done.files.values())
    assert KEY not in shown
    assert "planted-other-secret" not in shown


@pytest.mark.slow
async def test_an_unproven_skill_is_paid_and_no_measurement(tmp_path: Path, pool: Executor) -> None:
    ledger = Ledger(Budget(), Journal())
    budget = RolloutBudget(ledger, None, Budget(tokens=1000))
    with pytest.raises(Fault, match="nothing proves"):
        await rollout(harness(tmp_path, executor=pool, rollout_budget=budget), "UNLOADED")
    assert ledger.spent.tokens == 110


async def test_a_lost_worker_is_told_as_such_and_stays_charged(tmp_path: Path) -> None:
    ledger = Ledger(Budget(), Journal())
    budget = RolloutBudget(ledger, None, Budget(tokens=1000, usd=Fraction(1)))
    with pytest.raises(Fault) as caught:
        await rollout(harness(tmp_path, executor=Dies(), rollout_budget=budget), "one", skill=SKILL)
    assert caught.value.kind == "spawn"
    assert ledger.spent == Amount(calls=1, tokens=1000, usd=Fraction(1))


@pytest.mark.slow
async def test_another_version_of_the_program_on_a_node_is_no_measurement(
    tmp_path: Path, pool: Executor
) -> None:
    made = harness(tmp_path, executor=pool)
    made.version = "another"
    with pytest.raises(Fault, match="is not the one of this run"):
        await rollout(made, "one")
