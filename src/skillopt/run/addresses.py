"""At which addresses a folder's models were asked: another one is another model without `--same-model`.

A folder notes each address with the one that its answers are kept under, so that what moved once stays moved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from skillopt.config.keys import declared
from skillopt.config.roles import address_of, parse_model_string
from skillopt.config.sections import RoleName
from skillopt.errors import RunConflict, Stopped, UsageError
from skillopt.models.port import ModelSpec
from skillopt.run.job import Job, Target
from skillopt.runs.database import Database
from skillopt.runs.log import DATABASE, difference
from skillopt.runs.reader import is_finished, is_run

AskedModels: TypeAlias = Sequence[tuple[RoleName, ModelSpec]]
AddressMap: TypeAlias = dict[str, dict[str, str]]
"""By role and model: each address that was asked, and the one under which its answers are kept."""
_NOTE = "addresses"
_DEFAULT_FOLDER = re.compile(r"(\w+_)[0-9a-f]{10}")
T = TypeVar("T", Job, Target)


def note_addresses(database: Database, asked: AskedModels) -> None:
    """Keep in a run's database where its models are asked."""
    before = database.noted(_NOTE)
    noted = AddressMap() if before is None or not database.holds_answers() else json.loads(before)
    for role, spec in asked:
        noted.setdefault(_model(role, spec), {})[address_of(spec)] = spec.address or ""
    if (now := json.dumps(noted, sort_keys=True)) != before:
        database.note(_NOTE, now)


def asked_by(job: Job, targets: Sequence[Target] = ()) -> AskedModels:
    """The models of a training run with their roles, or those of an evaluation of `targets`."""
    rest = {role: spec for role, spec in job.roles.items() if role == "judge" or not targets}
    rest.pop("target", None)
    specs = [one.spec for one in targets] or job.specs
    return [("target", spec) for spec in specs] + list(rest.items())


def kept_addresses(
    asked: AskedModels,
    folder: Path,
    identity: Mapping[str, Any],
    *,
    runs: Sequence[Path] = (),
    same_model: bool = False,
) -> AddressMap:
    """Under which addresses the answers of these models are kept, in their folder or in `runs`.

    Raises `RunConflict` where the folder was measured at other addresses, unless with `same_model` they stand
    for these. Where a default folder is new, that is looked for beside it, as addresses are in its name.
    """
    groups = _grouped(asked)
    if same_model and not is_run(folder) and not runs:
        folder = _run_at_other_addresses(asked, folder, identity)
    own, known = _known(folder), AddressMap()
    for one in (*map(_known, runs), own):
        for model, kept in one.items():
            known.setdefault(model, {}).update(kept)
    if same_model and not known.keys() & groups.keys():
        raise UsageError(
            "--same-model goes on with answers from another address, and none are known of"
            f" {', '.join(groups)}. Name the folder that holds them (--out_root)."
        )
    found, moved = AddressMap(), list[str]()
    for model, (spec, here) in groups.items():
        kept = known.get(model, {})
        found[model] = {address: kept[address] for address in here if address in kept}
        new, free = here - kept.keys(), sorted({*kept.values()} - {*found[model].values()})
        if same_model and new and free:
            if len(new) > 1 or len(free) > 1:
                raise UsageError(
                    f"--same-model cannot tell which address {model} moved from:"
                    f" {', '.join(_shown(address, spec) for address in free)}. Name another folder"
                    " (--out_root)."
                )
            found[model][new.pop()] = free[0]
        elif new and free and model in own:
            there, now = (" and ".join(_shown(one, spec) for one in sorted(each)) for each in (free, new))
            moved.append(f"  {model}: {there} there, {now} now")
    if moved:
        lines = "\n".join(moved)
        raise RunConflict(
            f"{folder} holds answers from other addresses; nothing was changed.\n{lines}\nIf the same model"
            " answers there now, go on with --same-model. If it is another one, name another folder"
            " (--out_root)."
        )
    return found


