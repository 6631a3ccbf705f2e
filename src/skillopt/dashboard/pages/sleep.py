"""The page Sleep: how the nights ended, what they propose, and the place to adopt, undo and discard it edit
by edit.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from nicegui import ui

from skillopt.changes.adoption import Adoption, Done
from skillopt.changes.proposal import Judgement, ProposedEdit, ProposedFile
from skillopt.changes.status import ProposalsStatus, ProposalStatus
from skillopt.dashboard import _widgets as w
from skillopt.dashboard._page import Page, Visit
from skillopt.errors import SkillOptError, UsageError
from skillopt.night import NightContext, ProjectState, open_context

_TONES: dict[str, w.Tone] = {
    "pending": "info",
    "partly adopted": "info",
    "adopted": "good",
    "interrupted": "bad",
}
_VERBS = {"adopt": "Adopted", "undo": "Undone", "discard": "Discarded"}
_SHOWN = 20
_BUTTON = "unelevated no-caps"


class _Review:
    """One proposal in front of a person. Everything it does goes through `Adoption`, which checks
    it all again.
    """

    def __init__(self, adoption: Adoption, id: str, place: ui.element) -> None:
        self.adoption, self.id, self.place = adoption, id, place
        self.boxes: dict[int, ui.checkbox] = {}

    async def show(self, said: str = "", trouble: str = "") -> None:
        """Draw the proposal as it stands now, under what the last decision did."""
        status = await asyncio.to_thread(self.adoption.status)
        found = next((one for one in status.proposals if one.proposal.id == self.id), None)
        self.place.clear()
        with self.place:
            if trouble:
                w.trouble(trouble)
            if said:
                w.paragraph(said).classes("so-note").props('role="status"')
            if found is None:
                w.trouble(f"There is no proposal {self.id[:40]!r} here that is yours.")
                return
            self._proposal(found)

    def _proposal(self, one: ProposalStatus) -> None:
        proposal = one.proposal
        self.boxes = {}
        with w.section(f"Proposal {proposal.id}"):
            with ui.element("div").classes("so-row"):
                w.chip(one.state, _TONES.get(one.state, "plain"))
                if proposal.simulated:
                    w.simulated()
            if one.note:
                w.paragraph(one.note)
            made = f"{proposal.created:%Y-%m-%d %H:%M} UTC, night {proposal.night}"
            w.facts([("Project", proposal.project), ("Made", made), ("Cost", str(proposal.cost))])
            for note in proposal.notes:
                w.paragraph(note, soft=True)
            pending = [edit for edit, decided in one.edits.items() if decided == "pending"]
            adopted = [edit for edit, decided in one.edits.items() if decided == "adopted"]
            with ui.element("div").classes("so-actions"):
                if pending:
                    ui.button("Adopt the chosen edits", icon="check", on_click=self._adopt).props(_BUTTON)
                    ui.button("Discard the chosen edits", icon="close", on_click=self._discard).props(
                        f"{_BUTTON} outline"
                    )
                if adopted:
                    ui.button("Undo the last adoption", icon="undo", on_click=self._undo).props(
                        f"{_BUTTON} outline"
                    )
        for target, standing in zip(proposal.targets, one.targets, strict=True):
            with w.section(target.name):
                what = (
                    "Our block in the memory file"
                    if target.kind == "memory"
                    else "A new skill"
                    if target.before is None
                    else "The skill"
                )
                w.paragraph(
                    f"{what} {target.path}; on disk is the {standing.disk} text. {standing.note}".rstrip(),
                    soft=True,
                )
                _judgement(target.judgement)
                for edit in target.edits:
                    self._edit(target, edit, one.edits[edit.id])

    def _edit(self, target: ProposedFile, edit: ProposedEdit, decided: str) -> None:
        with w.named(ui.element("article"), f"Edit {edit.id}").classes("so-edit"):
            box = ui.checkbox(value=decided == "pending" and edit.is_measured)
            w.named(box, f"Choose edit {edit.id}")
            box.set_enabled(decided == "pending")
            if decided == "pending":
                self.boxes[edit.id] = box
            with ui.element("div"):
                with ui.element("div").classes("so-row"):
                    w.heading(f"Edit {edit.id}", level=3)
                    w.chip(decided, _TONES.get(decided, "plain"))
                    if not edit.is_measured:
                        w.chip("not measured", "bad")
                if edit.needs:
                    w.paragraph(
                        f"Stands inside edit {', '.join(map(str, edit.needs))}, and goes only together"
                        " with it."
                    )
                for evidence in edit.evidence:
                    reason = evidence.why or str(
                        evidence.edit.get("rationale", "") or evidence.edit.get("reason", "")
                    )
                    w.paragraph(reason or "No reason was given.")
                    for words in evidence.said:
                        w.paragraph(f"You said: {words}")
                    seen = [
                        f"from step {evidence.place}" if evidence.place else "",
                        f"tasks {', '.join(evidence.tasks[:5])}" if evidence.tasks else "",
                        f"{len(evidence.sessions)} sessions" if evidence.sessions else "",
                    ]
                    if any(seen):
                        w.paragraph("Evidence: " + "; ".join(filter(None, seen)) + ".", soft=True)
                w.diff(
                    target.diff((edit.id, *edit.needs), over=edit.needs),
                    f"What edit {edit.id} changes",
                )

    def _chosen(self) -> list[int]:
        return [edit for edit, box in self.boxes.items() if box.value]

    async def _adopt(self) -> None:
        chosen = self._chosen()
        await self._decide(
            chosen,
            f"Adopt {_edits(chosen)}?",
            "The live files change now. What was there before is kept, and undo puts it back byte for byte.",
            "Adopt",
            lambda: self.adoption.adopt(self.id, edits=chosen),
        )

    async def _discard(self) -> None:
        chosen = self._chosen()
        detail = "No live file is touched; the next night is told."
        await self._decide(
            chosen,
            f"Discard {_edits(chosen)}?",
            detail,
            "Discard",
            lambda: self.adoption.discard(self.id, edits=chosen),
        )

    async def _undo(self) -> None:
        detail = (
            "The live files get back, byte for byte, what they held before. A file that was edited since is"
            " refused."
        )
        await self._decide(
            [0], "Undo the last adoption?", detail, "Undo", lambda: self.adoption.undo(self.id)
        )

    async def _decide(
        self, chosen: list[int], question: str, detail: str, yes: str, work: Callable[[], Done]
    ) -> None:
        if not chosen:
            await self.show(trouble="No edit is chosen. Tick those that are meant.")
        elif await w.confirmed(question, detail, yes):
            try:
                # In a thread: it waits for another process that adopts at this moment.
                done = await asyncio.to_thread(work)
            except SkillOptError as error:
                await self.show(trouble=str(error))
            else:
                await self.show(said=_told(done))


async def build(visit: Visit) -> None:
    """Make the page."""
    nights = open_context({}, home=Path.home(), cwd=visit.around.cwd, environ=visit.around.environ)
    adoption = nights.adoption(lambda: datetime.now(timezone.utc))
    kept = nights.kept.load()
    status = await asyncio.to_thread(adoption.status)
    wanted = visit.query.get("proposal")
    if wanted is not None and all(one.proposal.id != wanted for one in status.proposals):
        raise UsageError(f"There is no proposal {wanted[:40]!r} here that is yours.")
    shown = wanted or next((one.proposal.id for one in status.proposals), None)
    _nights(nights, kept)
    _list(visit, status, shown)
    if shown is not None:
        await _Review(adoption, shown, ui.element("div").classes("so-main so-bare")).show()


def _nights(nights: NightContext, kept: ProjectState) -> None:
    with w.section("Nights"):
        w.paragraph(
            f"Project {nights.project}: {kept.night} {'night' if kept.night == 1 else 'nights'} so far.",
            soft=True,
        )
        if kept.open is not None:
            w.paragraph(f"Night {kept.open} is open: `skillopt sleep run` goes on with it.")
        if not kept.nights:
            w.empty(
                "No night has ended yet. `skillopt sleep dry-run` says what one would work on and cost;"
                " `skillopt sleep run` runs it."
            )
            return
        with w.table(
            "Nights",
            ("night", "ended", "sessions", "tasks", "outcome", "cost"),
            numbers=("sessions", "tasks"),
        ):
            for record in reversed(kept.nights[-_SHOWN:]):
                cost = "unknown" if record.dollars is None else f"${record.dollars:.4f}"
                ended = f"{record.ended:%Y-%m-%d %H:%M}"
                cells = [
                    str(record.number),
                    ended,
                    str(record.sessions),
                    str(record.tasks),
                    record.outcome,
                    cost,
                ]
                w.row(cells, numbers=(2, 3))


def _list(visit: Visit, status: ProposalsStatus, shown: str | None) -> None:
    with w.section("Proposals"):
        if not status.proposals:
            w.empty(
                "No proposal is staged. A night makes one when a change holds up on tasks it was not made"
                " from."
            )
        else:
            with w.table("Proposals", ("proposal", "state", "edits", "targets")):
                for one in status.proposals[:_SHOWN]:
                    edits = ", ".join(
                        f"{count} {word}" for word, count in Counter(one.edits.values()).items()
                    )
                    line = w.row(["", "", edits, ", ".join(target.name for target in one.targets)])
                    first, second = line.default_slot.children[:2]
                    with first:
                        link = w.link(one.proposal.id, visit.url("sleep", proposal=one.proposal.id))
                        if one.proposal.id == shown:
                            link.props('aria-current="true"')
                    with second:
                        w.chip(one.state, _TONES.get(one.state, "plain"))
        for id, why in status.refused.items():
            w.trouble(f"Refused {id}: {why}")


def _judgement(judged: Judgement) -> None:
    with ui.element("div").classes("so-row"):
        w.chip(judged.action, "good" if judged.action.startswith("accept") else "plain")
        if not judged.verified:
            w.chip("unverified suggestion", "warn")
        if not judged.gate_on:
            w.chip("the gate was switched off", "warn")
        if judged.before is not None or judged.after is not None:
            scores = f"{_score(judged.before)} to {_score(judged.after)}"
            ui.label(f"Held-out {judged.metric or 'score'} {scores}, policy {judged.policy or 'strict'}")
    w.paragraph(judged.why)
    for title, text in judged.example.parts() if judged.example is not None else ():
        w.paragraph(f"{title}:", soft=True)
        ui.label(text).style("white-space: pre-wrap")
    if judged.pairs:
        with w.table("Held-out tasks", ("held-out task", "before", "after"), numbers=("before", "after")):
            for pair in judged.pairs:
                w.row([pair.title or pair.task, _score(pair.before), _score(pair.after)], numbers=(1, 2))


def _told(done: Done) -> str:
    parts = [*done.recovered, f"{_VERBS[done.action]}: {_edits(done.edits)}."]
    parts += [f"Wrote {path}." for path in done.written]
    parts += [f"Left {name} as it is: somebody else changed it at the last moment." for name in done.left_out]
    return " ".join(parts)


def _score(score: float | None) -> str:
    return "not measured" if score is None else f"{score:.3f}"


def _edits(chosen: Sequence[int]) -> str:
    return (
        f"edit {', '.join(map(str, chosen))}" if len(chosen) == 1 else f"edits {', '.join(map(str, chosen))}"
    )


PLUGIN = Page(path="/sleep", title="Sleep", place=30, build=build, icon="bedtime")
