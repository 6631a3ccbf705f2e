"""Every configuration key does something: it changes a request, a plan, a file, a figure or an error - not
merely the printed tree.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import pickle
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from _comparable import comparable
from _loopback import Answer, Call, LoopbackProvider, world_answers
from config._spec_keys import SPEC_KEYS
from skillopt.config.keys import describe
from skillopt.config.load import load
from skillopt.errors import SkillOptError
from skillopt.events import Event
from skillopt.models.stack.limited import Retry
from skillopt.models.world.rules import FAMILIES, SEED_SKILL, code_of, family_of
from skillopt.run import open_run, prepare, train

BASE = {
    "env.name": "world",
    "env.train_cases": 12,
    "env.val_cases": 6,
    "env.test_cases": 4,
    "train.num_epochs": 2,
    "train.batch_size": 6,
    "gradient.minibatch_size": 2,
    "gradient.merge_batch_size": 2,
    "evaluation.repeats": 1,
    "model.target.name": "compatible:t@URL",
    "model.optimizer.name": "compatible:o@URL",
}
SHORT = {
    **BASE,
    "env.train_cases": 6,
    "env.val_cases": 4,
    "env.test_cases": 2,
    "train.num_epochs": 1,
}
OWN = {
    **{key: value for key, value in BASE.items() if not key.startswith("env.")},
    "env.name": "own",
    "env.data_path": "tasks.jsonl",
    "env.scorer": "contains",
    "env.skill_init": "seed.md",
    "train.folds": 1,
}


@dataclass
class Seen:
    """What a run did to the world outside."""

    requests: Counter[str] = field(default_factory=Counter)
    keys: Counter[str] = field(default_factory=Counter)
    urls: Counter[str] = field(default_factory=Counter)
    events: list[Any] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    error: str = ""
    spending: Any = None
    in_flight: int = 0

    def channel(self, name: str) -> Any:
        return getattr(self, name)

    def already_differs(self, plain: Seen, channel: str) -> bool:
        """Whether nothing that the run may still do can make this channel equal to that of the finished
        `plain` run.
        """
        now, then = self.channel(channel), plain.channel(channel)
        if channel in ("requests", "keys", "urls"):
            return bool(now - then)
        return channel == "events" and now != then[: len(now)]


def files_for(folder: Path) -> None:
    cases = [f"W00{number:04d}" for number in range(20)]
    rules = [rule for pair in FAMILIES.values() for rule in pair]
    rows = [
        {
            "id": f"i{n}",
            "nr": f"n{n}",
            "prompt": f"Case {case}, {family_of(case)}",
            "other": f"Other case {case}",
            "answer": code_of(case),
            "alt": "nothing",
            "topic": "x",
            "part": ("train", "val", "test")[n % 3],
            "note": rules[n % len(rules)],
        }
        for n, case in enumerate(cases)
    ]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    held_out = [{**rows[0], "id": f"h{n}", "prompt": f"Case W0001{n:02d}, held out"} for n in range(4)]
    (folder / "held_out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in held_out))
    (folder / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:18]))
    for split, part in (("train", rows[:10]), ("val", rows[10:15]), ("test", rows[15:])):
        (folder / "splits" / split).mkdir(parents=True)
        (folder / "splits" / split / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    (folder / "prompts").mkdir()
    (folder / "prompts" / "analyst_failure.md").write_text(
        'Say in JSON what went wrong: {"patch": {"edits": []}}.'
    )
    (folder / "seed.md").write_text(SEED_SKILL)
    (folder / "house").mkdir()
    (folder / "house" / "SKILL.md").write_text(SEED_SKILL)
    (folder / "other.md").write_text(SEED_SKILL + "- Name the unit after every number.\n")
    (folder / "graded.py").write_text(
        "def grade(task, answer):\n    return 0.5 if task.reference in answer else 0.25\n"
    )


def answer(call: Call) -> Answer:
    text = judgement(call) if (call.place or "").startswith("judge/") else world_answers()(call)
    return Answer(
        text=text, cached=min(10, len(call.text) // 8), reports_usage=call.body.get("model") != "silent"
    )


def judgement(call: Call) -> str:
    """A judge that looks for the reference in the answer."""
    reference, work = (
        call.text.partition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0] for tag in ("reference", "work")
    )
    met = reference in work
    return json.dumps({"findings": [{"criterion": 1, "evidence": reference if met else work, "met": met}]})


async def observe(
    settings: Mapping[str, Any],
    folder: Path,
    *,
    latency: float = 0.0,
    plain: Seen | None = None,
    channel: str = "",
) -> Seen:
    """One run with these settings, and all that it did. The run ends as soon as `channel` differs from that
    of `plain`.
    """
    seen = Seen()
    enough = asyncio.Event()

    def note(event: Event | None = None) -> None:
        if event is not None and event.id is not None and event.type != "run_started":
            seen.events.append(comparable(event))
        if plain is not None and seen.already_differs(plain, channel):
            enough.set()

    def answering(call: Call) -> Answer:
        seen.requests[json.dumps(call.body, sort_keys=True)] += 1
        seen.keys[str(call.headers.get("Authorization"))] += 1
        note()
        return answer(call)

    async with (
        LoopbackProvider(answering, latency=lambda call: latency) as one,
        LoopbackProvider(lambda call: (seen.urls.update(["two"]), answering(call))[1]) as two,
    ):
        text = [f"{key}={_written(value, one, two)}" for key, value in settings.items()]
        before = {path for path in folder.rglob("*") if path.is_file()}
        try:
            resolved = load(None, flags={}, options=text, environ={}, cwd=folder)
            job = prepare(resolved)
            out = job.folder(folder)
            retry = Retry(attempts=1, seconds=1, first_delay=0.01)
            async with open_run(job, out, sinks=[note], retry=retry) as opened:
                training = asyncio.ensure_future(train(opened))
                waiting = asyncio.ensure_future(enough.wait())
                await asyncio.wait({training, waiting}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if not training.done():
                    training.cancel()
                    with suppress(asyncio.CancelledError):
                        await training
                    return seen
                spending = training.result().summary["spending"]
                seen.spending = {key: spending[key] for key in ("calls", "tokens", "usd")}
        except SkillOptError as error:
            seen.error = str(error).replace(str(folder), "").replace(one.url, "ONE").replace(two.url, "TWO")
        seen.in_flight = max(one.max_in_flight, two.max_in_flight)
    seen.files = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path not in before
    }
    return seen


def _written(value: Any, one: LoopbackProvider, two: LoopbackProvider) -> str:
    return (
        str(value).replace("TWOURL", two.base_url).replace("URL", one.base_url)
        if isinstance(value, str)
        else json.dumps(value)
    )


def case(
    key: str, value: Any, channel: str, base: Mapping[str, Any] = BASE, latency: float = 0.0, **extra: Any
) -> Any:
    """Set one key beside a base (and what both sides need) and say where the difference must show."""
    settings = {**base, **{name.replace("__", "."): item for name, item in extra.items()}}
    marks = [pytest.mark.slow]
    return pytest.param(key, value, channel, settings, latency, id=key, marks=marks)


LONGER = {**BASE, "env.train_cases": 24, "env.val_cases": 20, "train.batch_size": 12, "train.num_epochs": 3}
PROOF = {
    **{**LONGER, "train.strategy": "proof", "env.train_cases": 40, "env.val_cases": 30},
    **{
        "train.proof.control": 4,
        "model.optimizer.name": "world:harm=0.9",
        "model.target.name": "world:noise=0.1",
    },
}
DOLLARS = {
    "model.target.price.input": 1.0,
    "model.target.price.output": 2.0,
    "model.optimizer.price.input": 1.0,
    "model.optimizer.price.output": 2.0,
}
PRICED = {**SHORT, **DOLLARS}
JUDGE_DOLLARS = {"model.judge.price.input": 1.0, "model.judge.price.output": 2.0}
BARE = {
    **BASE,
    "model.target.name": "t",
    "model.optimizer.name": "o",
    "model.target.base_url": "URL",
    "model.optimizer.base_url": "URL",
}
BARE |= {"model.target_backend": "compatible", "model.optimizer_backend": "compatible"}
ROLES = [
    *(case(f"model.{role}.name", "compatible:another@URL", "requests") for role in ("optimizer", "target")),
    *(
        case(
            f"model.{role}.base_url",
            "TWOURL",
            "urls",
            {**SHORT, f"model.{role}.name": "compatible:x", f"model.{role}.base_url": "URL"},
        )
        for role in ("optimizer", "target")
    ),
    *(case(f"model.{role}.api_key", "planted-role-key", "keys") for role in ("optimizer", "target")),
    *(
        case(f"model.{role}.{knob}", value, "requests")
        for role in ("optimizer", "target")
        for knob, value in (
            ("temperature", 0.3),
            ("top_p", 0.9),
            ("seed", 7),
            ("reasoning_effort", "low"),
            ("max_tokens", 2000),
        )
    ),
    *(
        case(
            f"model.{role}.timeout",
            0.05,
            "error",
            latency=0.4,
            **{"env__train_cases": 2, "env__val_cases": 6, "env__test_cases": 0},
        )
        for role in ("optimizer", "target")
    ),
    case("model.optimizer.structured_output", "off", "requests"),
    case(
        "model.optimizer.context_window",
        18_000,
        "requests",
        {**OWN, "env.prompt": "{prompt} " + "padding " * 4_000},
    ),
    *(
        case(f"model.{role}.price.{part}", 99.0, "spending", PRICED)
        for role in ("optimizer", "target")
        for part in ("input", "output", "cached")
    ),
]
JUDGED = {**OWN, "env.scorer": "judge", "env.limit": 5, "model.judge.name": "compatible:j@URL"}
JUDGED["train.num_epochs"] = 1
JUDGE = [
    case("model.judge.name", "compatible:another@URL", "requests", JUDGED),
    case(
        "model.judge.base_url",
        "TWOURL",
        "urls",
        {**JUDGED, "model.judge.name": "compatible:x", "model.judge.base_url": "URL"},
    ),
    case("model.judge.api_key", "planted-judge-key", "keys", JUDGED),
    *(
        case(f"model.judge.{knob}", value, "requests", JUDGED)
        for knob, value in (
            ("temperature", 0.3),
            ("top_p", 0.9),
            ("seed", 7),
            ("reasoning_effort", "low"),
            ("max_tokens", 2000),
        )
    ),
    case("model.judge.structured_output", "off", "requests", JUDGED),
    case("model.judge.timeout", 0.05, "error", JUDGED, latency=0.4, env__limit=2),
    *(
        case(f"model.judge.price.{part}", 99.0, "spending", {**JUDGED, **DOLLARS, **JUDGE_DOLLARS})
        for part in ("input", "output", "cached")
    ),
]
AWARE = {**BASE, "optimizer.use_skill_aware_reflection": True}
REWRITING = {**BASE, "optimizer.skill_update_mode": "rewrite_from_suggestions"}
CASES = [
    *ROLES,
    *JUDGE,
    case(
        "model.backend",
        "anthropic",
        "error",
        {key: value for key, value in BARE.items() if "_backend" not in key},
        model__backend="compatible",
    ),
    case("model.optimizer_backend", "nowhere", "error", BARE),
    case("model.target_backend", "openai", "error", BARE),
    case("model.reasoning_effort", "high", "requests"),
    case("train.num_epochs", 1, "events"),
    case("train.folds", 2, "events", OWN),
    case("train.train_size", 5, "error"),
    case("train.batch_size", 4, "events"),
    case("train.accumulation", 2, "events"),
    case("train.seed", 1, "events"),
    case("train.patience", 1, "events", train__num_epochs=4),
    case("train.strategy", "proof", "events"),
    case("train.proof.batch", 20, "events", PROOF),
    case("train.proof.rows", 1, "events", PROOF),
    case("train.proof.depth", 1, "events", PROOF),
    case("train.proof.control", 0, "events", PROOF),
    case("train.proof.blame_from", 1, "events", PROOF),
    case("train.proof.blame_rows", 2, "events", PROOF),
    case("train.proof.prune", False, "events", PROOF),
    case("train.proof.remaining", 1, "events", {**PROOF, "model.target.name": "world"}),
    case("train.proof.confirm", False, "events", PROOF),
    case("model.optimizer.prompts", "small", "events", PROOF),
    case("gradient.minibatch_size", 3, "requests"),
    case("gradient.merge_batch_size", 3, "requests", **{"gradient__minibatch_size": 1}),
    case(
        "gradient.analyst_workers",
        1,
        "in_flight",
        SHORT,
        env__workers=1,
        gradient__minibatch_size=1,
        latency=0.03,
    ),
    case("gradient.failure_only", True, "requests"),
    case("gradient.rollouts_per_task", 2, "requests"),
    case("optimizer.learning_rate", 2, "requests"),
    case("optimizer.min_learning_rate", 4, "events"),
    case("optimizer.lr_scheduler", "constant", "events"),
    case("optimizer.use_slow_update", False, "requests", LONGER),
    case("optimizer.slow_update_samples", 2, "requests", LONGER),
    case("optimizer.use_meta_skill", False, "requests", LONGER, train__num_epochs=4),
    case("optimizer.lr_control_mode", "none", "requests"),
    case("optimizer.skill_update_mode", "rewrite_from_suggestions", "requests"),
    case("optimizer.slow_update_gate_with_selection", False, "events", LONGER),
    case("optimizer.longitudinal_pair_policy", "unchanged", "events", LONGER),
    case("optimizer.skip_unchanged_epochs", False, "requests", LONGER, train__num_epochs=6),
    case("optimizer.use_skill_aware_reflection", True, "requests"),
    case("optimizer.skill_aware_appendix_source", "failure_only", "requests", AWARE),
    case("optimizer.skill_aware_consolidate_threshold", 1, "requests", AWARE),
    # Only a bundle that is clearly worse is halved, and it takes a longer run to meet one.
    case(
        "optimizer.salvage",
        False,
        "events",
        {**LONGER, "env.train_cases": 40, "env.val_cases": 30, "train.batch_size": 10},
    ),
    case("optimizer.prune", True, "events", LONGER),
    case("model.rewrite_reasoning_effort", "high", "requests", REWRITING),
    case("model.rewrite_max_completion_tokens", 5000, "requests", REWRITING),
    case("gate.alpha", 0.9, "events", {**SHORT, "gate.policy": "paired"}),
    case("gate.max_chars", 5, "events", {**SHORT, "gate.policy": "size_capped"}),
    case("gate.confirm_draws", 3, "events", {**SHORT, "gate.policy": "confirm"}),
    case("gate.max_tokens_increase", 0, "events", LONGER),
    case("gate.max_latency_increase", 0, "events", LONGER),
    case(
        "gate.unknown_effort",
        "allow",
        "events",
        {**BASE, "model.target.name": "compatible:silent@URL", "gate.max_tokens_increase": 5},
    ),
    case("gate.leak_guard", False, "events", {**OWN, "env.prompt": "{prompt}. {note}"}),
    case("evaluation.use_gate", False, "events"),
    case("evaluation.gate_metric", "soft", "events"),
    case(
        "evaluation.gate_mixed_weight",
        0.9,
        "events",
        {**OWN, "env.scorer": "graded.py:grade"},
        evaluation__gate_metric="mixed",
    ),
    case("evaluation.sel_env_num", 3, "events"),
    case("evaluation.test_env_num", 2, "events"),
    case("evaluation.eval_test", False, "events"),
    case("evaluation.repeats", 2, "events"),
    case("env.name", "serchqa", "error"),
    case("env.skill_init", "other.md", "requests", OWN),
    case("env.out_root", "elsewhere", "files", SHORT),
    case("env.workers", 1, "in_flight", SHORT, latency=0.01),
    case(
        "env.exec_timeout",
        0.05,
        "error",
        latency=0.4,
        env__train_cases=2,
        env__val_cases=6,
        env__test_cases=0,
    ),
    case("gate.policy", "lenient", "error"),
    case("budget.usd", 0.0001, "error", PRICED),
    case("budget.tokens", 100, "error"),
    case("budget.calls", 3, "error"),
    case("budget.minutes", 0.00001, "error"),
    case("skill.references", True, "requests", {**OWN, "env.skill_init": "house"}),
    case("skill.scripts", True, "requests", {**OWN, "env.skill_init": "house"}),
    case("cache.path", "shared.db", "files", SHORT),
    case("output.predictions", True, "files", SHORT),
    case("store.tasks", False, "files", SHORT),
    case("env.train_cases", 6, "events"),
    case("env.val_cases", 5, "events"),
    case("env.test_cases", 3, "events"),
    case("env.world_seed", 1, "requests"),
    case("env.split_mode", "split_dir", "error", OWN),
    case("env.split_ratio", "3:1:1", "events", OWN),
    case("env.split_seed", 1, "events", OWN),
    case("env.split_field", "part", "events", OWN),
    case("env.split_dir", "splits", "events", OWN),
    case("env.data_path", "more.jsonl", "events", OWN),
    case("env.limit", 3, "events", OWN),
    case("env.test_path", "held_out.jsonl", "events", OWN),
    case("env.prompt", "{other}", "requests", OWN),
    case("env.scorer", "numeric", "events", OWN),
    case("env.pass_at", 0.5, "events", {**OWN, "env.scorer": "graded.py:grade"}),
    case("env.scorer_options", '{"tolerance": 1}', "error", {**OWN, "env.scorer": "exact_match"}),
    case("env.graded", False, "events", {**OWN, "env.scorer": "graded.py:grade"}),
    case("env.id_field", "nr", "events", OWN),
    case("env.reference_field", "alt", "events", OWN),
    case("env.kind_field", "topic", "requests", OWN),
    case("env.system", "Short. {skill}", "requests", OWN),
    case("env.prompts", "prompts", "requests", {**OWN, "train.strategy": "paper"}),
    case("tracking.use", "tensorboard", "files", SHORT),
]


def run_in(folder: Path, settings: Mapping[str, Any], latency: float, **until: Any) -> Seen:
    folder.mkdir(parents=True)
    files_for(folder)
    return asyncio.run(observe(settings, folder, latency=latency, **until))


@pytest.fixture(scope="session")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Seen]:
    """Runs of the bases. Most cases share one, so each is made once, also where several workers share the
    tests.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    kept = shared / "live-keys"
    kept.mkdir(exist_ok=True)
    read: dict[str, Seen] = {}

    def of(base: Mapping[str, Any], latency: float) -> Seen:
        name = hashlib.sha256(json.dumps([base, latency]).encode()).hexdigest()[:16]
        if name not in read:
            with (kept / f"{name}.pickle").open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.seek(0)
                text = file.read()
                if not text:
                    text = pickle.dumps(run_in(kept / name, base, latency))
                    file.write(text)
            read[name] = pickle.loads(text)
        return read[name]

    return of


