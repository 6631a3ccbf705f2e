"""How nights are told: one JSON object for programs, the same facts as safe lines for people."""

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
from skillopt_sleep import Cleaned, NightContext, NightResult, Preview, project_id
from skillopt_sleep.adoption import AdoptionResult
from skillopt_sleep.proposal import NightProposal
from skillopt_sleep.proposal_page import plain
from skillopt_sleep.schedule import Schedule
from skillopt_sleep.store import StagedProposals

_MOST = 10
_OF_TASK = {"id", "split", "outcome", "kind", "prompt", "checks", "rubric", "skills", "sessions"}
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
        "dropped": dict(found.dropped),
        "skipped_records": dict(found.skipped),
        "skills": dict(found.skills().most_common()),
        "notes": list(found.notes),
    }


def harvest(told: Mapping[str, Any], output: Path | None) -> Iterator[str]:
    """Read, kept and dropped, by reason; and the file of tasks, where one was wanted."""
    yield (
        f"{words.count(told['read'], 'session')} read since {told['since'] or 'the beginning'},"
        f" {told['kept']} kept"
    )
    yield from _counts("kept from", told["sources"])
    yield from _counts("dropped", told["dropped"])
    yield from _counts("records passed over", told["skipped_records"])
    yield from _counts("skills used", told["skills"])
    yield f"{words.count(told['of_project'], 'session')} of this project"
    yield from _lines("note", told["notes"])
    if output is not None and not told["tasks"]:
        yield f"No task was found, so {output} was not written."
    elif output is not None:
        yield (
            f"{words.count(told['tasks'], 'task')} written to {told['output']}, redacted. Read them, set"
            ' "reviewed": true, and use them:'
        )
        yield f"  skillopt sleep run --tasks-file {told['output']}"


def preview_json(seen: Preview) -> dict[str, Any]:
    """What a night would work on and cost."""
    gathered = seen.gathered
    mined = gathered.mined
    return {
        "sessions": len(gathered.sessions),
        "standing": mined.standing,
        "note": mined.note,
        "tasks": [task.model_dump(mode="json", include=_OF_TASK) for task in mined.tasks],
        "suggestions": [asdict(one) for one in mined.suggestions],
        "states": dict(mined.states),
        "targets": [
            {"name": one.name, "path": str(one.path), "new": one.before is None, "tasks": len(one.tasks)}
            for one in gathered.targets
        ],
        "notes": [*gathered.notes, *gathered.harvest.notes],
        "cost": _cost(seen) if gathered.targets or seen.to_read else None,
        "to_read": seen.to_read,
        "remedy": seen.remedy,
    }


def preview(told: Mapping[str, Any]) -> Iterator[str]:
    """Tasks, suggestions, cost and remedy."""
    yield f"{words.count(told['sessions'], 'session')} of this project. {told['note']}"
    for task in told["tasks"]:
        checks = ", ".join(
            f"{check['op']}={check['arg']}" if check["arg"] is not None else check["op"]
            for check in task["checks"]
        )
        checks = checks or f"rubric: {task['rubric']}"
        yield f"  {task['split']:<5} {task['outcome']:<9} {plain(task['prompt'])[:90]}  [{plain(checks)}]"
    for one in told["suggestions"]:
        yield f"suggestion, not measured: {plain(one['kind'])} ({plain(one['reason'])})"
        for said in list(one["wishes"])[:3]:
            yield f"    you said: {plain(said)}"
    yield from _counts("sessions by what they became", told["states"])
    for target in told["targets"]:
        new = ", a new skill" if target["new"] else ""
        yield (
            f"would work on {target['name']} with {words.count(target['tasks'], 'task')}:"
            f" {target['path']}{new}"
        )
    yield from _lines("note", told["notes"])
    if told["to_read"]:
        yield f"a model would read {words.count(told['to_read'], 'session')}, once"
    if told["cost"] is not None:
        cost = told["cost"]
        yield (
            f"likely cost: {_likely(cost['calls'])} calls, {_likely(cost['tokens'])} tokens,"
            f" {_dollars(cost['usd'])}"
        )
    if told["remedy"]:
        yield told["remedy"]


