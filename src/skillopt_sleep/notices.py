"""Notices of a proposal that waits, each only where it was asked for: a line at the start of an agent's
session, a desktop notification, a branch with a commit for a pull request.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from skillopt.errors import Fault
from skillopt.files import temporary_folder
from skillopt.process import ask_process, git_env, minimal_env
from skillopt_sleep.context import NightContext
from skillopt_sleep.night import NightResult
from skillopt_sleep.texts import with_learned

_SECONDS = 20.0
_DESKTOP = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")
_TITLE = "SkillOpt"


def banner(context: NightContext, now: Callable[[], datetime]) -> str:
    """What an agent's session begins with; empty where that is not wanted, or nothing waits here."""
    if "banner" not in context.settings.notices:
        return ""
    every = context.adoption(now).status().proposals
    mine = [one for one in every if one.project == str(context.project) and one.state == "pending"]
    if not mine:
        return ""
    proposal = mine[0]
    changes = "; ".join(f"{target.name} ({target.judgement.finding})" for target in proposal.targets)
    return f"{_TITLE}: last night proposes changes to {changes}. `skillopt sleep` shows them and asks you."


def give_notices(context: NightContext, ended: NightResult, environ: Mapping[str, str]) -> list[str]:
    """Give the notices that were asked for, of a night that proposes something; what was done, in words. A
    notice that cannot be given is said and fails nothing.
    """
    if ended.proposal is None:
        return []
    given: list[str] = []
    if "desktop" in context.settings.notices:
        given.append(_on_desktop(f"The night {ended.plan.outcome}. `skillopt sleep` shows it.", environ))
    if "branch" in context.settings.notices:
        given.append(_on_branch(context.project, ended))
    return given


def desktop_command(platform: str, text: str) -> list[str]:
    """How this system shows a notification; texts are arguments and never part of a script."""
    if platform == "darwin":
        script = [
            "on run argv",
            "display notification (item 1 of argv) with title (item 2 of argv)",
            "end run",
        ]
        return ["osascript", *(part for line in script for part in ("-e", line)), text, _TITLE]
    return ["msg", "*", text] if platform == "win32" else ["notify-send", "--app-name", _TITLE, _TITLE, text]


def _on_desktop(text: str, environ: Mapping[str, str]) -> str:
    env = minimal_env({name: environ[name] for name in _DESKTOP if name in environ})
    try:
        done = ask_process(desktop_command(sys.platform, text), env=env, timeout=_SECONDS)
    except Fault as fault:
        return f"No desktop notification: {fault.detail}."
    why = done.stderr.decode("utf-8", "replace").strip()[-200:]
    return f"No desktop notification: {why}." if done.code else "A desktop notification was shown."


def _on_branch(project: Path, ended: NightResult) -> str:
    """Commit the texts that proved better to a new branch, without touching working tree and index."""
    assert ended.proposal is not None, "a night that proposes something"
    texts = {
        target.path: target.ended.edits[-1].text
        if target.kind == "skill"
        else with_learned(target.before or "", target.ended.edits[-1].text)
        for target in ended.plan.targets
        if target.ended.judgement.significance == "real" and target.path.is_relative_to(project)
    }
    if not texts:
        return "No branch: nothing that is shown to help lies in this project."
    branch = f"skillopt/{ended.proposal.id}"
    try:
        with temporary_folder("skillopt-index-") as folder:
            env = {"GIT_INDEX_FILE": str(folder / "index"), "GIT_LITERAL_PATHSPECS": "1"}

            def git(*words: str) -> str:
                done = ask_process(["git", "-C", str(project), *words], env=git_env(env), timeout=_SECONDS)
                if done.code:
                    raise Fault("contract", done.stderr.decode("utf-8", "replace").strip()[-200:])
                return done.stdout.decode().strip()

            top = Path(git("rev-parse", "--show-toplevel"))
            git("read-tree", "HEAD")
            for number, (path, text) in enumerate(texts.items()):
                file = folder / str(number)
                file.write_bytes(text.encode())
                blob = git("hash-object", "-w", "--no-filters", str(file))
                inside = path.resolve().relative_to(top.resolve()).as_posix()
                git("update-index", "--add", "--cacheinfo", f"100644,{blob},{inside}")
            names = ", ".join(target.name for target in ended.proposal.targets)
            findings = "\n".join(ended.proposal.findings([edit.id for edit in ended.proposal.edits]))
            message = f"Skills learned from sessions: {names}\n\n{ended.plan.outcome}\n\n{findings}"
            commit = git("commit-tree", git("write-tree"), "-p", "HEAD", "-m", message)
            git("update-ref", f"refs/heads/{branch}", commit, "")
    except (Fault, ValueError) as error:
        return f"No branch: {getattr(error, 'detail', error)}."
    return f"Branch {branch} holds it as a commit, for a pull request; your working tree is as it was."
