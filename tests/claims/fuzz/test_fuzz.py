"""Whatever others write is read, or refused in the way that its reader says: no other error, no hang.

`make test` tries a few inputs each, `make fuzz` a hundred thousand.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

from changes._adoption import World
from claims._product import (
    PROVIDERS,
    SPLITS,
    SWITCHES,
    ConfigError,
    Document,
    Homes,
    Message,
    ModelError,
    ModelSpec,
    NightProposal,
    NightSettings,
    Reply,
    Request,
    SkillError,
    TaskError,
    Toolbox,
    Unusable,
    Usage,
    UsageError,
    app,
    apply,
    benchmarks,
    harvest,
    load,
    load_skill,
    parse_edit,
    read,
    read_settings,
    read_tasks,
    redact_transcript,
    replies,
    source,
    violations,
)
from claims.fuzz._inputs import FRAGMENTS, as_bytes, broken, some_json, spoilt, torn, tried, written
from night._transcripts import WRITERS, Talk

SKILL = "---\nname: notes\ndescription: Writes notes.\n---\n# Notes\n\n- Be short.\n\n```sh\nmake\n```\n"
EDITS = [
    {"op": "append", "content": "- Name the version.", "tasks": ["1"]},
    {"op": "insert_after", "target": "# Notes", "content": "x", "path": "references/a.md"},
    {"op": "replace", "target": "- Be short.", "content": "- Be brief."},
    {"op": "delete", "target": "- Be short."},
]
ANALYSIS = {
    "batch_size": 2,
    "failure_summary": [{"failure_type": "x", "count": 1, "description": "y"}],
    "patch": {"reasoning": "r", "edits": EDITS},
}
SHAPES = {
    replies.Edits: {"edits": EDITS, "reasoning": "r"},
    replies.NamedEdits: {"edits": EDITS},
    replies.WrittenSkill: {"new_skill": SKILL, "changes": [{"words": "short", "tasks": ["1"]}]},
    replies.Ranking: {"ranking": [0, 1], "selected_indices": [0], "reasoning": "r"},
    replies.SlowUpdate: {"guidance": "- x", "slow_update_content": "x", "reasoning": "r"},
    replies.MetaSkill: {"meta_skill": "x", "meta_skill_content": "x"},
}
CONFIG = "model:\n  target: openai:gpt-5.4-mini\n  optimizer: world\nenv:\n  name: own\n  data_path: t.jsonl\ntrain:\n  batch_size: 8\n"
NIGHT = {"model": "openai:m", "lookback_hours": 12, "skill_roots": ["~/x"], "gate_mode": "on", "options": {}}
ROWS = [
    {"id": "t1", "question": "2 + 2?", "answer": "4"},
    {"id": "t2", "question": "3 + 3?", "answer": ["6"]},
]
TASKS = {
    "format": "skillopt_sleep.tasks.v1",
    "reviewed": True,
    "tasks": [
        {
            "id": f"t{n}",
            "intent": f"Write a brief on {n}.",
            "split": "train",
            "judge": {"checks": [{"op": "contains", "arg": "x"}]},
        }
        for n in range(2)
    ],
}
USED = Usage(input_tokens=1, output_tokens=1)
ANSWERS: dict[str, Mapping[str, Any]] = {
    "compatible": {
        "id": "a",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "4"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    },
    "openai": {
        "id": "r",
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "4"}]}],
        "usage": {"input_tokens": 3, "output_tokens": 1},
    },
    "anthropic": {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "4"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 1},
    },
}
MODELS = {"compatible": "m", "openai": "gpt-5.5", "anthropic": "claude-sonnet-4-5"}
T = TypeVar("T")


def refused(kind: type[Exception], work: Callable[[], T]) -> T | None:
    """What the work gives, or None where it says no in the way it should: with words."""
    try:
        return work()
    except kind as error:
        assert str(error).strip()
        return None


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """One folder for all inputs of a test; each input writes over the one before."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as made:
        yield Path(made)


def test_edits() -> None:
    def work(dice: Random) -> None:
        document = refused(SkillError, lambda: Document(broken(dice, SKILL)))
        proposed = [
            dice.choice((spoilt(dice, dice.choice(EDITS)), some_json(dice))) for _ in range(dice.randrange(5))
        ]
        edits = [refused(SkillError, partial(parse_edit, one, f"e{n}")) for n, one in enumerate(proposed)]
        if document is not None:
            found = apply([edit for edit in edits if edit is not None], document)
            # What is appended to a document that ends with its frontmatter begins on a new line.
            assert found.document.frontmatter.rstrip("\n") == document.frontmatter.rstrip("\n")

    tried(work)


def test_replies() -> None:
    def work(dice: Random) -> None:
        shape = dice.choice(list(SHAPES))
        text = written(dice, SHAPES[shape])
        refused(Unusable, lambda: read(Reply(text=text, finish="stop", usage=USED), shape))

    tried(work)


def test_json() -> None:
    def work(dice: Random) -> None:
        frame = dice.choice(("{}", "```json\n{}\n```", "{}\n{}", "So: {}, and so on"))
        text = frame.replace("{}", dice.choice(FRAGMENTS) + written(dice, ANALYSIS))
        refused(Unusable, lambda: read(Reply(text=text, finish="stop", usage=USED), replies.Analysis))

    tried(work)


