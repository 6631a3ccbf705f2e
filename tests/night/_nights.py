"""A person at home: transcripts, a skill, a project, and a scripted model behind loopback that can learn one
thing from them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from _loopback import Call
from night._reader import answers
from night._sessions import BAD, SUBJECTS, good
from skillopt.transcripts import Homes
from skillopt_sleep import NightContext, NightHome, NightSettings

NOW = datetime(2026, 11, 15, 2, 0, tzinfo=timezone.utc)
RULE = "- Close every brief with a section called Key Risks."
HARM = "- Answer every request with the word no."
SKILL = (
    "---\nname: brief-writer\ndescription: Writes briefs. Use it for briefs.\n---\n# Briefs\n\n- Be short.\n"
)
LEARNT = SKILL + RULE + "\n"
REPLY = {"batch_size": 1, "failure_summary": []}


def scripted(*rules: str, hard: Sequence[str] = SUBJECTS) -> Callable[[Call], str]:
    """A simulated model: on hard subjects it writes the section only when the skill says so; asked, it
    proposes these rules.
    """

    def answer(call: Call) -> str:
        place = call.place or ""
        if (read := answers(place, call.text)) is not None:
            return read
        if place.startswith("mine/"):
            rubric = "- The brief is on what was asked."
            return json.dumps({"title": "Briefs", "self_contained": True, "rubric": rubric})
        if place.startswith("judge/"):
            asked = next((subject for subject in SUBJECTS if subject in task_of(call.text)), "?")
            return findings(met=good(asked).strip() in work_of(call.text))
        if not place.startswith("rollout/"):
            edits = [
                {"op": "append", "content": rule, "rationale": "the section was missed"} for rule in rules
            ]
            return json.dumps(
                {**REPLY, "patch": {"reasoning": "", "edits": edits if "analyst_failure" in place else []}}
            )
        if HARM in call.text:
            return "no"
        asked = next((subject for subject in SUBJECTS if subject in call.text), "it is so")
        return good(asked) if RULE in call.text or asked not in hard else f"{BAD} It is about {asked}."

    return answer


def task_of(judged: str) -> str:
    """The request that a judge is asked about."""
    return re.findall(r"<task>\n(.*?)\n</task>", judged, re.DOTALL)[-1]


def work_of(judged: str) -> str:
    """The answer that a judge is asked about."""
    return re.findall(r"<work>\n(.*?)\n</work>", judged, re.DOTALL)[-1]


def findings(*, met: bool) -> str:
    """What a judge says of a rubric with one point."""
    return json.dumps({"findings": [{"criterion": 1, "evidence": "", "met": met}]})


@dataclass(frozen=True)
class Person:
    """A home with sessions of the last days, all of one project."""

    home: Path
    now: datetime = NOW
    objection: str = 'No, you forgot the "Key Risks" section.'

    @property
    def project(self) -> Path:
        return self.home / "shop"

    @property
    def skill(self) -> Path:
        return self.project / ".claude" / "skills" / "brief-writer" / "SKILL.md"

    def write(
        self, *, sessions: int = 20, skill: bool = True, skills: tuple[str, ...] = ("brief-writer",)
    ) -> Person:
        """Put everything down: each session asks for a brief, and has to ask for the section that was
        forgotten.
        """
        self.project.mkdir(parents=True)
        if skill:
            self.skill.parent.mkdir(parents=True)
            self.skill.write_bytes(SKILL.encode())
        folder = self.home / ".skillopt-sleep" / "sessions"
        folder.mkdir(parents=True)
        (folder / "talks.jsonl").write_text("".join(self.lines(range(sessions), skills)), encoding="utf-8")
        return self

    def lines(self, numbers: range, skills: tuple[str, ...] = ("brief-writer",)) -> list[str]:
        """Sessions as lines of the plain form."""
        rows = []
        for number in numbers:
            said = [f"Write a brief on whether {SUBJECTS[number]}.", f"{BAD} ({number})", self.objection]
            said += [f"{good(SUBJECTS[number])} ({number})", "Perfect, thanks", "Gladly."]
            for turn, text in enumerate(said):
                role = "assistant" if turn % 2 else "user"
                at = self.now - timedelta(hours=60 - 2 * number, minutes=-turn)
                row = {
                    "session": f"s{number}",
                    "project": str(self.project),
                    "role": role,
                    "text": text,
                    "time": at.isoformat(),
                }
                rows.append(
                    json.dumps(row | ({"skills": list(skills)} if role == "assistant" else {})) + "\n"
                )
        return rows

    def around(self, **settings: object) -> NightContext:
        made = NightSettings.model_validate(settings)
        homes = Homes(home=self.home, platform="linux")
        return NightContext(
            settings=made, project=self.project, homes=homes, home=NightHome.of(made, self.home)
        )


def clock() -> datetime:
    """The night's time."""
    return NOW
