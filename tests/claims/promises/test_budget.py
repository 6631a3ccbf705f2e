"""Promise 4: the budget holds as the provider counts it, through everything; and a larger one goes on where
it ended.
"""

from __future__ import annotations

import asyncio
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from claims._product import (
    Amount,
    Answer,
    BudgetSpent,
    Call,
    Checkpoint,
    ConfigError,
    Database,
    Event,
    LoopbackProvider,
    Misbehaviour,
    Notice,
    StageOpened,
    TestMeasured,
    api,
    seeded_latency,
    world_answers,
)
from claims.promises._providers import (
    QUIET,
    SEED_TEXT,
    Outage,
    asked,
    at,
    hash_of,
    options,
    provider_of,
    quiet_run,
    repeated,
    stage_of,
    train,
)
from claims.promises._runs import committed, database_of, events_of, facts, summary, verdicts

PRICES = {"target": (3, 7), "optimizer": (11, 23)}
"""Dollars per million tokens, input and output."""
PRICED = tuple(
    f"model.{role}.price.{way}={price}"
    for role, prices in PRICES.items()
    for way, price in zip(("input", "output"), prices, strict=True)
)
IN_FLIGHT = ("env.workers=24", "gradient.analyst_workers=24")
TESTED = "evaluation.eval_test=true"
"""Also where no better skill was found."""
SLOW = seeded_latency(1, 0.0, 0.02)

CALLS = (1, 7, 12, 20, 36, 50, 80, 101, 125, 400)
TOKENS = (100, 2_000, 5_000, 8_000, 12_000, 18_000, 24_000, 30_000, 40_000, 200_000)
DOLLARS = ("0.001", "0.01", "0.02", "0.03", "0.045", "0.06", "0.09", "0.12", "0.2", "2")


def dollars(provider: LoopbackProvider) -> Fraction:
    """What the provider's log costs."""
    total = Fraction(0)
    for entry in provider.log:
        prices = PRICES["target" if (entry.place or "").startswith("rollout/") else "optimizer"]
        total += Fraction(entry.input_tokens * prices[0] + entry.output_tokens * prices[1], 1_000_000)
    return total


async def spend(provider: LoopbackProvider, folder: Path, *more: str) -> dict[str, Any] | None:
    """Run as far as the budget goes; None when it does not pay for the baseline."""
    try:
        return (await train(provider, folder, *IN_FLIGHT, *more))[1]
    except BudgetSpent as spent:
        assert spent.exit_code == 4
        return None


@pytest.mark.slow
async def test_a_budget_is_usable_and_holds_where_no_usage_is_reported(tmp_path: Path) -> None:
    answers = world_answers(QUIET)

    def answer(call: Call) -> Answer:
        found = answers(call)
        return replace(Answer(text=found) if isinstance(found, str) else found, reports_usage=False)

    async with provider_of(answer=answer) as provider:
        whole_caps = [f"model.{role}.max_tokens=16384" for role in PRICES]
        await spend(provider, tmp_path / "run", "budget=40000 tokens", *whole_caps)
        assert 12_000 < provider.tokens <= 40_000  # as the provider counts them


