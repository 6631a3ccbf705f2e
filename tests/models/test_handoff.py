"""Answers by hand: what lies on the desk, which answers may be used, and when a round is complete."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models._by_hand import questions, rounds
from skillopt.errors import AnswersWanted, ConfigError, RunConflict
from skillopt.messages import Image, Message, Reply, Request, Tool
from skillopt.models import PROVIDERS
from skillopt.models.handoff.folder import QuestionFolder
from skillopt.models.handoff.queue import AnsweredByHand, HandoffQueue
from skillopt.models.port import Model, ModelSpec
from skillopt.models.reading import misfits
from skillopt.models.stack.recorded import Recorded

SCHEMA = {
    "type": "object",
    "properties": {"edits": {"type": "array"}, "reasoning": {"type": "string"}},
    "required": ["edits"],
}
FREE = Request(
    messages=(Message(role="system", content="Be brief."), Message(role="user", content="What is 6 * 7?")),
    max_tokens=64,
    role="target",
    stage="test",
    place="rollout/abc.0/0",
)
SHAPED = replace(FREE, role="optimizer", stage="merge", place="e1/s1/merge/failure-0-0/a0", schema=SCHEMA)


def put(desk: QuestionFolder, request: Request) -> tuple[Path, dict[str, Any]]:
    """Put a question on the desk; returns its round and its entry in the index."""
    desk.publish([request])
    folder = rounds(desk.folder)[-1]
    return folder, dict(questions(folder)[-1])


class Nothing:
    """Records that keep nothing."""

    def get(self, key: str) -> Reply | None:
        return None

    def put(self, key: str, request: Request, reply: Reply) -> None:
        """Forgotten."""


def by_hand(tmp_path: Path, **settings: Any) -> Model:
    model: Model = PROVIDERS.get("handoff")(
        ModelSpec(provider="handoff", name="handoff", options={"folder": str(tmp_path)}, **settings)
    )
    return model


async def test_a_question_becomes_a_page_and_the_file_beside_it_the_reply(tmp_path: Path) -> None:
    model = by_hand(tmp_path)
    with pytest.raises(AnswersWanted, match=r"round-001 \(1 open\)"):
        await model.complete(FREE)
    (folder,) = rounds(tmp_path)
    (entry,) = questions(folder)
    page = (folder / entry["page"]).read_text()
    assert "Be brief." in page
    assert "What is 6 * 7?" in page
    assert entry["answer"] in page
    (folder / entry["answer"]).write_text("\n42\n")
    assert await by_hand(tmp_path).complete(FREE) == Reply(
        text="42", finish="stop", usage=None, model="handoff"
    )


def test_the_page_shows_the_schema_and_never_which_split_a_target_works_on(tmp_path: Path) -> None:
    desk = QuestionFolder(tmp_path)
    folder, entry = put(desk, SHAPED)
    assert json.dumps(SCHEMA, indent=1) in (folder / entry["page"]).read_text()
    assert entry["answer"].endswith(".answer.json")
    folder, entry = put(desk, FREE)
    assert FREE.stage not in (folder / entry["page"]).read_text()
    assert "stage" not in entry


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\xff\xfe42", "cannot be read"),
        (b"Here you are: {}", "is no JSON"),
        (b'```json\n{"edits": []}\n```', "is no JSON"),
        (b"[]", "the answer must be of type object"),
        (b'{"reasoning": "none"}', "the answer has no field 'edits'"),
        (
            b'{"edits": {}, "reasoning": 3}',
            "the answer.edits must be of type array; the answer.reasoning must be of type string",
        ),
    ],
)
def test_an_answer_that_does_not_fit_is_named_and_not_used(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    desk = QuestionFolder(tmp_path)
    folder, entry = put(desk, SHAPED)
    (folder / entry["answer"]).write_bytes(content)
    said = desk.look(SHAPED)
    assert isinstance(said, str)
    assert complaint in said
    assert entry["answer"] in said


def test_an_answer_with_a_byte_order_mark_and_further_fields_is_read(tmp_path: Path) -> None:
    desk = QuestionFolder(tmp_path)
    folder, entry = put(desk, SHAPED)
    (folder / entry["answer"]).write_bytes('\ufeff{"edits": [], "mood": "ä"}'.encode())
    assert desk.look(SHAPED) == Reply(
        text='{"edits": [], "mood": "ä"}', finish="stop", usage=None, model="handoff"
    )


def test_the_answer_to_a_page_that_was_changed_is_refused_until_it_is_taken_away(tmp_path: Path) -> None:
    folder, entry = put(QuestionFolder(tmp_path), FREE)
    page, answer = folder / entry["page"], folder / entry["answer"]
    asked = page.read_text()
    page.write_text(asked.replace("6 * 7", "6 * 8"))
    answer.write_text("48")
    desk = QuestionFolder(tmp_path)
    assert "was changed or removed after it was asked" in str(desk.look(FREE))
    desk.publish([FREE])
    assert "was changed or removed after it was asked" in str(QuestionFolder(tmp_path).look(FREE))
    answer.unlink()
    QuestionFolder(tmp_path).publish([FREE])
    assert page.read_text() == asked
    answer.write_text("42")
    assert isinstance(QuestionFolder(tmp_path).look(FREE), Reply)


def test_a_page_that_was_removed_is_written_again(tmp_path: Path) -> None:
    folder, entry = put(QuestionFolder(tmp_path), FREE)
    (folder / entry["page"]).unlink()
    QuestionFolder(tmp_path).publish([FREE])
    assert "What is 6 * 7?" in (folder / entry["page"]).read_text()


@pytest.mark.parametrize("damage", ["{}", "[]", "[" * 5000], ids=["{}", "[]", "deep"])
def test_a_damaged_index_is_named(tmp_path: Path, damage: str) -> None:
    folder, _ = put(QuestionFolder(tmp_path), FREE)
    (folder / "questions.json").write_text(damage)
    with pytest.raises(RunConflict, match=r"questions\.json cannot be used"):
        QuestionFolder(tmp_path)


def test_a_question_is_asked_once_and_new_ones_make_a_new_round(tmp_path: Path) -> None:
    put(QuestionFolder(tmp_path), FREE)
    desk = QuestionFolder(tmp_path)
    desk.publish([FREE, SHAPED, SHAPED])
    assert [len(questions(folder)) for folder in rounds(tmp_path)] == [1, 1]
    assert [place.rpartition("/")[2] for place in desk.open_rounds([FREE, SHAPED])] == [
        "round-001 (1 open)",
        "round-002 (1 open)",
    ]


def test_a_round_that_was_being_written_when_the_process_died_is_no_round(tmp_path: Path) -> None:
    torn = tmp_path / ".round-001.partial"
    torn.mkdir(parents=True)
    (torn / "001-0.md").write_text("half a pa")
    folder, entry = put(QuestionFolder(tmp_path), FREE)
    assert folder.name == "round-001"
    assert {path.name for path in folder.iterdir()} == {"README.md", "questions.json", entry["page"]}
    assert not torn.exists()


def test_the_same_question_at_another_place_or_draw_is_another_question(tmp_path: Path) -> None:
    desk = QuestionFolder(tmp_path)
    desk.publish(
        [
            FREE,
            replace(FREE, draw=1),
            replace(FREE, place="rollout/abc.1/0"),
            replace(FREE, stage="selection"),
        ]
    )
    assert len(questions(tmp_path / "round-001")) == 3  # a rollout that two stages need is one


async def test_tools_are_called_in_the_answer(tmp_path: Path) -> None:
    tool = Tool(name="look", description="Looks.", parameters={"type": "object"})
    request = replace(FREE, tools=(tool,))
    folder, entry = put(QuestionFolder(tmp_path), request)
    assert '"name": "look"' in (folder / entry["page"]).read_text()
    (folder / entry["answer"]).write_text(
        '{"content": "", "tool_calls": [{"name": "look", "arguments": {"at": "ä"}}]}'
    )
    reply = await by_hand(tmp_path).complete(request)
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("look", '{"at": "ä"}')]
    assert reply.finish == "tool_calls"
    halved = '{"content": "", "tool_calls": [{"name": "look", "arguments": {"at": "\\ud83d"}}]}'
    (folder / entry["answer"]).write_text(halved)
    assert "holds half of a surrogate pair" in str(QuestionFolder(tmp_path).look(request))
    (folder / entry["answer"]).write_text('{"content": "done"}')
    assert "has no field 'tool_calls'" in str(QuestionFolder(tmp_path).look(request))


def test_images_lie_beside_the_page(tmp_path: Path) -> None:
    image = Image(media_type="image/png", data="iVBORw0KGgo=")
    desk = QuestionFolder(tmp_path)
    folder, entry = put(
        desk, replace(FREE, messages=(Message(role="user", content="What is this?", images=(image,)),))
    )
    (name,) = entry["images"]
    assert (folder / name).read_bytes() == b"\x89PNG\r\n\x1a\n"
    assert name in (folder / entry["page"]).read_text()
    assert desk.strays() == []


@pytest.mark.parametrize(
    "settings", [{"temperature": 0.5}, {"seed": 3}, {"reasoning_effort": "high"}, {"api_key": "k"}]
)
def test_a_setting_that_nobody_would_follow_is_refused(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="handoff has no"):
        by_hand(tmp_path, **settings)


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no option 'folders'"):
        PROVIDERS.get("handoff")(
            ModelSpec(provider="handoff", name="handoff", options={"folders": str(tmp_path)})
        )


async def test_a_round_is_complete_only_when_nothing_else_is_under_way(tmp_path: Path) -> None:
    """A scorer, a call to another model or a rollout between two turns may still ask something."""
    queue, started, under_way = HandoffQueue(), asyncio.Event(), 0
    stack = AnsweredByHand(by_hand(tmp_path), QuestionFolder(tmp_path), queue)
    target, optimizer = Recorded(stack, Nothing()), Recorded(stack, Nothing())
    queue.watch_model(target, in_rollouts=True)
    queue.watch_model(optimizer, in_rollouts=False)
    queue.watch_rollouts(lambda: under_way)

    async def rollout() -> None:
        nonlocal under_way
        under_way += 1
        await started.wait()
        await asyncio.sleep(0.3)
        try:
            await target.complete(replace(FREE, place="rollout/late.0/0"))
        finally:
            under_way -= 1

    async def ask(request: Request) -> None:
        await optimizer.complete(request)

    late, early = asyncio.ensure_future(rollout()), asyncio.ensure_future(ask(SHAPED))
    started.set()
    done, _ = await asyncio.wait([late, early], timeout=5)
    assert len(done) == 2
    with pytest.raises(AnswersWanted, match="2 questions wait"):
        early.result()
    with pytest.raises(AnswersWanted):
        late.result()
    assert len(rounds(tmp_path)) == 1


async def test_an_answer_that_comes_while_others_work_is_taken_without_another_run(tmp_path: Path) -> None:
    folder, entry = put(QuestionFolder(tmp_path), FREE)
    queue, under_way = HandoffQueue(), 2
    model = Recorded(AnsweredByHand(by_hand(tmp_path), QuestionFolder(tmp_path), queue), Nothing())
    queue.watch_model(model, in_rollouts=True)
    queue.watch_rollouts(lambda: under_way)
    waiting = asyncio.ensure_future(model.complete(FREE))
    await asyncio.sleep(0.05)
    (folder / entry["answer"]).write_text("42")
    under_way = 1
    assert (await asyncio.wait_for(waiting, 5)).text == "42"


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        (
            {"a": 1},
            {
                "$ref": "#/$defs/A",
                "$defs": {"A": {"type": "object", "properties": {"a": {"type": "string"}}}},
            },
            "the answer.a",
        ),
        ([1, "x"], {"type": "array", "items": {"type": "integer"}}, "the answer[1] must be of type integer"),
        (True, {"type": "integer"}, "must be of type integer"),
        (1, {"type": "number"}, None),
        (None, {"anyOf": [{"type": "string"}, {"type": "null"}]}, None),
        (3, {"anyOf": [{"type": "string"}, {"type": "null"}]}, "fits none of the allowed forms"),
        ("add", {"enum": ["append", "delete"]}, "must be one of 'append', 'delete'"),
        ("b", {"const": "a"}, "must be 'a'"),
        ({"a": 1, "b": 2}, {"properties": {"a": {}}, "additionalProperties": False}, "unknown field 'b'"),
        (
            {"a": 1, "b": 2},
            {"properties": {"a": {}}, "additionalProperties": {"type": "string"}},
            "the answer.b must be of type string",
        ),
        ({"a": 1}, {"allOf": [{"required": ["b"]}]}, "has no field 'b'"),
    ],
)
def test_what_does_not_fit_a_schema_is_said(value: Any, schema: dict[str, Any], expected: str | None) -> None:
    found = list(misfits(value, schema))
    assert found == [] if expected is None else expected in found[0]
