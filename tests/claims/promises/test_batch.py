"""A run whose baseline and test are asked in batches is the run without them, killed or not, at half the price
of what was in batches.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from _api.batches import BatchProvider, BatchRules, LoggedRow
from claims._product import (
    ConfigError,
    Event,
    Notice,
    ProviderDown,
    Row,
    TestMeasured,
    batched,
    estimate,
    evaluate,
    open_run,
    world_answers,
)
from claims.promises._providers import CAPS, PLAN, QUIET, SIZES, quiet_run
from claims.promises._runs import (
    QUICK,
    database_of,
    events_of,
    make_job,
    public_files,
    run,
    start_process,
    summary,
    verdicts,
)

KEYS = ("model.target.api_key=sk-loopback-0123", "model.optimizer.api_key=sk-loopback-0123")
PRICE = ("model.target.price.input=3", "model.target.price.output=7")
FREE = ("model.optimizer.price.input=0", "model.optimizer.price.output=0")
NAMES = {"openai": "gpt-5.4", "anthropic": "claude-sonnet-4-6"}
VENDORS = pytest.mark.parametrize("vendor", list(NAMES))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched, "QUIET", 0.02)


def options(provider: BatchProvider, vendor: str, *more: str) -> list[str]:
    url = {"openai": provider.base_url, "anthropic": provider.url}[vendor]
    target = f"model.target={vendor}:{NAMES[vendor]}@{url}"
    optimizer = f"model.optimizer=compatible:m@{provider.base_url}"
    return [target, optimizer, *KEYS, *SIZES, *PLAN, *CAPS, *more]


def provider_of(**rules: Any) -> Any:
    return BatchProvider(world_answers(QUIET), batches=BatchRules(**rules))


def sealed_rows(folder: Path) -> list[Any]:
    """What the sealed test measured, without what belongs to one sampling alone."""
    return [
        [(row.task, row.hard, row.invalid) for rows in event.rows.values() for row in rows]
        for event in events_of(folder)
        if isinstance(event, TestMeasured)
    ]


def assert_same_result(folder: Path, other: Path) -> None:
    assert sealed_rows(folder) == sealed_rows(other) != []
    assert [one["action"] for one in verdicts(folder)] == [one["action"] for one in verdicts(other)]
    assert (folder / "best_skill.md").read_bytes() == (other / "best_skill.md").read_bytes()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run without batches."""
    return quiet_run(tmp_path_factory.mktemp("live"))


@pytest.mark.slow
@VENDORS
@pytest.mark.parametrize("batch", ["test", "all"])
async def test_a_run_in_batches_is_the_run_without(
    vendor: str, batch: str, tmp_path: Path, live: Path
) -> None:
    async with provider_of() as provider:
        job = make_job(options(provider, vendor, f"evaluation.batch={batch}", *PRICE, *FREE))
        told_live: list[Event] = []
        await run(job, tmp_path, sinks=[told_live.append])
        log = provider.log
    assert_same_result(tmp_path, live)
    sent = [len(made.rows) for made in provider.batches.made]
    assert sum(sent) == 12 * (3 if batch == "all" else 2)  # val of 12, test of 12 with seed and best
    assert sent[0] == 12
    target = [
        entry for entry in log if isinstance(entry, LoggedRow) or (entry.place or "").startswith("rollout/")
    ]
    usd = [
        (3 * entry.input_tokens + 7 * entry.output_tokens)
        / (2_000_000 if isinstance(entry, LoggedRow) else 1_000_000)
        for entry in target
    ]
    told = summary(tmp_path)["spending"]
    assert told["usd"] == pytest.approx(sum(usd))
    assert told["attempts"] == {"settled": told["calls"]}
    notices = [event.text for event in told_live if isinstance(event, Notice)]
    assert sum("as batch" in text for text in notices) == len(sent)


@pytest.mark.slow
@VENDORS
async def test_a_run_goes_on_with_or_without_batches(vendor: str, tmp_path: Path, live: Path) -> None:
    """What is with the provider is waited for, also by a session that asks for no batches itself."""
    async with provider_of(seconds=3600.0) as provider:
        job = make_job(options(provider, vendor, "evaluation.batch=all"))
        async with open_run(job, tmp_path, retry=QUICK) as opened:
            baseline = asyncio.ensure_future(
                opened.evaluator.measure(
                    job.skill.rendered,
                    Row(task=job.splits.val[0]),
                    stage="selection",
                    batch=True,
                )
            )
            for _ in range(1000):
                if provider.batches.made and "answered" in opened.models.slowed():
                    break
                await asyncio.sleep(0.005)
            baseline.cancel()
            await asyncio.gather(baseline, return_exceptions=True)
        provider.batches.rules = BatchRules()
        await run(make_job(options(provider, vendor)), tmp_path)
        assert [len(made.rows) for made in provider.batches.made] == [1]
    assert_same_result(tmp_path, live)
    assert summary(tmp_path)["spending"]["attempts"] == {"settled": summary(tmp_path)["spending"]["calls"]}