@pytest.mark.parametrize(("key", "value", "channel", "base", "latency"), CASES)
def test_the_key_changes_something_outside(key, value, channel, base, latency, tmp_path, plain_run):
    plain = plain_run(base, latency)
    settings = {**base, key: value}
    changed = run_in(tmp_path / "changed", settings, latency, plain=plain, channel=channel)
    assert plain.error == ""
    assert plain.channel(channel) != changed.channel(channel)
    if channel != "error":
        assert changed.error == ""


def test_no_key_is_left_out():
    told = {row.key for name in (None, "world", "own", "searchqa") for row in describe(name)}
    agents_only = {
        "budget.per_rollout.usd",
        "budget.per_rollout.tokens",
    }  # followed in tests/harnesses/test_per_rollout.py
    trackers_only = {
        f"tracking.{key}" for key in ("project", "mlflow.uri", "wandb.mode", "otel.endpoint", "texts")
    }  # in tests/trackers
    elsewhere = {f"model.{role}.hedge" for role in ("target", "optimizer", "judge")}  # in promises/test_hedge
    elsewhere.add("model.target.context_window")  # in cli/test_explain
    elsewhere.add("train.ahead")  # in train/test_ahead
    elsewhere |= {"cache.shared", "cache.limit_mb"}  # in run/test_sharing
    elsewhere.add("env.executor")  # in harnesses/test_elsewhere and real/test_ray
    elsewhere.add("evaluation.check_baseline")  # in cli/test_try
    # In promises/test_prompt_cache: only the Messages API tells what was written to its cache.
    elsewhere |= {f"model.{role}.price.cache_write" for role in ("target", "optimizer", "judge")}
    # In run/test_description.py.
    elsewhere |= {
        f"triggers.{key}" for key in ("path", "split_ratio", "others", "skills", "listed_as", "drafts")
    }
    elsewhere.add("train.part")
    elsewhere.add("gate.veto_only")  # in gate/test_policies.py and night/test_gamed_edits.py
    elsewhere |= {"model.targets", "gate.targets"}  # in run/test_several_targets.py
    # In train/test_proposer.py; a proposer is built as a target is, from the same settings.
    elsewhere |= {"train.proposer", *(key for key in told if key.startswith("model.proposer."))}
    # Those of SPEC_KEYS are followed in test_provider_keys.py.
    cases = {parameter.id for parameter in CASES}
    assert told == cases | set(SPEC_KEYS) | agents_only | trackers_only | elsewhere
