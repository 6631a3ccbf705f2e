"""Promise 7: a credential we loaded is in no file, event, error, prompt or log, wherever it came from and
whoever says it.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from claims._product import (
    Answer,
    Call,
    Document,
    Event,
    Job,
    LoopbackProvider,
    Misbehaviour,
    OwnBenchmark,
    ProviderDown,
    Score,
    SkillError,
    SkillOptError,
    api,
    load,
    open_run,
    prepare,
    world_answers,
)
from claims.promises._providers import QUIET, SIZES, Outage, at, stage_of
from claims.promises._runs import QUICK

IN_FILE = "cfgsecret-Zq9/7+Xw==kk"
IN_ENVIRONMENT = "envsecret_4f0a91bb7c"
IN_DOTENV = "dotsecret.81c2e7d3"
UNUSED = "sk-ant-unused-3c5b9d0e1f2a"
SECRETS = (IN_FILE, IN_ENVIRONMENT, IN_DOTENV, UNUSED)


class Ears:
    """Everything the outside could have heard: requests, events, log records, errors."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.events: list[Event] = []
        self.keys: set[str] = set()
        self.errors: list[str] = []

    def hear(self, call: Call) -> None:
        self.prompts.append(json.dumps(call.body, ensure_ascii=False))
        self.keys.add(call.headers.get("authorization", "").removeprefix("Bearer "))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a `.env`, as the working directory."""
    (tmp_path / ".env").write_text(f"OPENAI_COMPATIBLE_API_KEY={IN_DOTENV}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """All that any library logs, at any level."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.getMessage()} {record.args} {record.exc_info}")

    root, handler = logging.getLogger(), Keep(0)
    before = root.level
    root.addHandler(handler)
    root.setLevel(1)
    yield lines
    root.removeHandler(handler)
    root.setLevel(before)


def job_of(provider: LoopbackProvider, folder: Path, *more: str, **prepared: Any) -> Job:
    """Three endpoints' worth of credentials: the target's in a file, the optimizer's in the environment or
    `.env`, one that nobody uses.
    """
    model = f"compatible:m@{provider.base_url}"
    config = folder / "config.yaml"
    (folder / "sums.md").write_text("# Sums\n\nAdd.\n")
    config.write_text(
        f"model:\n  target:\n    name: {model}\n    api_key: {IN_FILE}\n  optimizer:\n    name: {model}\n"
    )
    environ = {"OPENAI_COMPATIBLE_API_KEY": IN_ENVIRONMENT, "ANTHROPIC_API_KEY": UNUSED}
    options = [
        "env.name=world",
        *SIZES,
        "train.batch_size=16",
        "train.num_epochs=1",
        "output.predictions=true",
        *more,
    ]
    return prepare(load(str(config), flags={}, options=options, environ=environ, cwd=folder), **prepared)


async def run(job: Job, folder: Path, ears: Ears) -> api.Result | None:
    try:
        async with open_run(job, folder, retry=QUICK, sinks=[ears.events.append]) as opened:
            return await api.train(opened)
    except SkillOptError as error:
        ears.errors.append(f"{error} {error!r}")
        return None


def assert_silent(folder: Path, ears: Ears, logged: list[str]) -> None:
    """No secret anywhere; also not split by the database's pages, nor escaped."""
    forms = [
        form
        for secret in SECRETS
        for form in {secret, json.dumps(secret)[1:-1], secret.replace("/", "\\/"), secret.replace("/", "%2F")}
    ]
    heard = {
        "prompt": "\n".join(ears.prompts),
        "event": "\n".join(event.model_dump_json() for event in ears.events) + repr(ears.events),
        "log": "\n".join(logged),
        "error": "\n".join(ears.errors),
    }
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        heard[str(file.relative_to(folder))] = file.read_bytes().decode("utf-8", "replace") + str(
            file.relative_to(folder)
        )
    leaks = [(where, form) for where, text in heard.items() for form in forms if form in text]
    assert not leaks


async def test_keys_from_file_environment_and_dotenv_are_used_and_leave_no_trace(
    place: Path, logged: list[str]
) -> None:
    ears = Ears()

    def answer(call: Call) -> str:
        ears.hear(call)
        return world_answers(QUIET)(call)

    async with LoopbackProvider(answer) as provider:
        result = await run(job_of(provider, place), place / "run", ears)
    assert result is not None
    assert ears.keys == {IN_FILE, IN_ENVIRONMENT}
    assert_silent(place / "run", ears, logged)
    assert (place / "run" / "run.db").stat().st_size > 10_000
    assert (place / "run" / "test_eval" / "predictions").is_dir()


