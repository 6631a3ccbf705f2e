"""Small models: a whole reflection request - prompt, skill, evidence and the room for the reply - fits the
window that was named.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from gate._tables import Memory
from optimizer._made import made_optimizer
from skillopt.evaluation.runner import Evaluator, rows_of
from skillopt.evaluation.stage import Evaluation
from skillopt.harnesses.chat import Chat
from skillopt.messages import Request
from skillopt.models.port import DEFAULT_MAX_TOKENS
from skillopt.skill.document import Document
from skillopt.tasks.rollout import Score
from skillopt.tasks.task import Task
from skillopt.testing import FunctionModel
from steps import step_at

WINDOW = 4_096
CHARACTERS_PER_TOKEN = 3
"""English has four or more; JSON, code and numbers have about three."""
LONG = "A long passage about something else, with numbers like 1,234.50 in it. " * 300
RULES = [f"- Rule {number}: answer with the words of the passage and nothing else.\n" for number in range(25)]
SKILL = Document("# Skill\n\n" + "".join(RULES))


class Reading:
    """A benchmark whose tasks and answers are long, and never right."""

    name = "reading"
    prompts = {"rollout": "Answer.\n{skill}"}
    seed_skill = ""
    scorer_version = "1"
    graded = False

    def open(self, task: Task) -> None:
        return None

    async def score(self, task: Task, trajectory: Any) -> Score:
        return Score(hard=0.0, soft=0.0, feedback="not the words of the passage. " * 50)


async def asked(max_tokens: int, answer: str) -> list[Request]:
    """Every request of one reflection over eight long failures."""
    tasks = [
        Task(id=f"t{number}", prompt=f"{LONG} Which number?", reference="42 " * 100) for number in range(8)
    ]
    evaluator = Evaluator(
        harness=Chat(),
        model=FunctionModel(lambda request: LONG),
        benchmark=Reading(),  # type: ignore[arg-type]
        rollouts=Memory(),
        workers=4,
        max_tokens=9_999,
    )
    model = FunctionModel(lambda request: answer)
    optimizer = made_optimizer(
        model,
        max_tokens=max_tokens,
        context_window=WINDOW,
        minibatch_size=8,
        merge_batch_size=8,
        failure_only=False,
        learning_rate=4,
    )
    step = step_at("e1/s1", skill=SKILL, seed=1, limit=4)
    rollouts = Evaluation(evaluator, step, SKILL.rendered, rows_of(tasks), stage="rollout")
    await optimizer.reflect(step, rollouts)
    return model.requests


def tokens(request: Request) -> int:
    """What the request takes of the window: all it says, and the cap of the reply."""
    return (
        sum(len(message.content) for message in request.messages) // CHARACTERS_PER_TOKEN + request.max_tokens
    )


USABLE = json.dumps({"batch_size": 8, "failure_summary": [], "patch": {"reasoning": "", "edits": []}})


@pytest.mark.parametrize("max_tokens", [512, 1_024, DEFAULT_MAX_TOKENS])
async def test_a_reflection_over_long_rollouts_fits_a_window_of_4096_tokens(max_tokens: int) -> None:
    (request,) = await asked(max_tokens, USABLE)
    assert tokens(request) <= WINDOW
    assert all(f'<rollout task="t{number}"' in request.messages[1].content for number in range(8))
    assert SKILL.text.strip() in request.messages[1].content


async def test_asking_again_after_a_long_unusable_reply_fits_too() -> None:
    first, again = await asked(1_024, "I think that " * 2_000)
    assert "cannot be used" in again.messages[-1].content
    assert max(tokens(first), tokens(again)) <= WINDOW
