"""Carries plans out: all of an install or nothing, with a receipt that is on the disk before the first file
changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from skillopt.changes._plan import Change, Plan, plan_install, plan_uninstall
from skillopt.changes._receipt import Receipt, Receipts, missing, remove_empty
from skillopt.errors import UnknownName, UsageError
from skillopt.files import write_bytes
from skillopt.plugins._agent import Agent, Place
from skillopt.plugins._kit import Kit
from skillopt.registry import Registry

Write = Callable[[Path, bytes, bool], None]
"""Puts bytes into a file, whole or not at all; told whether to wait until the disk has them."""
_registry = Registry("agent", "skillopt.plugins")


def agent_names() -> list[str]:
    """The names of all agents, as they are typed."""
    return [name.replace("_", "-") for name in _registry.names()]


def agent(name: str) -> Agent:
    """An agent by its name. Raises `UnknownName` with the near miss."""
    if name.replace("_", "-") not in agent_names():
        raise UnknownName("agent", name, agent_names())
    found = _registry.get(name.replace("-", "_"))
    assert isinstance(found, Agent)
    return found


def _write(path: Path, data: bytes, durable: bool) -> None:
    write_bytes(path, data, durable=durable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installer:
    """Installs agents' files and takes them back."""

    receipts: Receipts
    now: Callable[[], datetime]
    write: Write = _write

    def plan(self, name: str, place: Place, kit: Kit) -> Plan:
        """What an install would do; nothing is written."""
        found = agent(name)
        if place.scope not in found.scopes:
            raise UsageError(f"{name} is installed for {_scope_words(found)}. {_remedy(found)}")
        return plan_install(found.actions(place, kit), place, self.receipts.load(name, place))

    def install(self, name: str, place: Place, kit: Kit) -> Plan:
        """Install, or bring an install up to date. Where a file cannot be written, everything is put back
        before the error is raised.
        """
        if (plan := self.plan(name, place, kit)).is_done and self.receipts.load(name, place) is not None:
            return plan
        state_folders = missing(self.receipts.folder)
        with self.receipts.alone():
            plan = self.plan(name, place, kit)  # looked at again, now that nobody else of us writes
            earlier = self.receipts.load(name, place)
            made = [
                *map(Path, earlier.folders if earlier else ()),
                *state_folders,
                *self.receipts.bare(),
                *plan.folders,
            ]
            receipt = Receipt(
                agent=name,
                scope=place.scope,
                root=str(place.root),
                version=kit.version,
                installed=self.now(),
                touched=plan.touched,
                folders=tuple(dict.fromkeys(map(str, made))),
            )
            self.receipts.save(receipt)
            done: list[Change] = []
            try:
                for change in plan.changes:
                    done.append(change)
                    self._carry_out(change)
            except BaseException as error:
                # Also on Ctrl-C: half an install is worse than none.
                self._put_back(done)
                remove_empty(list(plan.folders))
                if earlier is None:
                    self.receipts.remove(receipt)
                else:
                    self.receipts.save(earlier)
                if isinstance(error, OSError):
                    raise _unwritable(done[-1].path, error) from error
                raise
        return plan

    def plan_back(self, name: str, place: Place) -> Plan:
        """What an uninstall would do; nothing is written. Raises `UsageError` where nothing is installed."""
        return plan_uninstall(self._receipt(name, place))

    def uninstall(self, name: str, place: Place) -> Plan:
        """Take an install back. Every file is as it was, or, where somebody changed it since, without our
        part.

        Where it stops half-way, the same command goes on: the receipt is removed last.
        """
        self._receipt(name, place)
        with self.receipts.alone():
            receipt = self._receipt(name, place)  # read again, now that nobody else of us writes
            plan = plan_uninstall(receipt)
            for change in plan.changes:
                try:
                    self._carry_out(change)
                except OSError as error:
                    raise _unwritable(change.path, error) from error
            self.receipts.remove(receipt)
            stay = remove_empty([Path(folder) for folder in receipt.folders])
            self._hand_over(stay)
        remove_empty(stay)  # where nobody else is installed, those that held the lock
        return plan

    def _receipt(self, name: str, place: Place) -> Receipt:
        agent(name)
        found = self.receipts.load(name, place)
        if found is None:
            others = [one for one in self.receipts.all() if one.agent == name]
            elsewhere = [f"--project {one.root}" if one.scope == "project" else "--user" for one in others]
            hint = (
                f"It is installed with {' and '.join(elsewhere)}."
                if others
                else "'skillopt plugin list' shows what is."
            )
            where = "for all projects" if place.project is None else f"in {place.root}"
            raise UsageError(f"{name} is not installed {where}. {hint}")
        return found

    def _carry_out(self, change: Change) -> None:
        if change.before == change.after:
            return
        if change.after is None:
            change.path.unlink(missing_ok=True)
        else:
            # A new file of ours can be written again; a file that was there is the person's.
            self.write(change.path, change.after, change.before is not None)

    def _put_back(self, done: list[Change]) -> None:
        for change in reversed(done):
            if change.before is None:
                change.path.unlink(missing_ok=True)
            elif change.path.is_file() and change.path.read_bytes() != change.before:
                self.write(change.path, change.before, True)

    def _hand_over(self, folders: list[Path]) -> None:
        """Folders that are still used by another install are removed with the last of them."""
        try:
            others = self.receipts.all()
        except (
            UsageError
        ):  # another install's receipt is damaged, which its own commands say; an empty folder may stay
            return
        if folders and others:
            kept = tuple(dict.fromkeys([*map(str, folders), *others[0].folders]))
            self.receipts.save(others[0].model_copy(update={"folders": kept}))


def _scope_words(found: Agent) -> str:
    return " or ".join(
        "all projects of yours" if scope == "user" else "one project" for scope in found.scopes
    )


def _remedy(found: Agent) -> str:
    return "Name it: --project FOLDER." if found.scopes == ("project",) else "Leave --project out."


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{path} cannot be written: {error.strerror or error}. Check the permissions of its folder, then try"
        " again."
    )
