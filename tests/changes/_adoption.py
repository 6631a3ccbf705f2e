"""A person's files, and a night's proposal for them: what the tests of adoption start from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

from skillopt_sleep.adoption import Adoption
from skillopt_sleep.drafts import FileDraft
from skillopt_sleep.judgement import Cost, EditEvidence, Judgement, TaskScores
from skillopt_sleep.proposal import Proposal
from skillopt_sleep.store import Store

SKILL = (
    "---\nname: notes\ndescription: Writes release notes. Use it for releases.\n---\n# Notes\n\n- Be"
    " short.\n- Name the version.\n"
)
MEMORY = "# House rules\n\nUse tabs.\n\n\n\n```\nno   touching\n\n\n```\n"
FIRST = SKILL.replace("- Be short.\n", "- Be short: three lines at most.\n")
SECOND = FIRST + "- Close with the date.\n"
THIRD = SECOND + "- Never list\n  internal changes.\n"
JUDGED = Judgement(
    action="accept",
    verified=True,
    why="better on the held-out tasks",
    before=0.25,
    after=0.75,
    metric="hard",
    policy="strict",
    pairs=(
        TaskScores(task="t7", title="Notes for 1.2", before=0.0, after=1.0),
        TaskScores(task="t8", before=1.0, after=1.0),
    ),
    p=0.01,
)


class Clock:
    """A clock that goes one minute further whenever it is read."""

    def __init__(self) -> None:
        self.time = datetime(2026, 3, 1, 2, 15, tzinfo=timezone.utc)

    def __call__(self) -> datetime:
        self.time += timedelta(minutes=1)
        return self.time


@dataclass
class World:
    """A home with a skill, a project with a memory file, and the user's state folder beside them."""

    home: Path
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.skills = self.home / ".claude" / "skills"
        self.project = self.home / "project"
        self.skill = self.skills / "notes" / "SKILL.md"
        self.memory = self.project / "CLAUDE.md"
        self.store = Store(state=self.home / "state")

    def write(self) -> World:
        """Put the person's files down."""
        self.skill.parent.mkdir(parents=True)
        self.project.mkdir()
        self.skill.write_bytes(SKILL.encode())
        self.memory.write_bytes(MEMORY.encode())
        return self

    @property
    def roots(self) -> tuple[Path, ...]:
        return (self.skills, self.project)

    def adoption(
        self,
        *,
        hook: Callable[[str], None] = lambda step: None,
        patience: float = 0.0,
        roots: Sequence[Path] | None = None,
    ) -> Adoption:
        return Adoption(
            store=self.store, roots=tuple(roots or self.roots), now=self.clock, patience=patience, hook=hook
        )

    def skill_draft(
        self, *texts: str, name: str = "notes", path: Path | None = None, before: str | None = SKILL
    ) -> FileDraft:
        steps = [
            EditEvidence(
                text=text,
                edit={"op": "replace", "rationale": f"reason {number}"},
                place=f"e1/s{number}",
                tasks=("t1",),
            )
            for number, text in enumerate(texts or (FIRST, SECOND, THIRD), 1)
        ]
        return FileDraft(
            name=name, kind="skill", path=path or self.skill, before=before, steps=steps, judgement=JUDGED
        )

    def memory_draft(
        self, *inner: str, name: str = "CLAUDE.md", path: Path | None = None, before: str | None = MEMORY
    ) -> FileDraft:
        steps = [
            EditEvidence(text=text, why=f"asked {number} times")
            for number, text in enumerate(inner or ("- Run make.",), 1)
        ]
        return FileDraft(
            name=name, kind="memory", path=path or self.memory, before=before, steps=steps, judgement=JUDGED
        )

    def stage(self, *drafts: FileDraft, roots: Sequence[Path] | None = None) -> Proposal:
        return self.store.stage(
            drafts or (self.skill_draft(), self.memory_draft()),
            roots=roots or self.roots,
            project=str(self.project),
            night="night-1",
            now=self.clock(),
            cost=Cost(calls=12, tokens=3456, dollars=None, minutes=4.5),
        )

    def disks(self) -> dict[str, str]:
        """What `status` says each target of the newest proposal holds."""
        shown = self.adoption().status().proposals[0]
        return {target.name: shown.on_disk(target, self.roots)[0] for target in shown.targets}

    def files(self) -> dict[str, bytes]:
        """Everything below the roots, by name."""
        found = [path for root in self.roots for path in root.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.home)): path.read_bytes() for path in found}