@pytest.fixture(scope="module")
def ample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that no budget ended."""
    return quiet_run(tmp_path_factory.mktemp("ample"))


def assert_same_result(folder: Path, ample: Path) -> None:
    assert verdicts(folder) == verdicts(ample)
    assert (folder / "best_skill.md").read_bytes() == (ample / "best_skill.md").read_bytes()
    assert summary(folder)["status"] == "finished"


@pytest.mark.parametrize("limit", CALLS)
async def test_a_budget_in_calls_holds_as_the_provider_counts(limit: int, tmp_path: Path) -> None:
    async with provider_of(latency=SLOW) as provider:
        spending = await spend(provider, tmp_path, f"budget.calls={limit}")
        assert provider.calls <= limit
        assert spending is None or provider.calls == spending["calls"]


@pytest.mark.slow
@pytest.mark.parametrize("limit", TOKENS)
async def test_a_budget_in_tokens_holds_as_the_provider_counts(limit: int, tmp_path: Path) -> None:
    async with provider_of(latency=SLOW) as provider:
        spending = await spend(provider, tmp_path, f"budget.tokens={limit}")
        assert provider.tokens <= limit
        assert spending is None or provider.tokens == spending["tokens"]


@pytest.mark.slow
@pytest.mark.parametrize("limit", DOLLARS)
async def test_a_budget_in_dollars_holds_as_the_provider_counts(limit: str, tmp_path: Path) -> None:
    async with provider_of(latency=SLOW) as provider:
        spending = await spend(provider, tmp_path, f"budget.usd={limit}", *PRICED)
        assert dollars(provider) <= Fraction(limit)
        assert spending is None or float(dollars(provider)) == pytest.approx(spending["usd"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "ill",
    [
        Misbehaviour.status(429),
        Misbehaviour.status(500),
        Misbehaviour.half(),
        Misbehaviour.reset(),
        Misbehaviour.odd(),
    ],
    ids=lambda ill: f"{ill.kind}-{ill.code}",
)
async def test_the_budget_holds_while_attempts_fail_and_are_repeated(
    ill: Misbehaviour, tmp_path: Path
) -> None:
    outage = Outage(ill, lambda call: call.attempt == 0 and hash_of(call) % 3 == 0)
    limits = (70, 16_000, Fraction("0.08"))
    async with provider_of(outage, latency=SLOW) as provider:
        spending = await spend(
            provider,
            tmp_path,
            f"budget.calls={limits[0]}",
            f"budget.tokens={limits[1]}",
            "budget.usd=0.08",
            *PRICED,
        )
        assert spending is not None
        assert provider.calls <= limits[0]
        assert provider.tokens <= limits[1]
        assert dollars(provider) <= limits[2]
        assert outage.hits > 3
        assert spending["calls"] == provider.calls
        if ill.kind == "status":  # a refused call costs one call and no tokens
            assert spending["attempts"]["refused"] == outage.hits
            assert spending["tokens"] == provider.tokens
        else:  # the provider bills an answer that was lost on its way; it stays charged at its reservation
            assert spending["attempts"]["unreported"] == outage.hits
            assert spending["tokens"] > provider.tokens


async def test_a_timeout_stays_charged(tmp_path: Path) -> None:
    outage = Outage(
        Misbehaviour.hang(),
        lambda call: call.attempt == 0 and stage_of(call) == "baseline" and hash_of(call) % 4 == 0,
    )
    async with provider_of(outage) as provider:
        _, spending = await train(
            provider, tmp_path, "train.num_epochs=1", "model.target.timeout=1.5", "budget.calls=400"
        )
        assert spending["attempts"]["unreported"] == outage.hits > 0
        assert spending["tokens"] >= provider.tokens


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["calls", "tokens", "usd"])
async def test_raising_the_budget_step_by_step_ends_where_the_larger_one_would_have(
    unit: str, tmp_path: Path, ample: Path
) -> None:
    ladder: dict[str, tuple[Any, ...]] = {"calls": CALLS, "tokens": TOKENS, "usd": DOLLARS}
    async with provider_of(latency=SLOW) as provider:
        counted = {
            "calls": lambda: provider.calls,
            "tokens": lambda: provider.tokens,
            "usd": lambda: dollars(provider),
        }
        for limit in ladder[unit][2:]:
            kept, sent = committed(tmp_path), provider.calls
            await spend(provider, tmp_path, f"budget.{unit}={limit}", *PRICED)
            assert counted[unit]() <= Fraction(limit)
            assert not repeated(asked(provider, since=sent), kept)
            if (tmp_path / "history.json").exists():  # whatever was decided is what the larger budget decides
                assert verdicts(tmp_path) == verdicts(ample)[: len(verdicts(tmp_path))]
    assert_same_result(tmp_path, ample)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [60, 90])
async def test_one_rise_gives_the_result_of_the_larger_budget_from_the_start(
    limit: int, tmp_path: Path, ample: Path
) -> None:
    async with provider_of(latency=SLOW) as provider:
        await spend(provider, tmp_path, f"budget.calls={limit}")
        assert summary(tmp_path)["status"] == "budget"
        await spend(provider, tmp_path, "budget.calls=1000")
    assert_same_result(tmp_path, ample)


@pytest.mark.slow
async def test_an_unlimited_run_may_follow_a_limited_one(tmp_path: Path, ample: Path) -> None:
    async with provider_of(latency=SLOW) as provider:
        await spend(provider, tmp_path, "budget.tokens=9000")
        await spend(provider, tmp_path)
    assert_same_result(tmp_path, ample)


@pytest.mark.slow
async def test_reservations_that_a_dead_process_left_open_stay_charged(tmp_path: Path, ample: Path) -> None:
    """As after `kill -9` with calls in flight: their rows are open, and no answer was kept."""
    async with provider_of() as provider:
        await spend(provider, tmp_path, "budget.calls=40")
        database = Database(tmp_path / "run.db")
        for number in range(10):
            database.open(
                "target", "rollout", f"lost/{number}", Amount(calls=1, tokens=500, usd=Fraction(1, 100))
            )
        database.shut()
        before = provider.calls
        spending = await spend(provider, tmp_path, "budget.calls=60")
        assert spending is not None
        assert spending["calls"] == provider.calls + 10 <= 60
        assert spending["attempts"]["open"] == 10
        assert provider.calls > before


DRIVER = """
import asyncio, sys
from pathlib import Path
from claims.promises._runs import QUICK, make_job
from skillopt import run as api
from skillopt.run import open_run
from skillopt.errors import Stopped

