"""A JSONL file of tasks in which drafts wait to be kept: read, written whole, and searched for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skillopt.benchmarks.own import DRAFTED_BY
from skillopt.errors import TaskError
from skillopt.files import read_text, write_text

Rows = list[dict[str, Any]]
LARGEST = 5_000_000
"""Bytes; a larger file is not searched for drafts."""


def read_rows(file: Path) -> Rows:
    """The rows of a JSONL file as they are."""
    if not file.is_file():
        raise TaskError(f"There is no file {file}. 'skillopt tasks draft SKILL --out {file}' makes one.")
    try:
        rows = [json.loads(line) for line in read_text(file).splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise TaskError(f"{file} cannot be read as JSONL: {error}. Write one object a line.") from None
    if not all(isinstance(row, dict) for row in rows):
        raise TaskError(f"{file} holds lines that are no JSON object. One task a line.")
    return rows


def write_rows(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """The file, whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def is_draft(row: Mapping[str, Any]) -> bool:
    """Whether a model wrote the row and nobody has kept it yet."""
    return DRAFTED_BY in row


def as_kept(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row as a task to train on."""
    return {name: value for name, value in row.items() if name != DRAFTED_BY}


def draft_files(folder: Path) -> list[Path]:
    """The files with drafts in a folder and the folders in it."""
    mark = f'"{DRAFTED_BY}"'.encode()
    found = sorted([*folder.glob("*.jsonl"), *folder.glob("*/*.jsonl")])
    return [
        file
        for file in found
        if file.is_file()
        and not file.is_symlink()
        and file.stat().st_size <= LARGEST
        and mark in file.read_bytes()
    ]
