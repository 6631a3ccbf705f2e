"""A model's address is part of a measurement: another server is asked itself, unless it is said to be the same."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import skillopt
from _loopback import Call, LoopbackProvider, world_answers
from cli._commands import Ran, run
from skillopt import run as api
from skillopt.config.load import load
from skillopt.config.roles import resolve_role
from skillopt.config.service import plain_address
from skillopt.errors import RunConflict, UsageError
from skillopt.harnesses.port import NotAsked
from skillopt.models import PROVIDERS, provider
from skillopt.models.port import ModelSpec
from skillopt.models.world.rules import SEED_SKILL, WorldRules
from skillopt.run import Job, open_run, prepare
from skillopt.run.addresses import asked_by, at_kept, kept_addresses
from skillopt.run.job import Target, distinct_targets
from skillopt.skill.document import Document

CASES = ("env.train_cases=16", "env.val_cases=12", "env.test_cases=0", "evaluation.repeats=1")
PLAN = ("train.num_epochs=1", "train.batch_size=16", "env.workers=2", "gradient.analyst_workers=2")
QUIET = WorldRules(noise=0.0, seed=6)
SKILL = {"good": Document("# Good\n")}


def wrong(call: Call) -> str:
    return "<answer>unknown</answer>"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seed.md").write_text(SEED_SKILL)
    return tmp_path


@pytest.fixture
def servers() -> Iterator[tuple[LoopbackProvider, LoopbackProvider]]:
    with (
        LoopbackProvider.in_thread(world_answers(QUIET)) as one,
        LoopbackProvider.in_thread(world_answers(QUIET)) as other,
    ):
        yield one, other


def job_of(url: str, *more: str, folder: Path | None = None) -> Job:
    models = [f"model.{role}=compatible:m@{url}" for role in ("target", "optimizer")]
    options = ["env.name=world", *models, *CASES, *PLAN, *more]
    return prepare(load(None, flags={}, options=options, environ={}, cwd=folder or Path.cwd()))


def train(server: LoopbackProvider, *more: str) -> Ran:
    models = [f"--{role}=compatible:m@{server.base_url}" for role in ("target", "optimizer")]
    return run("train", "--env", "world", "--quiet", *models, *more, "--cfg-options", *CASES, *PLAN)


def measure(*arguments: str) -> Ran:
    words = ("eval", "--env", "world", "--split", "val", "--skill", "seed.md", "--json", "--quiet")
    return run(*words, *arguments, "--cfg-options", *CASES)


def known(folder: Path) -> Any:
    """Under which addresses the answers in a folder are kept."""
    with closing(sqlite3.connect(folder / "run.db")) as database:
        return json.loads(*database.execute("SELECT value FROM meta WHERE name = 'addresses'").fetchone())


def places(*servers: LoopbackProvider) -> list[str | None]:
    return [one.place for server in servers for one in server.log]


@pytest.mark.parametrize(
    "url",
    [
        "http://host/v1",
        "http://HOST/v1/",
        "HTTP://host:80/v1",
        "http://name:secret@host/v1",
        "http://host/v1?key=secret",
        " http://host/v1#part",
    ],
)
def test_what_makes_no_other_endpoint_makes_no_other_address(url: str) -> None:
    assert plain_address(url) == "http://host/v1"


def test_scheme_host_port_and_path_each_make_another_address() -> None:
    urls = ("http://h/v1", "https://h/v1", "http://g/v1", "http://h:8/v1", "http://h/v2", "http://h/V1")
    assert len({plain_address(url) for url in (*urls, "http://[::1]:80/v1", "http://[::1]:8/v1")}) == 8
    assert plain_address("https://[::1]:443") == "https://[::1]"


WITH_ADDRESS = [name for name in PROVIDERS.names() if name not in ("handoff", "local", "world")]
CLIS = ("claude_cli", "codex_cli", "copilot_cli")


@pytest.mark.parametrize("name", [name for name in WITH_ADDRESS if name not in CLIS])
def test_every_provider_has_its_address_in_the_fingerprint_except_its_own(name: str) -> None:
    spec = ModelSpec(provider=name, name="m", api_key="sk-of-mine-123", options={})
    urls = (None, *provider(name).urls)
    own = [] if provider(name).needs_url else [provider(name)(replace(spec, base_url=url)) for url in urls]
    assert all("address" not in model.fingerprint for model in own)
    elsewhere = provider(name)(replace(spec, base_url="http://127.0.0.1:9/V1/"))
    assert elsewhere.fingerprint["address"] == "http://127.0.0.1:9/V1"
    assert "sk-of-mine" not in json.dumps(dict(elsewhere.fingerprint))


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("claude_code/anthropic:m", None),
        ("claude_code/anthropic:m@https://API.anthropic.com/v1", None),
        ("claude_code/anthropic:m@http://127.0.0.1:9", "http://127.0.0.1:9"),
        ("http://127.0.0.1:9/run/", "http://127.0.0.1:9/run"),
        ("http://LOCALHOST:80/run", "http://localhost/run"),
    ],
)
def test_an_agent_s_endpoint_counts_like_a_model_s(target: str, address: str | None) -> None:
    options = ["env.name=world", f"model.target={target}", "model.optimizer=world"]
    config = load(None, flags={}, options=options, environ={"ANTHROPIC_API_KEY": "k"}, cwd=Path.cwd()).config
    spec = resolve_role(config, "target")
    assert NotAsked(spec).fingerprint.get("address") == address
    assert NotAsked(spec).fingerprint["model"] == ("service" if target.startswith("http") else "m")


def test_another_server_is_measured_itself_in_a_folder_of_its_own(here: Path) -> None:
    with (
        LoopbackProvider.in_thread(wrong) as first,
        LoopbackProvider.in_thread(world_answers()) as second,
    ):
        found = [
            json.loads(measure("--target", f"compatible:m@{server.base_url}").out)
            for server in (first, second)
        ]
        assert first.calls >= 12 and second.calls >= 12
    scores = [one["evaluations"][0]["hard"] for one in found]
    assert scores[0] == 0 < scores[1]
    assert found[0]["folder"] != found[1]["folder"]


def test_two_servers_are_two_targets_of_one_evaluation(here: Path) -> None:
    with (
        LoopbackProvider.in_thread(wrong) as first,
        LoopbackProvider.in_thread(world_answers()) as second,
    ):
        targets = [f"compatible:m@{server.base_url}" for server in (first, second)]
        ran = measure("--target", targets[0], "--target", targets[1])
    assert [one["target"] for one in json.loads(ran.out)["evaluations"]] == targets
    assert json.loads(ran.out)["evaluations"][0]["hard"] == 0


def test_one_server_is_one_target_however_it_is_written(here: Path) -> None:
    ran = measure(
        "--target", "compatible:m@http://127.0.0.1:9/v1", "--target", "compatible:m@http://127.0.0.1:9/v1/"
    )
    assert ran.code == 2 and "compatible:m is named more than once" in ran.err


def test_an_evaluation_goes_on_elsewhere_only_where_the_model_is_the_same(
    here: Path, servers: tuple[LoopbackProvider, LoopbackProvider]
) -> None:
    one, other = servers
    assert measure("--target", f"compatible:m@{one.base_url}", "--out_root", "out").code == 0
    moved = ("--target", f"compatible:m@{other.base_url}")
    refused = measure(*moved, "--out_root", "out")
    assert refused.code == 2 and one.base_url in refused.err and other.base_url in refused.err
    assert "--same-model" in refused.err
    for more in (("--same-model",), ()):  # the folder remembers that it moved
        assert measure(*moved, "--out_root", "out", *more).code == 0
    assert other.calls == 0


def test_a_default_folder_is_found_again_from_another_address(
    here: Path, servers: tuple[LoopbackProvider, LoopbackProvider]
) -> None:
    one, other = servers
    first = json.loads(measure("--target", f"compatible:m@{one.base_url}").out)
    again = json.loads(measure("--target", f"compatible:m@{other.base_url}", "--same-model").out)
    assert again["folder"] == first["folder"] and other.calls == 0
    nothing = measure("--target", "compatible:m@http://127.0.0.1:9/v1", "--same-model", "--out_root", "new")
    assert nothing.code == 2 and "There is none" in nothing.err


def test_a_stopped_run_goes_on_elsewhere_and_asks_nothing_that_was_paid(
    here: Path, servers: tuple[LoopbackProvider, LoopbackProvider]
) -> None:
    one, other = servers
    assert train(one, "--out_root", "run", "--budget", "9 calls").code == 4
    paid = places(one)
    refused = train(other, "--out_root", "run")
    assert refused.code == 2 and other.calls == 0
    for role in ("target", "optimizer"):
        assert f"{role} compatible:m: {one.base_url} there, {other.base_url} now" in refused.err
    ended = train(other, "--out_root", "run", "--same-model")
    assert ended.code == 0, ended.err
    asked = places(one, other)
    assert other.calls > 0 and len(paid) == 9 and len(asked) == len({*asked})
    with LoopbackProvider.in_thread(world_answers(QUIET)) as undisturbed:
        assert train(undisturbed, "--out_root", "whole").code == 0
    assert Path("run/best_skill.md").read_text() == Path("whole/best_skill.md").read_text()
    before = other.calls
    assert run("train", "run", "--quiet").code == run("eval", "run", "--quiet").code == 0
    assert other.calls == before
    assert run("runs", "prune", "run", "--quiet").code == 0
    assert at_kept(job_of(other.base_url), known(Path("run/pruned"))).addresses["target"] == one.base_url


def test_a_stopped_run_of_another_address_is_named_where_the_folder_is_a_default_one(
    here: Path, servers: tuple[LoopbackProvider, LoopbackProvider]
) -> None:
    one, other = servers
    assert train(one, "--budget", "9 calls").code == 4
    (first,) = Path("outputs").iterdir()
    damaged = Path("outputs") / f"{first.name[:-10]}0123456789"
    damaged.mkdir()
    for name in ("events.jsonl", "run.db"):
        (damaged / name).write_text("nothing of ours\n" * 99)
    ended = train(other, "--budget", "3 calls")
    assert ended.code == 4, ended.err
    assert f"{first.name} is this run at another address" in ended.err
    assert len([*Path("outputs").iterdir()]) == 3


def test_a_corrected_scorer_does_not_hide_that_the_model_moved(
    here: Path, servers: tuple[LoopbackProvider, LoopbackProvider]
) -> None:
    one, other = servers
    assert train(one, "--out_root", "run", "--budget", "9 calls").code == 4
    refused = train(other, "--out_root", "run", "--num_epochs", "2")
    assert refused.code == 2 and "--same-model" in refused.err and not Path("run/earlier").exists()


async def test_python_can_say_that_the_model_is_the_same(tmp_path: Path) -> None:
    how: Any = {
        "benchmark": "world",
        "out": tmp_path,
        "options": {
            "env.val_cases": 6,
            "env.train_cases": 4,
            "env.test_cases": 0,
            "train.num_epochs": 1,
            "evaluation.repeats": 1,
        },
    }
    async with LoopbackProvider(world_answers()) as one, LoopbackProvider(world_answers()) as other:
        models = [f"compatible:m@{server.base_url}" for server in (one, other)]
        await skillopt.aoptimize(target=models[0], optimizer=models[0], **how)
        with pytest.raises(RunConflict, match="--same-model"):
            await skillopt.aoptimize(target=models[1], optimizer=models[1], **how)
        again = await skillopt.aoptimize(target=models[1], optimizer=models[1], same_model=True, **how)
        assert again.status == "finished" and other.calls == 0


async def test_a_run_that_was_begun_before_addresses_counted_goes_on(tmp_path: Path) -> None:
    async with LoopbackProvider(world_answers()) as server:
        job = job_of(server.base_url)
        names = {f"{role} compatible:m": {server.base_url: ""} for role in ("target", "optimizer")}
        async with open_run(at_kept(job, names), tmp_path) as opened:
            await api.train(opened)
        with sqlite3.connect(tmp_path / "run.db") as database:
            database.execute("DELETE FROM meta WHERE name = 'addresses'")
        database.close()
        calls = server.calls
        with pytest.raises(RunConflict, match="an address that was not noted there"):
            kept_addresses(asked_by(job), tmp_path, job.identity())
        kept = kept_addresses(asked_by(job), tmp_path, job.identity(), same_model=True)
        async with open_run(at_kept(job, kept), tmp_path) as opened:
            await api.train(opened)
        assert server.calls == calls


async def test_of_several_targets_the_one_that_moved_is_told(tmp_path: Path) -> None:
    def asked(*urls: str) -> tuple[Job, list[Target]]:
        targets = distinct_targets([Target.of(job_of(url).config) for url in urls])
        return job_of(urls[0]), targets

    async with LoopbackProvider(world_answers()) as one, LoopbackProvider(world_answers()) as other:
        job, targets = asked(one.base_url, other.base_url)
        await api.matrix(job, SKILL, ["val"], tmp_path, targets=targets)
        job, targets = asked(one.base_url, "http://127.0.0.1:9/v1")
        with pytest.raises(RunConflict, match=f"{other.base_url} there, http://127.0.0.1:9/v1 now"):
            kept_addresses(asked_by(job, targets), tmp_path, {})
        kept = kept_addresses(asked_by(job, targets), tmp_path, {}, same_model=True)
        moved = distinct_targets([at_kept(target, kept) for target in targets])
        assert [target.digest for target in moved] == [
            target.digest for target in asked(one.base_url, other.base_url)[1]
        ]
        job, targets = asked("http://127.0.0.1:8/v1", "http://127.0.0.1:9/v1")
        with pytest.raises(UsageError, match="cannot tell which address"):
            kept_addresses(asked_by(job, targets), tmp_path, {}, same_model=True)


def test_a_service_of_one_s_own_is_refused_elsewhere_like_a_model(tmp_path: Path) -> None:
    def identity(url: str) -> dict[str, Any]:
        options = ["env.name=world", f"model.target={url}", "model.optimizer=world"]
        return prepare(load(None, flags={}, options=options, environ={}, cwd=tmp_path)).identity()

    one, other = identity("http://127.0.0.1:8/run"), identity("http://127.0.0.1:9/run")
    assert one["model"]["target"] == {**other["model"]["target"], "address": "http://127.0.0.1:8/run"}