def night_json(ended: NightResult, context: NightContext, notices: Sequence[str] = ()) -> dict[str, Any]:
    """How a night ended, and which notices were given of it."""
    record, proposal = ended.record, ended.proposal
    skills = []
    for target in ended.plan.targets:
        outcome = target.ended
        judged = outcome.judgement
        skills.append(
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
                "edits": [edit.evidence.edit for edit in outcome.edits],
                "cost": outcome.cost.model_dump(),
            }
        )
    return {
        "night": record.number,
        "resumed": ended.resumed,
        "project": str(context.project),
        "accepted": any(skill["accepted"] for skill in skills),
        "outcome": record.outcome,
        "n_sessions": record.sessions,
        "n_tasks": record.tasks,
        "suggestions": [one.model_dump(mode="json") for one in ended.plan.suggestions],
        "states": ended.plan.states,
        "tokens": record.tokens,
        "dollars": record.dollars,
        "mining": None if ended.plan.mining is None else ended.plan.mining.model_dump(),
        "skills": skills,
        "notes": list(ended.plan.notes),
        "proposal": None if proposal is None else proposal.id,
        "flagged": [] if proposal is None else flagged_json(proposal),
        "staging_dir": None if proposal is None else str(context.home.store.folder(proposal.id)),
        "adopted": False,
        "notices": list(notices),
    }


def night(told: Mapping[str, Any]) -> Iterator[str]:
    """The verdict of each skill, and what to do next."""
    again = ", taken up again" if told["resumed"] else ""
    yield (
        f"Night {told['night']}{again}: {words.count(told['n_sessions'], 'session')},"
        f" {words.count(told['n_tasks'], 'task')}."
    )
    for skill in told["skills"]:
        finding = f"; {skill['finding']}" if skill["edits"] else ""
        yield (
            f"{skill['name']}: held-out {words.score(skill['baseline'])} to"
            f" {words.score(skill['candidate'])}, {skill['gate_action']}{finding}"
        )
        yield f"  {skill['claim']}"
        if not skill["accepted"] and skill["why"] not in skill["claim"]:
            yield f"  Why: {plain(skill['why'])}"
        for edit in skill["edits"]:
            yield f"  + {plain(words.edit(edit))}"
    yield from _counts("sessions by what they became", told["states"])
    for one in told["suggestions"]:
        yield (
            f"suggestion, not measured ({words.count(len(one['sessions']), 'session')}): {plain(one['wish'])}"
        )
    yield from _lines("note", told["notes"])
    tokens = words.UNKNOWN if told["tokens"] is None else f"{told['tokens']:,}"
    yield f"Spent: {tokens} tokens, cost {words.money(told['dollars'])}."
    if told["proposal"] is None:
        yield f"Nothing is proposed: {told['outcome']}."
    else:
        yield f"Proposal {told['proposal']}: {told['staging_dir']}"
        yield from _flagged(told["flagged"])
        yield (
            "Nothing has changed yet: `skillopt sleep` shows it, `skillopt sleep adopt` takes what is shown"
            " to help and not flagged."
        )
        yield from told["notices"]


def status_json(
    context: NightContext, standing: StagedProposals, schedules: Sequence[Schedule], trouble: str
) -> dict[str, Any]:
    """Nights, proposals and schedules."""
    kept, roots = context.kept, context.roots()
    state = kept.load()
    ours = next((entry for entry in schedules if entry.id == project_id(context.project)), None)
    tail = None if ours is None else kept.log_tail()
    return {
        "project": str(context.project),
        "state_path": str(kept.folder),
        "night": state.night,
        "open_night": state.open,
        "nights": [record.model_dump(mode="json") for record in state.nights[-5:]],
        "proposals": [
            {
                "id": one.proposal.id,
                "project": one.proposal.project,
                "state": one.state,
                "note": one.note,
                "edits": {str(edit): decided for edit, decided in one.edits.items()},
                "unmeasured": [edit.id for edit in one.proposal.edits if not edit.is_measured],
                "flagged": flagged_json(one.proposal),
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
                    for target in one.proposal.targets
                    for disk, note in [one.on_disk(target, roots)]
                ],
            }
            for one in standing.proposals
        ],
        "refused": dict(standing.refused),
        "schedule": (
            None if ours is None else {"time": ours.time, "command": list(ours.command), "log": str(kept.log)}
        ),
        "schedule_trouble": trouble,
        "log": None if tail is None else {"written": tail.written.isoformat(), "lines": list(tail.lines)},
    }