async def test_a_key_from_dotenv_is_used_and_leaves_no_trace(place: Path, logged: list[str]) -> None:
    ears = Ears()

    def answer(call: Call) -> str:
        ears.hear(call)
        return world_answers(QUIET)(call)

    async with LoopbackProvider(answer) as provider:
        model = f"compatible:m@{provider.base_url}"
        options = [
            "env.name=world",
            *SIZES,
            "train.num_epochs=1",
            f"model.target={model}",
            f"model.optimizer={model}",
        ]
        job = prepare(load(None, flags={}, options=options, environ={}, cwd=place))
        assert await run(job, place / "run", ears) is not None
    assert ears.keys == {IN_DOTENV}
    assert_silent(place / "run", ears, logged)


async def test_a_model_that_says_our_keys_is_not_quoted(place: Path, logged: list[str]) -> None:
    """As a proxy that echoes headers would, and an optimizer that writes one into the skill."""
    ears = Ears()

    def echo(call: Call) -> str | Answer:
        ears.hear(call)
        said = world_answers(QUIET)(call)
        if (call.place or "").startswith("rollout/"):
            return Answer(text=f"{said} {IN_FILE} {IN_DOTENV}", output_tokens=20)
        return said.replace('"content": "', f'"content": "{IN_ENVIRONMENT} ')

    async with LoopbackProvider(echo) as provider:
        result = await run(job_of(provider, place, "optimizer.use_slow_update=false"), place / "run", ears)
        assert result is not None
        assert result.best_skill
        assert not any(secret in result.best_skill for secret in SECRETS)
    assert_silent(place / "run", ears, logged)


@pytest.mark.slow
async def test_a_model_that_writes_our_keys_in_another_way_is_not_quoted(
    place: Path, logged: list[str]
) -> None:
    """In base64, hex, capitals, backwards, with a blank of no width; and a key that nobody loaded."""
    not_loaded = "zx81.Qw7-Er5ty_9Uio3p"
    (place / ".env").write_text(f"OPENAI_COMPATIBLE_API_KEY={IN_DOTENV}\nUNRELATED_API_KEY={not_loaded}\n")
    written = [
        base64.b64encode(f"user:{IN_FILE}".encode()).decode(),
        base64.urlsafe_b64encode(IN_DOTENV.encode()).decode(),
        IN_ENVIRONMENT.encode().hex(),
        IN_FILE[::-1],
        IN_ENVIRONMENT.upper(),
        f"{UNUSED[:9]}\u200b{UNUSED[9:]}",
        not_loaded,
    ]
    ears = Ears()

    def echo(call: Call) -> str | Answer:
        said = world_answers(QUIET)(call)
        if (call.place or "").startswith("rollout/"):
            return Answer(text=f"{said} {' '.join(written)}", output_tokens=20)
        return said.replace('"content": "', f'"content": "{" ".join(written[1:])} ')

    async with LoopbackProvider(echo) as provider:
        result = await run(job_of(provider, place, "optimizer.use_slow_update=false"), place / "run", ears)
    assert result is not None
    assert "[redacted]" in result.best_skill
    kept = [
        path.read_bytes().decode("utf-8", "replace") for path in (place / "run").rglob("*") if path.is_file()
    ]
    everywhere = "\n".join((*kept, *ears.errors, *logged, repr(ears.events)))
    assert not [text for text in written[1:] if text in everywhere]
    assert written[0][8:-4] not in everywhere  # its ends belong to the name of the user


@pytest.mark.parametrize("ill", [401, 500])
async def test_an_error_that_quotes_our_key_is_not_passed_on(
    ill: int, place: Path, logged: list[str]
) -> None:
    ears = Ears()
    body = {
        "error": {
            "message": f"Incorrect API key provided: {IN_FILE}, {IN_ENVIRONMENT}, {UNUSED}",
            "type": "invalid",
            "code": None,
        }
    }
    async with LoopbackProvider(
        world_answers(QUIET), behave=Outage(Misbehaviour.status(ill, body=body), at("rollout"))
    ) as provider:
        assert await run(job_of(provider, place), place / "run", ears) is None
    assert "Incorrect API key provided: [redacted]" in ears.errors[0]
    assert_silent(place / "run", ears, logged)


