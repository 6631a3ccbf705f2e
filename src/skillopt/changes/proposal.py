"""A proposal: decides what a night may ask a person to adopt, and which of the proposals that lie on the disk
are the user's own.

It is staged in the user's state folder, never in the repository, and sealed with the user's key. One file
holds all that adoption reads: the pinned text, every change with its evidence, the verdict and the cost; the
pages beside it are for people and never read back.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from skillopt.changes._manifest import Change, Cost, Evidence, Judgement, Pair, Proposal, Target
from skillopt.changes._memory_block import block, is_memory_file
from skillopt.changes._page import page
from skillopt.changes._place import confined
from skillopt.changes._seal import Key, make_key, read_key
from skillopt.changes._weave import weave
from skillopt.errors import SkillError, UsageError
from skillopt.files import write_bytes
from skillopt.skill.document import Document, to_lf
from skillopt.skill.folder import SKILL_FILE
from skillopt.skill.spec import new_violations, violations

__all__ = [
    "Change",
    "Cost",
    "Draft",
    "Evidence",
    "Judgement",
    "Pair",
    "Proposal",
    "Step",
    "Store",
    "Target",
    "checked",
    "live_text",
    "refuse_unfit",
]

MANIFEST = "proposal.json"
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One edit that was applied: the text after it (of a memory file what then stands in our block), and its
    evidence.
    """

    text: str
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A target as a night hands it in. `before` is the whole file as the night read it; the steps lead from
    there to the proposed text.
    """

    name: str
    kind: Literal["skill", "memory"]
    path: Path
    before: str | None
    steps: Sequence[Step]
    judgement: Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The user's proposals. `state` is the user's state folder; the key lies in a file of its own."""

    state: Path
    key_file: Path

    @property
    def home(self) -> Path:
        """The folder with one folder for each proposal."""
        return self.state / "proposals"

    def folder(self, id: str) -> Path:
        """The folder of a proposal. Raises `UsageError` for what is no id of a proposal."""
        if not _ID.fullmatch(id):
            raise UsageError(f"{id!r} is no id of a proposal. `skillopt sleep status` lists them.")
        return self.home / id

    def ids(self) -> list[str]:
        """The ids of all proposals, the newest first; what else lies there is not ours."""
        if not self.home.is_dir():
            return []
        return sorted(
            (path.name for path in self.home.iterdir() if _ID.fullmatch(path.name) and path.is_dir()),
            reverse=True,
        )

    def key(self) -> Key:
        """The user's key. Raises `UsageError` where there is none: then nothing here is the user's."""
        if (found := read_key(self.key_file)) is None:
            raise UsageError(
                f"There is no key {self.key_file}, so no proposal in {self.home} can be yours. Nothing of"
                " them is used."
            )
        return found

    def load(self, id: str) -> Proposal:
        """Read a proposal. Raises `UsageError` for one that is not there, was altered, or was not made with
        the user's key.
        """
        folder = self.folder(id)
        key = self.key()
        try:
            record = json.loads((folder / MANIFEST).read_bytes())
        except FileNotFoundError as error:
            raise UsageError(
                f"There is no proposal {id} in {self.home}. `skillopt sleep status` lists them."
            ) from error
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(
                f"{folder / MANIFEST} cannot be read ({error}). Nothing of it is used; delete {folder}."
            ) from error
        body = key.opened(record, purpose(id))
        if body is None:
            raise UsageError(
                f"{folder / MANIFEST} was not written by a night of yours, or was altered since: it is not"
                f" sealed with your key. Nothing of it is used. Delete {folder}; the next night makes a"
                " proposal of its own."
            )
        try:
            return Proposal.model_validate(body)
        except ValidationError as error:
            raise UsageError(
                f"{folder / MANIFEST} was written by another version of SkillOpt ({error.error_count()}"
                " fields differ)."
            ) from error

    def stage(
        self,
        drafts: Sequence[Draft],
        *,
        roots: Sequence[Path],
        project: str,
        night: str,
        now: datetime,
        cost: Cost | None = None,
        notes: Sequence[str] = (),
        simulated: bool = False,
    ) -> Proposal:
        """Write a proposal, whole or not at all, and return it. Nothing outside the state folder changes.

        Raises `UsageError` for a target outside the roots, and `SkillError` for a text that may not be
        proposed.
        """
        self.refuse_inside(roots)
        moment = now.astimezone(timezone.utc)
        id = f"{moment:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        proposal = Proposal(
            id=id,
            created=moment,
            project=project,
            night=night,
            targets=_targets(drafts, roots),
            cost=cost or Cost(),
            notes=tuple(notes),
            simulated=simulated,
        )
        record = make_key(self.key_file).sealed(proposal.model_dump(mode="json"), purpose(id))
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        growing = self.home / f".{id}.new"
        growing.mkdir(mode=0o700)
        try:
            files = {
                MANIFEST: json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
                "proposal.diff": "".join(target.diff() for target in proposal.targets),
                "proposal.md": page(proposal),
            }
            for name, text in files.items():
                write_bytes(growing / name, text.encode(), mode=0o600)
            growing.rename(self.home / id)
        except BaseException:
            # Also on Ctrl-C: half a proposal is none.
            shutil.rmtree(growing, ignore_errors=True)
            raise
        return proposal

    def refuse_inside(self, roots: Sequence[Path]) -> None:
        """Raise `UsageError` when the proposals or the key lie below a root: a repository that brings both
        could plant its own.
        """
        for ours in (self.state, self.key_file):
            for root in roots:
                inner, outer = Path(os.path.realpath(ours)), Path(os.path.realpath(root))
                if inner == outer or outer in inner.parents:
                    raise UsageError(
                        f"{ours} lies in {root}, a folder that adoption may write to. Keep proposals and key"
                        " outside of it, or name the folders of your skills instead of one that holds"
                        " everything."
                    )