def status(told: Mapping[str, Any]) -> Iterator[str]:
    """Where everything stands."""
    yield f"{told['project']}: {words.count(told['night'], 'night')} so far"
    for record in told["nights"]:
        yield (
            f"  night {record['number']}, {record['ended'][:16]}: {words.count(record['tasks'], 'task')},"
            f" {plain(record['outcome'])}"
        )
    if told["open_night"] is not None:
        yield f"Night {told['open_night']} is open: `skillopt sleep run` goes on with it."
    if not told["proposals"]:
        yield "No proposal is staged."
    for one in told["proposals"][:_MOST]:
        edits = ", ".join(f"{number} {word}" for word, number in Counter(one["edits"].values()).items())
        open_ones = [edit for edit in one["unmeasured"] if one["edits"][str(edit)] == "pending"]
        not_tried = f"; not measured: {', '.join(map(str, open_ones))}" if open_ones else ""
        yield (f"Proposal {one['id']}: {one['state']} ({edits}{not_tried}) {one['note']}".rstrip())
        for target in one["targets"]:
            is_new = target["disk"] == "old" and target["note"]  # the old text of a new file is none
            state = target["note"] if is_new else f"{_ON_DISK[target['disk']]}. {target['note']}".rstrip()
            yield f"  {target['name']}: {target['path']}: {state}"
            yield f"    {target['finding']}"
        waiting = [flag for flag in one["flagged"] if one["edits"][str(flag["edit"])] == "pending"]
        yield from (f"  {line}" for line in _flagged(waiting))
    for id, why in told["refused"].items():
        yield f"Refused {id}: {plain(why)}"
    if told["schedule"] is not None:
        yield f"Scheduled at {told['schedule']['time']}: {' '.join(told['schedule']['command'])}"
    elif told["schedule_trouble"]:
        yield f"Schedules: {told['schedule_trouble']}"
    else:
        yield "Nothing is scheduled for this project."
    if told["log"] is not None:
        yield f"Log, last written {told['log']['written'][:16]}:"
        for line in told["log"]["lines"][-_MOST:]:
            yield f"  {line}"


def flagged_json(proposal: NightProposal) -> list[dict[str, Any]]:
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


def done(result: AdoptionResult) -> Iterator[str]:
    """What a decision did, in words."""
    yield from _lines("recovered", result.recovered)
    verb = {"adopt": "Adopted", "undo": "Undone", "discard": "Discarded"}[result.change.action]
    yield f"{verb}: {words.count(len(result.change.taken), 'change')} of proposal {result.proposal}."
    for path in result.change.written:
        yield f"  {'wrote' if path.exists() else 'removed'} {path}"
    if result.change.action == "adopt":
        yield from (f"  {plain(said)}" for said in result.findings)
    if named := " ".join(f"--edit {edit}" for edit in result.left):
        left = f"{words.count(len(result.left), 'change')} left, flagged or not shown to help"
        yield f"  {left}: `skillopt sleep adopt {result.proposal} {named}`"
    for name in result.change.left_out:
        yield f"  left {name} as it is: somebody else changed it at the last moment"
    if result.backups is not None and result.change.action == "adopt":
        yield f"  backups lie in {result.backups}; `skillopt sleep undo` puts everything back"


def cleaned_json(done: Cleaned, *, dry: bool) -> dict[str, Any]:
    """What was taken away."""
    folders = [str(path) for path in done.folders]
    return {
        "dry_run": dry,
        "proposals": list(done.proposals),
        "folders": folders,
        "bytes": done.size,
        "notes": list(done.notes),
    }


def cleaned(told: Mapping[str, Any]) -> Iterator[str]:
    """What was taken away, in words."""
    yield from _lines("note", told["notes"])
    what = (
        f"{words.count(len(told['proposals']), 'proposal')} and"
        f" {words.count(len(told['folders']), 'run folder')} of nights"
    )
    yield f"{'Would take' if told['dry_run'] else 'Took'} away {what}, {told['bytes'] / 1e6:,.1f} MB."


def findings(said: Iterable[str]) -> None:
    """What the held-out tasks say, as lines that a program which applies the diff behind them passes over."""
    for line in said:
        echo(f"# {plain(line)}")


def diff(text: str) -> None:
    """A unified diff, without characters that could steer a terminal."""
    shown = "".join(
        char if char.isprintable() or char in "\n\t" else "�" for char in text.replace("\r\n", "\n")
    )
    print_coloured(shown)


def _counts(title: str, counts: Mapping[str, int]) -> Iterator[str]:
    if counts:
        yield f"  {title}: {', '.join(f'{plain(name)} {number}' for name, number in counts.items())}"


def _lines(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield from (f"{title}: {plain(line)}" for line in lines)


def _cost(seen: Preview) -> dict[str, Any]:
    ranges = {"calls": seen.calls, "tokens": seen.tokens, "usd": seen.usd}
    return {name: None if one is None else one.as_json() for name, one in ranges.items()}


def _likely(one: Mapping[str, float]) -> str:
    return f"{one['likely']:,.0f} ({one['low']:,.0f} to {one['high']:,.0f})"


def _dollars(one: Mapping[str, float] | None) -> str:
    if one is None:
        return "cost unknown"
    return f"${one['likely']:,.2f} (${one['low']:,.2f} to ${one['high']:,.2f})"
