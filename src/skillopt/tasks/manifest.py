"""Which rows of published data a list of ids means, by split; each id must be there, once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.errors import TaskError
from skillopt.tasks.rows import DATA_SUFFIXES, DataRow, load_rows
from skillopt.tasks.splits import ALIASES, canonical_split, listed, repeated
from skillopt.tasks.task import SPLITS, Split

_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The ids of each split, in order."""

    path: Path
    ids: Mapping[Split, tuple[str, ...]]


def read_manifest(path: Path, ids: Sequence[str] = ("id",)) -> Manifest:
    """A folder with train/, val/ and test/, one file of ids in each, or a JSON file with a list of ids under
    each name.

    An id stands alone, or in an object under one of the names in `ids`.
    """
    if path.is_file() and path.suffix.lower() == ".json":
        whole = _json(path)
        if not isinstance(whole, dict) or not all(isinstance(value, list) for value in whole.values()):
            raise TaskError(
                f"{path} is no manifest: write an object with a list of ids under train, val and test."
            )
        given = {name: list(values) for name, values in whole.items()}
    elif path.is_dir():
        given = {
            folder.name: _in_folder(folder)
            for folder in sorted(path.iterdir())
            if folder.is_dir() and folder.name in ALIASES
        }
        if not given:
            raise TaskError(
                f"{path} has no folder train/, val/ or test/ with ids. Name the folder that holds them."
            )
    else:
        raise TaskError(
            f"There is no manifest {path}. Name a folder with train/, val/ and test/, or a JSON file."
        )
    found: dict[Split, tuple[str, ...]] = {}
    for name, values in given.items():
        split = canonical_split(name)
        if split in found:
            raise TaskError(f"{path} names the {split} split twice. Keep one.")
        found[split] = tuple(_id(value, ids, f"{path}, {name}") for value in values)
    _refuse_twice((one for split in SPLITS for one in found.get(split, ())), f"{path} names")
    return Manifest(path=path, ids=found)


def pick(
    manifest: Manifest, rows: Sequence[DataRow], row_id: Callable[[DataRow], str | None], source: Path
) -> dict[Split, list[DataRow]]:
    """The rows that the manifest means: each must be there, once; rows it does not name are left."""
    wanted = {one for ids in manifest.ids.values() for one in ids}
    named = [(name, row) for row in rows if (name := row_id(row)) in wanted and name is not None]
    by_id = dict(named)
    missing = sorted(wanted - by_id.keys())
    if missing:
        shown = listed(missing, _SHOWN)
        raise TaskError(
            f"{len(missing)} of {len(wanted)} ids of {manifest.path} are not in {source}: {shown}."
        )
    _refuse_twice((name for name, _ in named), f"{source} holds")
    return {split: [by_id[one] for one in ids] for split, ids in manifest.ids.items()}


def _in_folder(folder: Path) -> list[Any]:
    """The ids of a folder's only data file; a JSON list may hold plain ids, which are no rows."""
    files = [file for file in sorted(folder.iterdir()) if file.suffix.lower() in DATA_SUFFIXES]
    if len(files) == 1 and files[0].suffix.lower() == ".json":
        whole = _json(files[0])
        if isinstance(whole, list) and all(isinstance(one, (str, int)) for one in whole):
            return whole
    return [dict(row.data) for row in load_rows(folder)]


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise TaskError(f"{path} cannot be read as JSON: {error}. Correct the file.") from error


def _id(value: Any, names: Sequence[str], where: str) -> str:
    if isinstance(value, Mapping):
        value = next((value[name] for name in (*names, "id") if value.get(name) not in (None, "")), None)
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
        raise TaskError(
            f"{where}: {value!r} is no id. Write a text, a number, or an object with one under {names[0]!r}."
        )
    return str(value)


def _refuse_twice(ids: Iterable[str], what: str) -> None:
    if twice := repeated(ids):
        raise TaskError(f"{what} {len(twice)} ids more than once: {listed(twice, _SHOWN)}. Keep each once.")