@pytest.mark.slow
@VENDORS
async def test_rows_that_expire_for_good_stop_the_stage_and_are_no_score(vendor: str, tmp_path: Path) -> None:
    async with provider_of(row=lambda call: "expired") as provider:
        job = make_job(options(provider, vendor, "evaluation.batch=all"))
        with pytest.raises(ProviderDown, match="of 12 rows were lost"):
            await run(job, tmp_path)
        assert provider.tokens == 0
        provider.batches.rules = BatchRules()
        await run(job, tmp_path)
    assert summary(tmp_path)["status"] == "finished"


@VENDORS
async def test_eval_measures_in_batches(vendor: str, tmp_path: Path) -> None:
    async with provider_of() as provider:
        for name, batch in (("in batches", "test"), ("one by one", "off")):
            job = make_job(options(provider, vendor, f"evaluation.batch={batch}"))
            (found,) = await evaluate(job, {"seed": job.seed}, ["test"], tmp_path / name, retry=QUICK)
            hard = [row.hard for row in found.rows]
            assert len(hard) == 12 and None not in hard
        assert sum(isinstance(entry, LoggedRow) for entry in provider.log) == 12 == len(provider.log) - 12


@pytest.mark.slow
@VENDORS
def test_a_run_in_batches_that_is_killed_again_and_again_pays_once(
    vendor: str, tmp_path: Path, live: Path
) -> None:
    """`kill -9` at random moments, most of them while a batch is out."""
    chosen = random.Random(7)
    with BatchProvider.in_thread(
        world_answers(QUIET), latency=lambda call: 0.01, batches=BatchRules(seconds=1.5)
    ) as provider:
        said = options(provider, vendor, "evaluation.batch=all", "model.target.hedge=off", *PRICE, *FREE)
        kills = 0
        for _ in range(40):
            process = start_process(tmp_path, said)
            began = time.monotonic()
            wait = chosen.uniform(0.8, 3.0) if kills < 8 else 90.0
            while process.poll() is None and time.monotonic() - began < wait:
                time.sleep(0.02)
            if process.poll() is not None:
                assert process.returncode == 0, process.stderr and process.stderr.read()
                break
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        made = [row["custom_id"] for one in provider.batches.made for row in one.rows]
        texts = [
            str(row.get("params") or row.get("body")) for one in provider.batches.made for row in one.rows
        ]
    assert kills >= 3
    assert_same_result(tmp_path, live)
    assert public_files(tmp_path).keys() == public_files(live).keys()
    assert (
        len(set(made)) == len(made) == len(set(texts)) == 36
    )  # no question twice, however often it was killed
    with database_of(tmp_path) as database:
        assert not database.execute("SELECT 1 FROM meta WHERE name LIKE 'batch %'").fetchall()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["model.target=world"], "no batches with world"),
        (["model.target=tool_loop/anthropic:m"], "several turns"),
        (["gate.max_latency_increase=0.2"], "batch to test"),
    ],
)
def test_what_cannot_be_asked_in_batches_is_refused_before_anything_is_paid(
    more: list[str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        make_job(["model.target=anthropic:m", *KEYS, "evaluation.batch=all", *more])


@pytest.mark.slow
def test_batches_change_no_identity_and_halve_what_is_estimated() -> None:
    def job(*more: str) -> Any:
        return make_job(["model.target=anthropic:m", *KEYS, *SIZES, *PRICE, *FREE, *more])

    assert job().identity() == job("evaluation.batch=all").identity()
    costs = {
        batch: {
            line.stage: line.usd.likely
            for line in estimate(job(f"evaluation.batch={batch}")).lines
            if line.usd
        }
        for batch in ("off", "test", "all")
    }
    assert costs["test"]["test"] == pytest.approx(costs["off"]["test"] / 2)
    assert costs["test"]["baseline"] == costs["off"]["baseline"]
    assert costs["all"]["baseline"] == pytest.approx(costs["off"]["baseline"] / 2)
    assert costs["all"]["gate"] == costs["off"]["gate"]