def live_text(path: Path, roots: Sequence[Path]) -> str | None:
    """The text of a target as it is now, for a night to start from; None where there is no file.

    Raises `UsageError` for a place that adoption would refuse, so that no night is paid for it, and
    `SkillError` for what is not UTF-8.
    """
    _refuse_name(path, "memory" if is_memory_file(path) else "skill")
    found = confined(path, roots).look()
    try:
        return None if found is None else found.data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SkillError(
            f"{path} is not UTF-8: byte {error.start} cannot be read ({error.reason}). Save the file as"
            " UTF-8."
        ) from error


def refuse_unfit(draft: Draft, roots: Sequence[Path]) -> None:
    """Raise `UsageError` for a draft that could not be staged."""
    _targets([draft], roots)


def purpose(id: str, what: str = "proposal") -> str:
    """What a seal vouches for: a record of this kind that belongs to this proposal."""
    return f"skillopt.night.{what}.v1\0{id}"


def checked(target: Target, chosen: Collection[int]) -> bytes | None:
    """The bytes a target would get. Raises `SkillError` for a text that would change what is not ours to
    change, or break a rule.
    """
    text = target.text(chosen)
    if text is None or text == target.before:
        return target.data(())
    before, path = target.before or "", Path(target.path)
    if target.kind == "memory":
        if (block(text) or "") != target.weave.text(chosen).strip("\n"):
            raise SkillError(
                f"{path}: what is proposed for our block could not be found in it again. Nothing is written."
            )
        return text.encode()
    folder = path.parent.name if path.name == SKILL_FILE else None
    if before and Document(before).frontmatter != Document(text).frontmatter:
        raise SkillError(
            f"{path}: the new text would change the frontmatter, which is yours. Nothing is written."
        )
    found = new_violations(before, text, folder) if before else violations(text, folder)
    if broken := [one.message for one in found if one.severity == "error"]:
        raise SkillError(f"{path}: agents may refuse the new text: {' '.join(broken)} Nothing is written.")
    return text.encode()


def _targets(drafts: Sequence[Draft], roots: Sequence[Path]) -> tuple[Target, ...]:
    if not drafts:
        raise UsageError("A proposal without a target proposes nothing.")
    targets: list[Target] = []
    places: set[str] = set()
    for draft in drafts:
        place = confined(draft.path, roots)
        place.look()
        if place.folded in places or draft.name in {target.name for target in targets}:
            raise UsageError(
                f"{draft.name} ({draft.path}) is in the proposal twice, or under a name that some systems"
                " take for the same."
            )
        places.add(place.folded)
        _refuse_name(draft.path, draft.kind)
        targets.append(_target(draft, place.path, 1 + sum(len(target.changes) for target in targets)))
    return tuple(targets)


def _refuse_name(path: Path, kind: Literal["skill", "memory"]) -> None:
    if not (is_memory_file(path) if kind == "memory" else path.suffix == ".md"):
        raise UsageError(
            f"{path} is not the name of a {kind} file, so nothing is proposed for it. A skill is a .md file."
        )


def _target(draft: Draft, path: Path, first: int) -> Target:
    before = draft.before or ""
    newline, texts = "\n", [block(before) or "", *(step.text.strip("\n") for step in draft.steps)]
    if draft.kind == "memory":
        # In our block all lines end, whatever the file does, so that its last rule is a line like any other.
        texts = [f"{to_lf(text)}\n" if text.strip() else "" for text in texts]
    else:
        newline, texts = Document(before).newline, [before, *(step.text for step in draft.steps)]
    woven = weave(texts, newline=newline, first=first)
    target = Target(
        name=draft.name,
        kind=draft.kind,
        path=str(path),
        before=draft.before,
        weave=woven.weave,
        changes=tuple(
            Change(
                id=number,
                evidence=tuple(draft.steps[step - 1].evidence for step in woven.sources[number]),
                needs=woven.needs.get(number, ()),
            )
            for number in woven.weave.edits
        ),
        judgement=draft.judgement,
    )
    if not target.changes:
        raise UsageError(f"Nothing is proposed for {draft.name}: its text stays as it is.")
    if woven.weave.text(()) != texts[0] or woven.weave.text(woven.weave.edits) != texts[-1]:
        raise AssertionError(f"the weave of {draft.name} does not give its texts back")
    checked(target, target.weave.edits)
    return target
