"""The faces of nights: each is one JSON object for programs, made of the models, and a template of safe lines
for people that is filled from the same object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from skillopt.cli._console import echo
from skillopt.runs import words
from skillopt.skill.diff import print_coloured
from skillopt.transcripts.session import Harvest, RecordedSession
from skillopt_sleep import Cleanup, NightContext, NightResult, Preview, project_id
from skillopt_sleep.adoption import AdoptionResult
from skillopt_sleep.plan import NightPlan
from skillopt_sleep.proposal import Proposal
from skillopt_sleep.proposal_page import plain
from skillopt_sleep.schedule import Schedule
from skillopt_sleep.store import StagedProposals

_MOST = 10
_OF_TASK = {"id", "split", "outcome", "kind", "prompt", "checks", "rubric", "skills", "sessions"}
_OF_NIGHT = {"number", "started", "ended", "sessions", "outcome", "proposal"}
_ON_DISK = {
    **{"old": "holds the old text", "new": "holds the new text", "other": "holds another text"},
    **{"missing": "is gone", "refused": "is refused"},
}


def harvest_json(
    found: Harvest, sessions: Sequence[RecordedSession], since: datetime | None
) -> dict[str, Any]:
    """What was read."""
    return {
        "since": None if since is None else since.isoformat(timespec="minutes"),
        "read": found.read,
        "kept": found.kept,
        "of_project": len(sessions),
        "sources": dict(sorted(Counter(session.source for session in found.sessions).items())),
        "dropped": dict(sorted(found.dropped.items())),
        "skipped_records": dict(sorted(found.skipped.items())),
        "skills": dict(found.skills().most_common()),
        "notes": list(found.notes),
    }


def harvest(shown: Mapping[str, Any], output: Path | None) -> Iterator[str]:
    """Read, kept and dropped, by reason; and the file of tasks, where one was wanted."""
    since = shown["since"] or "the beginning"
    yield f"{words.count(shown['read'], 'session')} read since {since}, {shown['kept']} kept"
    yield from _counts("kept from", shown["sources"])
    yield from _counts("dropped", shown["dropped"])
    yield from _counts("records passed over", shown["skipped_records"])
    yield from _counts("skills used", shown["skills"])
    yield f"{words.count(shown['of_project'], 'session')} of this project"
    yield from _lines("note", shown["notes"])
    if output is not None and not shown["tasks"]:
        yield f"No task was found, so {output} was not written."
    elif output is not None:
        yield (
            f"{words.count(shown['tasks'], 'task')} written to {shown['output']}, redacted. Read them, set"
            ' "reviewed": true, and use them:'
        )
        yield f"  skillopt sleep run --tasks-file {shown['output']}"


def preview_json(seen: Preview) -> dict[str, Any]:
    """What a night would work on and cost."""
    found = seen.found
    ranges = {"calls": seen.calls, "tokens": seen.tokens, "usd": seen.usd}
    cost = {name: None if one is None else one.as_json() for name, one in ranges.items()}
    return {
        "sessions": len(found.sessions),
        "standing": found.standing,
        "note": found.note,
        "tasks": [task.model_dump(mode="json", include=_OF_TASK) for task in found.tasks],
        "suggestions": [one.model_dump(mode="json", exclude={"path"}) for one in found.suggestions],
        "states": dict(found.states),
        "targets": [
            {"name": one.name, "path": str(one.path), "new": one.before is None, "tasks": len(one.tasks)}
            for one in found.targets
        ],
        "notes": [*found.notes, *found.harvest.notes],
        "cost": cost if found.targets or seen.to_read else None,
        "to_read": seen.to_read,
        "remedy": seen.remedy,
    }


def preview(shown: Mapping[str, Any]) -> Iterator[str]:
    """Tasks, suggestions, cost and remedy."""
    yield f"{words.count(shown['sessions'], 'session')} of this project. {shown['note']}"
    for task in shown["tasks"]:
        checks = ", ".join(
            f"{check['op']}={check['arg']}" if check["arg"] is not None else check["op"]
            for check in task["checks"]
        )
        measure = plain(checks or f"rubric: {task['rubric']}")
        yield f"  {task['split']:<5} {task['outcome']:<9} {plain(task['prompt'])[:90]}  [{measure}]"
    for one in shown["suggestions"]:
        yield f"suggestion, not measured: {plain(one['kind'])} ({plain(one['reason'])})"
        yield f"    you said: {plain(one['wish'])}"
    yield from _counts("sessions by what they became", shown["states"])
    for one in shown["targets"]:
        new, tasks = ", a new skill" if one["new"] else "", words.count(one["tasks"], "task")
        yield f"would work on {one['name']} with {tasks}: {one['path']}{new}"
    yield from _lines("note", shown["notes"])
    if shown["to_read"]:
        yield f"a model would read {words.count(shown['to_read'], 'session')}, once"
    if (cost := shown["cost"]) is not None:
        usd = "cost unknown" if cost["usd"] is None else _figure(cost["usd"], "$", 2)
        yield f"likely cost: {_figure(cost['calls'])} calls, {_figure(cost['tokens'])} tokens, {usd}"
    if shown["remedy"]:
        yield shown["remedy"]


def night_json(ended: NightResult, context: NightContext, notices: Sequence[str] = ()) -> dict[str, Any]:
    """How a night ended, and which notices were given of it."""
    plan, proposal = ended.plan, ended.proposal
    return {
        "night": plan.number,
        "resumed": ended.resumed,
        "project": str(context.project),
        "accepted": any(target.ended.accepted for target in plan.targets),
        "outcome": plan.outcome,
        "n_sessions": plan.sessions,
        "n_tasks": plan.tasks,
        **plan.model_dump(mode="json", include={"suggestions", "states", "mining", "notes"}),
        "tokens": plan.cost.tokens,
        "dollars": plan.cost.dollars,
        "skills": _skills(plan),
        "proposal": None if proposal is None else proposal.id,
        "flagged": [] if proposal is None else flagged_json(proposal),
        "staging_dir": None if proposal is None else str(context.home.store.folder(proposal.id)),
        "adopted": False,
        "notices": list(notices),
    }


def _skills(plan: NightPlan) -> list[dict[str, Any]]:
    """How a night ended for each of its skills."""
    return [
        {
            "name": target.name,
            "path": str(target.path),
            "n_tasks": len(target.tasks),
            "accepted": outcome.accepted,
            "verified": judged.verified,
            "significance": judged.significance,
            "finding": judged.finding,
            "p": judged.p,
            "gate_action": judged.action,
            "baseline": judged.before,
            "candidate": judged.after,
            "why": judged.why,
            "claim": outcome.claim,
            "edits": [evidence.edit for evidence in outcome.edits],
            "rejected": outcome.rejected,
            "cost": outcome.cost.model_dump(),
        }
        for target in plan.targets
        for outcome in [target.ended]
        for judged in [outcome.judgement]
    ]


def night(shown: Mapping[str, Any]) -> Iterator[str]:
    """The verdict of each skill, and what to do next."""
    again = ", taken up again" if shown["resumed"] else ""
    sessions, tasks = words.count(shown["n_sessions"], "session"), words.count(shown["n_tasks"], "task")
    yield f"Night {shown['night']}{again}: {sessions}, {tasks}."
    for skill in shown["skills"]:
        scores = f"{words.score(skill['baseline'])} to {words.score(skill['candidate'])}"
        finding = f"; {skill['finding']}" if skill["edits"] else ""
        yield f"{skill['name']}: held-out {scores}, {skill['gate_action']}{finding}"
        yield f"  {skill['claim']}"
        if not skill["accepted"] and skill["why"] not in skill["claim"]:
            yield f"  Why: {plain(skill['why'])}"
        yield from (f"  + {plain(words.edit(edit))}" for edit in skill["edits"])
    yield from _counts("sessions by what they became", shown["states"])
    for one in shown["suggestions"]:
        sessions = words.count(len(one["sessions"]), "session")
        yield f"suggestion, not measured ({sessions}): {plain(one['wish'])}"
    yield from _lines("note", shown["notes"])
    tokens = words.UNKNOWN if shown["tokens"] is None else f"{shown['tokens']:,}"
    yield f"Spent: {tokens} tokens, cost {words.money(shown['dollars'])}."
    if shown["proposal"] is None:
        yield f"Nothing is proposed: {shown['outcome']}."
        return
    yield f"Proposal {shown['proposal']}: {shown['staging_dir']}"
    yield from _flagged(shown["flagged"])
    yield (
        "Nothing has changed yet: `skillopt sleep` shows it, `skillopt sleep adopt` takes what is shown to"
        " help and not flagged."
    )
    yield from shown["notices"]


def status_json(
    context: NightContext, staged: StagedProposals, schedules: Sequence[Schedule], trouble: str
) -> dict[str, Any]:
    """Nights, proposals and schedules."""
    kept, roots = context.kept, context.roots()
    state = kept.load()
    ours = next((entry for entry in schedules if entry.id == project_id(context.project)), None)
    return {
        "project": str(context.project),
        "state_path": str(kept.folder),
        "night": state.night,
        "open_night": state.open,
        "nights": [
            {
                **plan.model_dump(mode="json", include=_OF_NIGHT),
                "tasks": plan.tasks,
                "tokens": plan.cost.tokens,
                "dollars": plan.cost.dollars,
                "skills": _skills(plan),
            }
            for plan in kept.ended(5)
        ],
        "proposals": [_proposal_json(one, roots) for one in staged.proposals],
        "refused": dict(staged.refused),
        "schedule": (
            None if ours is None else {"time": ours.time, "command": list(ours.command), "log": str(kept.log)}
        ),
        "schedule_trouble": trouble,
        "log": None if ours is None else kept.log_tail(),
    }


def _proposal_json(one: Proposal, roots: Sequence[Path]) -> dict[str, Any]:
    return {
        "id": one.id,
        "project": one.project,
        "state": one.state,
        "note": one.note,
        "edits": {str(edit): decided for edit, decided in one.decided.items()},
        "unmeasured": [edit.id for edit in one.edits if not edit.is_measured],
        "flagged": flagged_json(one),
        "targets": [
            {
                "name": target.name,
                "path": target.path,
                "disk": disk,
                "note": note,
                "verified": target.judgement.verified,
                "significance": target.judgement.significance,
                "finding": target.judgement.finding,
            }
            for target in one.targets
            for disk, note in [one.on_disk(target, roots)]
        ],
    }


def status(shown: Mapping[str, Any]) -> Iterator[str]:
    """Where everything stands."""
    yield f"{shown['project']}: {words.count(shown['night'], 'night')} so far"
    for one in shown["nights"]:
        tasks = words.count(one["tasks"], "task")
        yield f"  night {one['number']}, {one['ended'][:16]}: {tasks}, {plain(one['outcome'])}"
    if shown["open_night"] is not None:
        yield f"Night {shown['open_night']} is open: `skillopt sleep run` goes on with it."
    if not shown["proposals"]:
        yield "No proposal is staged."
    for one in shown["proposals"][:_MOST]:
        yield from _proposal(one)
    yield from (f"Refused {id}: {plain(why)}" for id, why in shown["refused"].items())
    if shown["schedule"] is not None:
        yield f"Scheduled at {shown['schedule']['time']}: {' '.join(shown['schedule']['command'])}"
    elif shown["schedule_trouble"]:
        yield f"Schedules: {shown['schedule_trouble']}"
    else:
        yield "Nothing is scheduled for this project."
    if shown["log"] is not None:
        yield f"Log, last written {shown['log']['written'][:16]}:"
        yield from (f"  {line}" for line in shown["log"]["lines"][-_MOST:])


def _proposal(one: Mapping[str, Any]) -> Iterator[str]:
    edits = ", ".join(f"{number} {word}" for word, number in Counter(one["edits"].values()).items())
    pending = {int(edit) for edit, decided in one["edits"].items() if decided == "pending"}
    unmeasured = ", ".join(str(edit) for edit in one["unmeasured"] if edit in pending)
    not_tried = f"; not measured: {unmeasured}" if unmeasured else ""
    yield f"Proposal {one['id']}: {one['state']} ({edits}{not_tried}) {one['note']}".rstrip()
    for target in one["targets"]:
        is_new = target["disk"] == "old" and target["note"]  # the old text of a new file is none
        state = target["note"] if is_new else f"{_ON_DISK[target['disk']]}. {target['note']}".rstrip()
        yield f"  {target['name']}: {target['path']}: {state}"
        yield f"    {target['finding']}"
    yield from (f"  {line}" for line in _flagged(flag for flag in one["flagged"] if flag["edit"] in pending))


def flagged_json(proposal: Proposal) -> list[dict[str, Any]]:
    """What in the edits of a proposal a person must have read before it is theirs."""
    return [{"edit": edit.id, **asdict(flag)} for edit in proposal.edits for flag in edit.flags]


def _flagged(flags: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for flag in flags:
        yield f"edit {flag['edit']} FLAGGED, {flag['reason']}: {plain(flag['quoted'])}"


def done_json(result: AdoptionResult) -> dict[str, Any]:
    """What a decision did."""
    return {
        "ok": True,
        "proposal": result.proposal,
        "action": result.change.action,
        "changes": sorted(result.change.taken),
        "updated_paths": [str(path) for path in result.change.written],
        "backups": None if result.backups is None else str(result.backups),
        "left_out": list(result.change.left_out),
        "recovered": list(result.recovered),
        "findings": list(result.findings),
        "left": list(result.left),
    }


def done(shown: Mapping[str, Any]) -> Iterator[str]:
    """What a decision did, in words."""
    yield from _lines("recovered", shown["recovered"])
    is_adopted = shown["action"] == "adopt"
    verb = {"adopt": "Adopted", "undo": "Undone", "discard": "Discarded"}[shown["action"]]
    yield f"{verb}: {words.count(len(shown['changes']), 'change')} of proposal {shown['proposal']}."
    for path in shown["updated_paths"]:
        yield f"  {'wrote' if Path(path).exists() else 'removed'} {path}"
    yield from (f"  {plain(finding)}" for finding in shown["findings"] if is_adopted)
    if named := " ".join(f"--edit {edit}" for edit in shown["left"]):
        left = f"{words.count(len(shown['left']), 'change')} left, flagged or not shown to help"
        yield f"  {left}: `skillopt sleep adopt {shown['proposal']} {named}`"
    for name in shown["left_out"]:
        yield f"  left {name} as it is: somebody else changed it at the last moment"
    if shown["backups"] is not None and is_adopted:
        yield f"  backups lie in {shown['backups']}; `skillopt sleep undo` puts everything back"


def cleaned_json(done: Cleanup, *, dry: bool) -> dict[str, Any]:
    """What was taken away."""
    return {"dry_run": dry, **asdict(done), "folders": list(map(str, done.folders))}


def cleaned(shown: Mapping[str, Any]) -> Iterator[str]:
    """What was taken away, in words."""
    yield from _lines("note", shown["notes"])
    proposals = words.count(len(shown["proposals"]), "proposal")
    folders = words.count(len(shown["folders"]), "run folder")
    verb = "Would take" if shown["dry_run"] else "Took"
    yield f"{verb} away {proposals} and {folders} of nights, {shown['bytes'] / 1e6:,.1f} MB."


def findings(lines: Iterable[str]) -> None:
    """What the held-out tasks say, as lines that a program which applies the diff behind them passes over."""
    for line in lines:
        echo(f"# {plain(line)}")


def diff(text: str) -> None:
    """A unified diff, without characters that could steer a terminal."""
    print_coloured(
        "".join(char if char.isprintable() or char in "\n\t" else "�" for char in text.replace("\r\n", "\n"))
    )


def _counts(title: str, counts: Mapping[str, int]) -> Iterator[str]:
    if counts:
        yield f"  {title}: {', '.join(f'{plain(name)} {number}' for name, number in counts.items())}"


def _lines(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield from (f"{title}: {plain(line)}" for line in lines)


def _figure(one: Mapping[str, float | None], unit: str = "", places: int = 0) -> str:
    typical, most = (None if one[name] is None else f"{unit}{one[name]:,.{places}f}" for name in one)
    return f"{typical} (at most {most})" if most else f"{typical} (no bound)"