async def test_a_few_lost_rows_with_a_key_in_their_cause_keep_it_quiet(
    place: Path, logged: list[str]
) -> None:
    ears = Ears()
    body = {
        "error": {
            "message": f"cannot serve {IN_ENVIRONMENT} and {UNUSED} now",
            "type": "invalid",
            "code": None,
        }
    }
    outage = Outage(
        Misbehaviour.status(500, body=body),
        lambda call: stage_of(call) == "rollout" and "W000003" in call.text,
    )
    async with LoopbackProvider(world_answers(QUIET), behave=outage) as provider:
        assert await run(job_of(provider, place), place / "run", ears) is not None
    assert outage.hits
    assert_silent(place / "run", ears, logged)


def own(feedback: bool = True) -> OwnBenchmark:
    """Tasks that hold our keys in question, answer, kind and id, and a scorer that quotes them."""

    def scorer(task: Any, answer: str) -> Score:
        right = str(task.reference).split()[0] in answer
        return Score(hard=float(right), soft=float(right), feedback=f"expected {task.reference}")

    rows = {
        split: [
            {
                "id": f"{split}-{n}-{IN_FILE}",
                "question": f"{split} {n}: connect with {IN_ENVIRONMENT} or {IN_DOTENV}. What is {n} + 1?",
                "answer": f"{n + 1} {IN_FILE}",
            }
            for n in range(10)
        ]
        for split in ("train", "val", "test")
    }
    return OwnBenchmark.from_tasks(rows, scorer=scorer)


async def test_a_key_inside_a_task_is_not_sent_and_not_written(place: Path, logged: list[str]) -> None:
    ears = Ears()

    def answer(call: Call) -> str:
        ears.hear(call)
        if (call.place or "").startswith("rollout/"):
            return "7"
        stage = (call.place or "").rsplit("/", 3)[1]
        edits = [{"op": "append", "content": f"- Answer {len(call.text)}."}]
        patch = {"reasoning": "simulated", "edits": edits}
        return json.dumps(
            {"patch": patch} if stage.startswith("analyst") else {**patch, "selected_indices": [0]}
        )

    async with LoopbackProvider(answer) as provider:
        job = job_of(provider, place, "env.skill_init=sums.md", benchmark=own())
        assert await run(job, place / "run", ears) is not None
        assert any("[redacted]" in prompt for prompt in ears.prompts)
        assert_silent(place / "run", ears, logged)
        # taken up again, the same questions are found again although they are kept without the key
        before = provider.calls
        assert await run(job, place / "run", ears) is not None
        assert provider.calls == before


async def test_eval_keeps_keys_quiet_too(place: Path, logged: list[str]) -> None:
    ears = Ears()
    body = {"error": {"message": f"cannot serve {IN_FILE} and {UNUSED}", "type": "invalid", "code": None}}
    outage = Outage(
        Misbehaviour.status(500, body=body), lambda call: call.place is not None and "val 3:" in call.text
    )

    def answer(call: Call) -> str:
        ears.hear(call)
        return f"7 {IN_DOTENV}"

    async with LoopbackProvider(answer, behave=outage) as provider:
        job = job_of(provider, place, "env.skill_init=sums.md", benchmark=own())
        skills = {"mine": Document("# Sums\n\nAdd.\n")}
        results = await api.evaluate(
            job, skills, ["val"], place / "eval", sinks=[ears.events.append], retry=QUICK
        )
    assert results[0].n == 9
    assert_silent(place / "eval", ears, logged)


@pytest.mark.parametrize("secret", SECRETS)
async def test_a_skill_that_holds_a_key_is_refused_before_anything_is_sent(secret: str, place: Path) -> None:
    (place / "skill.md").write_text(f"# Mine\n\nUse {secret} to log in.\n")
    async with LoopbackProvider(world_answers(QUIET)) as provider:
        with pytest.raises(SkillError, match="credential") as refused:
            job_of(provider, place, f"env.skill_init={place / 'skill.md'}")
        assert provider.calls == 0
    if secret != UNUSED:
        assert secret not in str(refused.value)


async def test_a_stopped_run_names_its_cause_without_the_key(place: Path, logged: list[str]) -> None:
    async with LoopbackProvider(world_answers(QUIET), api_key="another-key") as provider:
        job = job_of(provider, place)
        with pytest.raises(ProviderDown) as down:
            async with open_run(job, place / "run", retry=QUICK) as opened:
                await api.train(opened)
    assert "refuses the login" in str(down.value)
    assert not any(secret in str(down.value) for secret in SECRETS)