async def main(folder, *options):
    async with open_run(make_job(options), Path(folder), retry=QUICK) as opened:
        await api.train(opened)

try:
    asyncio.run(main(*sys.argv[1:]))
except Stopped as stop:
    sys.exit(stop.exit_code)
"""


@pytest.mark.slow
def test_the_budget_holds_through_kill_9(tmp_path: Path, ample: Path) -> None:
    tests = Path(__file__).resolve().parents[2]
    environment = {"PYTHONPATH": f"{tests}:{tests.parent / 'src'}"}
    limits = (110, 24_000, "0.11")
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    with LoopbackProvider.in_thread(world_answers(QUIET), latency=seeded_latency(2, 0.01, 0.06)) as provider:

        def start(*budget: str) -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    DRIVER,
                    str(tmp_path / "run"),
                    *options(provider, *IN_FLIGHT, *PRICED, *budget),
                ],
                env=environment,
            )

        limited = (f"budget.calls={limits[0]}", f"budget.tokens={limits[1]}", f"budget.usd={limits[2]}")
        for _ in range(4):
            before = provider.calls
            process = start(*limited)
            deadline = time.monotonic() + 20
            wanted = before + dice.randint(1, 25)
            while provider.calls < wanted and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert start(*limited).wait() in (0, 4)
        assert provider.calls <= limits[0], seed
        assert provider.tokens <= limits[1], seed
        assert dollars(provider) <= Fraction(limits[2]), seed
        kept, sent = committed(tmp_path / "run"), provider.calls
        assert start("budget.calls=2000").wait() == 0
        assert not repeated(asked(provider, since=sent), kept)
    assert_same_result(tmp_path / "run", ample)


# The test's share


async def test_what_the_test_needs_is_set_aside_at_baseline_and_pays_for_it_when_the_budget_ends_training(
    tmp_path: Path,
) -> None:
    async with provider_of() as provider:
        result, spending = await train(provider, tmp_path, *IN_FLIGHT, "budget.calls=70", TESTED)
        assert provider.calls <= 70
    assert result.status == "budget"
    assert result.test is not None
    assert result.test.n == 12
    assert result.summary["baseline_test_hard"] is not None
    (baseline,) = [
        event for event in events_of(tmp_path) if isinstance(event, Checkpoint) and event.kind == "baseline"
    ]
    assert baseline.state.set_aside.calls == 33  # 24 rollouts, 30 % on top, one more
    assert spending["stages"]["test"]["calls"] >= 12
    later = [event.state.set_aside for event in events_of(tmp_path) if isinstance(event, Checkpoint)]
    assert set(map(str, later)) == {str(baseline.state.set_aside)}


@pytest.mark.slow
async def test_what_was_set_aside_for_a_test_that_stays_closed_goes_into_training(tmp_path: Path) -> None:
    events: list[Event] = []
    async with provider_of() as provider:
        kept, _ = await train(provider, tmp_path / "tested", *IN_FLIGHT, "budget.calls=70", TESTED)
        sent = provider.calls
        trained, spending = await train(
            provider, tmp_path / "trained", *IN_FLIGHT, "budget.calls=70", sinks=[events.append]
        )
        assert provider.calls - sent == spending["calls"] <= 70
    assert not kept.steps and kept.test is not None
    assert [step.action for step in trained.steps] == ["accept_new_best"]
    assert any(isinstance(event, Notice) and "goes into training" in event.text for event in events)
    assert trained.status == "budget" and "does not pay for the rest of it" in trained.claim


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "named"), [("calls=60", "66 calls"), ("tokens=3500", "tokens"), ("usd=0.015", "$0.0")]
)
async def test_a_test_that_would_take_more_than_half_is_declared_not_measured_before_training(
    budget: str, named: str, tmp_path: Path
) -> None:
    events: list[Event] = []
    async with provider_of() as provider:
        result, spending = await train(
            provider, tmp_path, *IN_FLIGHT, *PRICED, f"budget.{budget}", sinks=[events.append]
        )
    said = next(
        at
        for at, event in enumerate(events)
        if isinstance(event, Notice) and "Test will not be measured" in event.text
    )
    trained = next(
        at for at, event in enumerate(events) if isinstance(event, StageOpened) and event.stage == "rollout"
    )
    assert said < trained
    notice = events[said]
    assert isinstance(notice, Notice)
    assert named in notice.text
    assert result.test is None
    assert "more than half" in result.claim
    assert result.summary["test_hard"] is None
    assert result.summary["baseline_test_hard"] is None
    assert not any(isinstance(event, TestMeasured) for event in events_of(tmp_path))
    assert "test" not in spending["stages"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "cases", "opened"),
    [(1, 12, True), (2, 12, False), (1, 16, False)],
    ids=["enough is left", "nothing was accepted", "too little is left"],
)
async def test_a_test_that_was_too_dear_is_opened_where_training_found_something_and_left_enough(
    world: int, cases: int, opened: bool, tmp_path: Path
) -> None:
    small = ("train.num_epochs=1", "env.val_cases=6", "evaluation.repeats=1", "budget.calls=65")
    sizes = (f"env.train_cases={cases}", f"env.world_seed={world}")
    async with provider_of() as provider:
        result, spending = await train(provider, tmp_path, *IN_FLIGHT, *small, *sizes)
        assert provider.calls == spending["calls"] <= 65
    assert result.status == "finished" and (result.test is not None) is opened
    assert ("than the seed on 12 sealed" if opened else "more than half of the budget") in result.claim
    assert (result.state.best != result.state.seed) is ((world, cases) != (2, 12))


@pytest.mark.slow
async def test_a_run_of_60_cents_ends_with_steps_and_true_words_under_30_and_is_whole_under_70(
    tmp_path: Path,
) -> None:
    """With output caps of 16,384 tokens, two of which would take the smaller budget."""
    caps = ("model.target.max_tokens=16384", "model.optimizer.max_tokens=16384")
    sizes = ("env.train_cases=48", "env.val_cases=24", "env.test_cases=24", "train.batch_size=24")
    dear = (*caps, *sizes, "train.num_epochs=4")
    for role, (read, written) in PRICES.items():
        dear += (f"model.{role}.price.input={read * 0.31}", f"model.{role}.price.output={written * 0.31}")
    async with provider_of() as provider:
        paid, ends = dict[str, float](), dict[str, api.Result]()
        for name, limit in (("whole", None), ("less", 0.3), ("more", 0.7)):
            before = dollars(provider)
            limited = () if limit is None else (f"budget.usd={limit}",)
            result, spending = await train(provider, tmp_path / name, *IN_FLIGHT, *dear, *limited)
            paid[name] = float(dollars(provider) - before) * 0.31
            assert spending["usd"] == pytest.approx(paid[name])
            ends[name] = result
    assert 0.55 < paid["whole"] < 0.65 and 0.2 < paid["less"] <= 0.3 and paid["more"] == paid["whole"]
    assert verdicts(tmp_path / "more") == verdicts(tmp_path / "whole")
    assert ends["more"].status == "finished" and ends["more"].claim == ends["whole"].claim
    less = ends["less"]
    assert less.status == "budget" and "accept_new_best" in [step.action for step in less.steps]
    assert less.test is not None and "better than the seed on 24 sealed test tasks" in less.claim
    # What was left then is not what is left now that the test is paid: the words say what was left beside it.
    why = less.summary["ended_early"]
    assert re.search(r"needs \$0\.0\d+, and \$0\.0\d+ is left beside what is set aside for the test", why)
    assert "calls" not in why, "the end of a run says once what was spent"


@pytest.mark.slow
async def test_the_declared_budget_would_have_paid_for_the_test(tmp_path: Path) -> None:
    async with provider_of() as provider:
        refused, _ = await train(provider, tmp_path / "a", *IN_FLIGHT, "budget.calls=65", TESTED)
        paid, _ = await train(provider, tmp_path / "b", *IN_FLIGHT, "budget.calls=66", TESTED)
    assert refused.test is None
    assert paid.test is not None


@pytest.mark.slow
async def test_a_test_that_the_budget_cannot_complete_is_not_measured_as_a_whole_and_its_rows_are_kept(
    tmp_path: Path, ample: Path
) -> None:
    """Answers are lost on their way, so testing the best skill costs more than was set aside, and training
    left nothing else.
    """
    lossy = Outage(
        Misbehaviour.half(),
        lambda call: stage_of(call) == "test" and SEED_TEXT not in call.text and call.attempt < 2,
        over=True,
    )
    async with provider_of(lossy) as provider:
        plain, spending = await train(provider, tmp_path / "free")
        lossy.over = False
        limit = spending["tokens"] + 300
        short, spending = await train(provider, tmp_path / "short", *IN_FLIGHT, f"budget.tokens={limit}")
        assert lossy.hits
        assert spending["tokens"] <= limit
        assert short.status == "budget"
        assert short.test is None
        assert short.summary["test_hard"] is None
        assert "not measured" in short.claim
        assert verdicts(tmp_path / "short") == verdicts(ample)  # training was complete
        assert not any(isinstance(event, TestMeasured) for event in events_of(tmp_path / "short"))
        kept, sent = committed(tmp_path / "short"), provider.calls
        lossy.over = True
        again, _ = await train(provider, tmp_path / "short", *IN_FLIGHT, "budget.tokens=100000")
        assert not repeated(asked(provider, since=sent), kept)
    assert again.test == plain.test
    assert facts(tmp_path / "short") == facts(tmp_path / "free")


# Money


@pytest.mark.parametrize("role", ["target", "optimizer"])
async def test_dollars_without_a_price_are_refused_before_the_first_call_naming_the_key(
    role: str, tmp_path: Path
) -> None:
    priced = [option for option in PRICED if f"model.{role}." not in option]
    async with provider_of() as provider:
        with pytest.raises(ConfigError, match=rf"model\.{role}\.price"):
            await train(provider, tmp_path / "run", "budget.usd=1", *priced)
        assert provider.calls == 0
    assert not (tmp_path / "run").exists()


async def test_more_than_reserved_is_counted_in_full_and_named_also_after_a_resume(tmp_path: Path) -> None:
    def greedy(call: Call) -> Answer:
        is_greedy = stage_of(call) == "baseline" and "W003004" in call.text
        return Answer(text=world_answers(QUIET)(call), input_tokens=50_000 if is_greedy else None)

    async with provider_of(answer=greedy) as provider:
        for limit in (90_000, 200_000):
            _, spending = await train(
                provider,
                tmp_path,
                "train.num_epochs=1",
                "evaluation.eval_test=false",
                f"budget.tokens={limit}",
            )
            (named,) = summary(tmp_path)["spending"]["more_than_reserved"]
            assert named.startswith("rollout/")
            assert "used 500" in named
            assert spending["tokens"] == provider.tokens > 50_000


async def test_unknown_usage_stays_charged_at_its_reservation_and_is_no_zero(tmp_path: Path) -> None:
    async with provider_of(
        answer=lambda call: Answer(text=world_answers(QUIET)(call), reports_usage=False)
    ) as provider:
        _, spending = await train(provider, tmp_path, "train.num_epochs=1", "budget.tokens=200000")
        assert spending["attempts"] == {"unreported": provider.calls}
        assert spending["tokens"] > provider.tokens
        assert provider.tokens > 0


async def test_with_unknown_usage_the_budget_holds_too(tmp_path: Path) -> None:
    async with provider_of(
        answer=lambda call: Answer(text=world_answers(QUIET)(call), reports_usage=False), latency=SLOW
    ) as provider:
        await spend(provider, tmp_path, "budget.tokens=12000")
        assert 0 < provider.tokens <= 12_000


async def test_the_spending_by_stage_adds_up_to_the_whole(tmp_path: Path) -> None:
    async with provider_of(
        Outage(Misbehaviour.half(), lambda call: call.attempt == 0 and at("rollout")(call))
    ) as provider:
        _, spending = await train(provider, tmp_path, "train.num_epochs=1", *PRICED)
    stages = dict(spending["stages"])
    total = stages.pop("_total")
    assert total["calls"] == spending["calls"] == sum(row["calls"] for row in stages.values())
    assert total["total_tokens"] == spending["tokens"] == sum(row["total_tokens"] for row in stages.values())
    with database_of(tmp_path) as database:
        assert database.execute("SELECT COUNT(*) FROM spending WHERE state = 'open'").fetchone() == (0,)


async def test_without_a_price_the_dollars_are_unknown_and_not_zero(tmp_path: Path) -> None:
    async with provider_of() as provider:
        _, spending = await train(provider, tmp_path, "train.num_epochs=1")
    assert spending["usd"] is None


@pytest.mark.slow
@pytest.mark.parametrize("read", [0, None])
async def test_a_provider_that_reports_no_tokens_cannot_be_overspent(
    read: int | None, tmp_path: Path
) -> None:
    """Zero is what servers say that do not count."""
    sent, world = 0, world_answers()

    def answer(call: Call) -> Answer:
        nonlocal sent
        text = world(call)
        sent += (len(call.text) + len(text)) // 4
        return Answer(text=text, input_tokens=read, output_tokens=read, reports_usage=read is not None)

    async with LoopbackProvider(answer) as provider:
        spending = await spend(provider, tmp_path, "budget.tokens=40000")
    assert 0 < sent <= 40_000
    assert spending is None or spending["attempts"].get("settled", 0) == 0


async def test_minutes_that_were_used_up_by_sessions_that_were_killed_are_used_up(tmp_path: Path) -> None:
    """None of them came to a checkpoint."""
    limited = ("env.workers=1", "budget.minutes=0.03")
    async with provider_of(latency=lambda _: 0.3) as provider:
        ended: BudgetSpent | None = None
        for session in range(1, 20):
            training = asyncio.ensure_future(train(provider, tmp_path, *limited))
            while not training.done() and provider.calls < 3 * session:  # noqa: ASYNC110 - a server in a thread
                await asyncio.sleep(0.01)
            training.cancel()  # as good as a kill: nothing is written at this end
            (result,) = await asyncio.gather(training, return_exceptions=True)
            if isinstance(result, BudgetSpent):
                ended = result
                break
        assert ended is not None
        before = provider.calls
        with pytest.raises(BudgetSpent):
            await train(provider, tmp_path, *limited)
        assert provider.calls == before


@pytest.mark.slow
def test_the_client_library_is_loaded_before_anything_is_reserved(tmp_path: Path) -> None:
    """A process that is killed while it loads has spent nothing."""
    program = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom skillopt.run import open_run, prepare\n"
        "from skillopt.config.load import load\nasync def main():\n"
        " job = prepare(load(None, flags={}, options=sys.argv[2:], environ={}, cwd=Path.cwd()))\n"
        " async with open_run(job, Path(sys.argv[1])) as opened:\n"
        "  print('aiohttp' in sys.modules, opened.ledger.spent.calls)\nasyncio.run(main())"
    )
    model = "compatible:m@http://127.0.0.1:9/v1"
    chosen = ("env.name=world", f"model.target={model}", f"model.optimizer={model}")
    printed = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "run"), *chosen],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed == "True 0\n"