def test_skill_files(folder: Path) -> None:
    path = folder / "notes" / "SKILL.md"
    path.parent.mkdir(exist_ok=True)

    def work(dice: Random) -> None:
        data = torn(dice, SKILL.encode())
        path.write_bytes(data)
        skill = refused(SkillError, lambda: load_skill(path.parent))
        if skill is not None:
            assert skill.document.text.encode() == data
            violations(skill.document.text, "notes")

    tried(work)


def test_configurations(folder: Path) -> None:
    path = folder / "c.yaml"

    def work(dice: Random) -> None:
        path.write_bytes(torn(dice, CONFIG.encode()))
        refused(UsageError, lambda: load(str(path), flags={}, options=[], environ={}, cwd=folder))

    tried(work)


def test_settings_of_nights(folder: Path) -> None:
    path = folder / "config.json"

    def work(dice: Random) -> None:
        path.write_bytes(as_bytes(written(dice, NIGHT)))
        refused(ConfigError, lambda: read_settings(path))

    tried(work)


def test_task_files(folder: Path) -> None:
    plugin = benchmarks.get("own")
    rest = "".join("\n" + json.dumps({**ROWS[0], "id": n, "question": f"{n}?"}) for n in range(4))
    table = "id,question,answer\nt1,2 + 2?,4\n"

    def work(dice: Random) -> None:
        path = folder / dice.choice(("a.jsonl", "a.json", "a.csv"))
        text = dice.choice((written(dice, ROWS[0]), written(dice, ROWS), broken(dice, table)))
        path.write_bytes(as_bytes(text + dice.choice(("", rest))))
        scorers = ("exact_match", "numeric", "json_equal", "regex", "checks", "multiple_choice", "judge")
        asked = plugin.Settings(data_path=path, scorer=dice.choice(scorers))
        made = refused(TaskError, lambda: plugin(asked))
        for split in SPLITS if made is not None else ():
            for task in made.tasks(split):  # type: ignore[union-attr]
                assert task.content_hash and task.full_hash

    tried(work)


def test_task_files_of_nights(folder: Path) -> None:
    path = folder / "tasks.json"

    def work(dice: Random) -> None:
        path.write_bytes(as_bytes(written(dice, TASKS)))
        refused(UsageError, lambda: read_tasks(path, project="/p", settings=NightSettings()))

    tried(work)


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_transcripts(name: str, folder: Path) -> None:
    home = folder / name
    WRITERS[name](home, Talk())
    files = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    largest = max(files, key=lambda path: len(files[path]))
    redact = lru_cache(maxsize=1000)(redact_transcript)  # most texts of a session are those of the last input
    reader = source(name, Homes(home=home, platform="linux"))

    def work(dice: Random) -> None:
        largest.write_bytes(torn(dice, files[largest]))
        found = harvest([reader], redact=redact)
        assert found.read == found.kept + sum(found.dropped.values())

    tried(work, examples=15)


def test_proposals(tmp_path: Path) -> None:
    staged = json.loads(World(home=tmp_path).write().stage().model_dump_json())

    def work(dice: Random) -> None:
        text = written(dice, staged).encode("utf-8", "replace")
        refused(ValueError, lambda: NightProposal.model_validate_json(text))

    tried(work)


def test_calls_of_mcp_tools() -> None:
    toolbox = Toolbox(app)
    tools = toolbox.specs(tuple(SWITCHES))

    def work(dice: Random) -> None:
        spec = dice.choice(tools)
        names = sorted(spec.schema["properties"])
        values = ("-x", "--help", "a b", "$(id)", 3, True, ["a", "--b"])
        asked = {
            dice.choice((dice.choice(names), dice.choice(names), dice.choice(FRAGMENTS))): dice.choice(
                (some_json(dice), dice.choice(values))
            )
            for _ in range(dice.randrange(4))
        }
        arguments = toolbox.arguments[spec.name]
        if refused(UsageError, lambda: arguments.check(asked) or True):
            words = arguments.line(asked, "/p")
            assert all(isinstance(word, str) and "\0" not in word for word in words)
            options = words[: words.index("--")] if "--" in words else words
            assert all(word.startswith("--") for word in options[len(arguments.command) :])

    tried(work)


class Answering:
    """A client whose server answers what it was given."""

    failures, unmade = (OSError,), ConnectionError

    def __init__(self, status: int, headers: Mapping[str, str], text: str) -> None:
        self.answer = status, headers, text

    async def send(self, *_: Any) -> tuple[int, Mapping[str, str], str]:
        return self.answer

    async def close(self) -> None: ...


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_over_http(name: str) -> None:
    spec = ModelSpec(provider=name, name=MODELS[name], api_key="k" * 20, base_url="http://127.0.0.1:9/v1")
    opened: Any = PROVIDERS.get(name).open(spec)
    model = opened._responses if name == "openai" else opened
    asked = Request(
        messages=(Message(role="user", content="2 + 2?"),),
        **{"max_tokens": 64, "role": "target", "stage": "rollout", "place": "p"},
    )
    headers = (
        "retry-after",
        "x-ratelimit-remaining-requests",
        "anthropic-ratelimit-tokens-reset",
        "location",
    )

    def work(dice: Random) -> None:
        status = dice.choice((200, 200, 200, 200, 200, 302, 400, 401, 404, 429, 500, 529))
        told = {
            dice.choice(headers): dice.choice((*FRAGMENTS, "3", "-1", "1e999"))
            for _ in range(dice.randrange(3))
        }
        model._wire._client = Answering(status, told, written(dice, ANSWERS[name]))
        reply = refused(ModelError, lambda: asyncio.run(model.complete(asked)))
        if reply is not None:
            assert status == 200
            reply.text.encode()

    tried(work)