def at_kept(one: T, kept: AddressMap) -> T:
    """The job or target with the addresses under which its answers are kept."""

    def moved(role: RoleName, spec: ModelSpec) -> ModelSpec:
        address = spec.address or ""
        return spec.at(kept.get(_model(role, spec), {}).get(address, address))

    if isinstance(one, Target):
        return replace(one, spec=moved("target", one.spec))
    roles: dict[str, Any] = {role: moved(role, spec) for role, spec in one.roles.items()}
    return replace(one, **roles, targets=tuple(at_kept(each, kept) for each in one.targets))


def stopped_elsewhere(asked: AskedModels, folder: Path, identity: Mapping[str, Any]) -> list[Path]:
    """Where a default folder is new: unfinished runs beside it that differ in addresses alone."""
    return [] if is_run(folder) else _beside(asked, folder, identity, lambda run: not is_finished(run))


def _beside(
    asked: AskedModels, folder: Path, identity: Mapping[str, Any], wanted: Callable[[Path], bool] = is_run
) -> list[Path]:
    """Runs beside a default folder that asked the same models and differ from it in addresses alone."""
    form, models = _DEFAULT_FOLDER.fullmatch(folder.name), _grouped(asked).keys()
    found = []
    for path in [] if form is None else sorted(folder.parent.glob(f"{form[1]}*")):
        with suppress(RunConflict, Stopped):  # a damaged folder beside it is no concern of this run
            is_other = path != folder and is_run(path)
            if is_other and _is_moved(path, identity) and models & _known(path).keys() and wanted(path):
                found.append(path)
    return found


def _run_at_other_addresses(asked: AskedModels, folder: Path, identity: Mapping[str, Any]) -> Path:
    found = _beside(asked, folder, identity)
    if len(found) == 1:
        return found[0]
    told = f"There are several: {', '.join(path.name for path in found)}" if found else "There is none"
    raise UsageError(
        f"--same-model goes on with what was begun at another address. {told} (looked for: {folder} and runs"
        " beside it that differ in addresses alone). Name the run's folder (--out_root)."
    )


def _is_moved(folder: Path, identity: Mapping[str, Any]) -> bool:
    noted, _ = _noted(folder)
    lines = difference(noted, json.loads(json.dumps(identity)))
    return all(re.match(r"  (?:[\w.]+\.address|targets): ", line) for line in lines)


def _grouped(asked: AskedModels) -> dict[str, tuple[ModelSpec, set[str]]]:
    groups: dict[str, tuple[ModelSpec, set[str]]] = {}
    for role, spec in asked:
        groups.setdefault(_model(role, spec), (spec, set()))[1].add(spec.address or "")
    return groups


def _known(folder: Path) -> AddressMap:
    identity, noted = _noted(folder) if is_run(folder) else ({}, {})
    if noted or "kind" in identity:
        return noted
    # Runs that were begun before addresses were noted.
    found = AddressMap()
    for role, settings in identity.get("model", {}).items():
        if isinstance(settings, dict) and "name" in settings:
            parts = parse_model_string(settings["name"], role)
            found[_named(role, parts.harness, parts.provider or "", parts.name)] = {"": ""}
    return found


def _noted(folder: Path) -> tuple[dict[str, Any], AddressMap]:
    """The identity that a folder belongs to and its addresses; nothing where no model has answered yet."""
    database = Database.reading(folder / DATABASE)
    try:
        if not database.holds_answers():
            return {}, {}
        identity, noted = (database.noted_as(json.loads, name) or {} for name in ("identity", _NOTE))
        return identity, noted
    finally:
        database.shut()


def _model(role: RoleName, spec: ModelSpec) -> str:
    return _named(role, spec.harness, spec.provider, spec.name)


def _named(role: str, harness: str, provider: str, name: str) -> str:
    if provider == "service":  # named by its address
        return f"{role} {provider}"
    return f"{role} {'' if harness == 'chat' else f'{harness}/'}{provider}:{name}"


def _shown(address: str, spec: ModelSpec) -> str:
    own = declared().service(spec.provider).urls
    return address or (own[0] if own else "an address that was not noted")
