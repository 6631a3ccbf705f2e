"""Reads rows from JSONL, JSON, CSV and TSV files, each with its first line, for errors to name."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from skillopt.errors import TaskError

DATA_SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv")
_SPACE = re.compile(r"[ \t\r\n]*")
_PACKED = {b"\x1f\x8b": "compressed", b"PK\x03\x04": "an archive or a workbook", b"PAR1": "Parquet"}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""The beginnings of files that spreadsheets save as Unicode text."""
_SHEETS = (".xlsx", ".xls", ".ods")
_FIELD_LIMIT = (1 << 31) - 1
"""The largest field of the csv module on every platform; its own limit of 128 kB is below documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRow:
    """One row of a file and where it starts."""

    path: Path
    line: int
    data: Mapping[str, Any]

    def error(self, message: str) -> TaskError:
        """An error about this row, for the caller to raise."""
        return TaskError(f"{self.path}, line {self.line}: {message}")

    def first(self, *fields: str) -> Any:
        """What stands in the first of these fields that is not empty; None where all are."""
        return next((self.data[name] for name in fields if self.data.get(name) not in (None, "")), None)

    def name(self, *fields: str) -> str | None:
        """The id in the first of these fields that is not empty; None where that is no text and no number."""
        value = self.first(*fields)
        is_id = isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip()
        return str(value) if is_id else None

    def id(self, *fields: str) -> str:
        """Such an id. Raises `TaskError` where there is none."""
        if (name := self.name(*fields)) is None:
            under = " or ".join(map(repr, fields))
            raise self.error(f"has no id. Give every row a text or number under {under}.")
        return name

    def text(self, *fields: str, optional: bool = False) -> str:
        """The text in the first of these fields that is not empty; raises `TaskError` where there is none."""
        value = self.first(*fields)
        if isinstance(value, str) and (optional or value.strip()):
            return value.strip()
        if value is None and optional:
            return ""
        what = "no text" if value and not isinstance(value, str) else "missing or empty"
        raise self.error(f"{' or '.join(map(repr, fields))} is {what}. Give the row its {fields[0]}.")


def load_rows(
    path: Path, under: Sequence[str] = ("data", "tasks", "examples"), bad: list[TaskError] | None = None
) -> list[DataRow]:
    """All rows of a file, or of the only data file in a folder. A row that cannot be read is an error that
    names file and line; it is raised, or put into `bad` where that is given.

    JSON may be a list of objects, an object with a list under `data` (or what `under` names), or an object of
    objects, whose keys then serve as ids.
    """
    file = _only_file(path)
    readers: dict[str, Callable[[Path, str], Iterator[DataRow | TaskError]]] = {
        ".csv": _csv_rows,
        ".tsv": _csv_rows,
        ".json": partial(_json_rows, under=under),
    }
    found = list(readers.get(file.suffix.lower(), _jsonl_rows)(file, _text(file)))
    if not found:
        raise TaskError(f"{file} holds no rows. Add tasks to it.")
    checked = [_fault(row) or row for row in found]
    broken = [row for row in checked if isinstance(row, TaskError)]
    if broken and (bad is None or len(broken) == len(checked)):
        raise broken[0]
    if bad is not None:
        bad += broken
    return [row for row in checked if isinstance(row, DataRow)]


def _only_file(path: Path) -> Path:
    if path.is_dir():
        found = sorted(
            file
            for file in path.iterdir()
            if file.suffix.lower() in DATA_SUFFIXES and not file.name.startswith(".")
        )
        if len(found) != 1:
            names = ", ".join(file.name for file in found) or "none"
            known = ", ".join(DATA_SUFFIXES)
            raise TaskError(f"{path} must hold one data file ({known}); found {names}. Name the file itself.")
        return found[0]
    if not path.is_file():
        raise TaskError(f"There is no tasks file {path}. Correct the path.")
    if path.suffix.lower() not in DATA_SUFFIXES:
        hint = " A spreadsheet program saves it as 'CSV UTF-8'." if path.suffix.lower() in _SHEETS else ""
        known = ", ".join(DATA_SUFFIXES)
        raise TaskError(f"{path} is no data file we read by its name. Use one of {known}.{hint}")
    return path


def _text(file: Path) -> str:
    """The text of a file. Bytes that are not UTF-8 become halves of surrogate pairs: their row is refused."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise TaskError(f"{file} cannot be read: {error.strerror or error}.") from error
    if kind := next((kind for sign, kind in _PACKED.items() if content.startswith(sign)), None):
        raise TaskError(f"{file} is {kind}, whatever its name says. Save it as JSONL or CSV in UTF-8.")
    if content.startswith(_UTF_16):
        try:
            return content.decode("utf-16")
        except UnicodeDecodeError as error:
            raise TaskError(f"{file} is neither UTF-8 nor UTF-16. Save the file as UTF-8.") from error
    return content.decode("utf-8-sig", errors="surrogateescape")


def _jsonl_rows(file: Path, text: str) -> Iterator[DataRow | TaskError]:
    if _is_list(text):  # one list of objects under the name .jsonl
        yield from _json_rows(file, text, ())
        return
    # Not splitlines(): it also cuts at characters such as U+2028, which JSON strings may hold.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = _DECODER.decode(line)
        except (ValueError, RecursionError) as error:
            yield TaskError(f"{file}, line {number}: not JSON: {error}. Correct the row.")
        else:
            yield _row(file, number, value)


def _is_list(text: str) -> bool:
    try:
        return text.lstrip()[:1] == "[" and all(isinstance(row, dict) for row in _DECODER.decode(text))
    except (ValueError, RecursionError):
        return False


def _json_rows(file: Path, text: str, under: Sequence[str]) -> Iterator[DataRow | TaskError]:
    try:
        whole = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and text.lstrip()[:1] == "{":  # one object a line under the name .json
            yield from _jsonl_rows(file, text)
            return
        raise TaskError(f"{file}, line {error.lineno}: not JSON: {error.msg}. Correct the file.") from error
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{file}: not JSON: {error}. Correct the file.") from error
    start = _skip_space(text, 0)
    if isinstance(whole, dict):
        listed = next((key for key in under if isinstance(whole.get(key), list)), None)
        if listed is not None:
            start = next(part.start for part in _json_parts(text, start) if part.key == listed)
        elif not whole or not all(isinstance(value, dict) for value in whole.values()):
            raise TaskError(
                f"{file} is an object without a list under {' or '.join(map(repr, under))} to hold the tasks."
                " Correct it."
            )
    elif not isinstance(whole, list):
        raise TaskError(f"{file} is {_kind(whole)}; tasks are a list of objects. Correct the file.")
    line, counted = 1, 0
    for part in _json_parts(text, start):
        line, counted = line + text.count("\n", counted, part.start), part.start
        yield _row(file, line, part.value if part.key is None else {"id": part.key, **part.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class _JsonPart:
    """A member of an object, or an item of a list (without a key), and where its value starts."""

    key: str | None
    start: int
    value: Any


def _json_parts(text: str, at: int) -> Iterator[_JsonPart]:
    """The parts of the object or list that starts there, in a text that is known to be JSON."""
    is_object, here = text[at] == "{", _skip_space(text, at + 1)
    while text[here] not in "}]":
        key = None
        if is_object:
            key, here = _DECODER.raw_decode(text, here)
            here = _skip_space(text, _skip_space(text, here) + 1)
        value, end = _DECODER.raw_decode(text, here)
        yield _JsonPart(key=key, start=here, value=value)
        here = _skip_space(text, end)
        if text[here] == ",":
            here = _skip_space(text, here + 1)


def _skip_space(text: str, at: int) -> int:
    """The first place from there on that is no white space of JSON."""
    found = _SPACE.match(text, at)
    assert found is not None, "an empty run matches"
    return found.end()


def _csv_rows(file: Path, text: str) -> Iterator[DataRow | TaskError]:
    limit = csv.field_size_limit(_FIELD_LIMIT)
    try:
        yield from _csv_records(file, text)
    finally:
        csv.field_size_limit(limit)


def _csv_records(file: Path, text: str) -> Iterator[DataRow | TaskError]:
    first = text.partition("\n")[0]
    # Spreadsheets of many countries write ; or tabs: no comma, and another sign, says which.
    delimiter = next((sign for sign in ";\t|" if "," not in first and sign in first), ",")
    if file.suffix.lower() == ".tsv":
        delimiter = "\t"
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    header: list[str] | None = None
    start = 1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            # A quote that nothing closes takes all rows after it along: the file's fault, not a row's.
            fault = TaskError(f"{file}, line {start}: not CSV: {error}. Correct the row.")
            if header is None or "unexpected end" in str(error):
                raise fault from error
            yield fault
        else:
            if header is None:
                header = [name.strip() for name in cells]
                if len(set(header)) != len(header) or "" in header:
                    names = [
                        name or "one without a name"
                        for name, times in Counter(header).items()
                        if times > 1 or not name
                    ]
                    raise TaskError(
                        f"{file}, line 1: the header must name every column once, and has"
                        f" {', '.join(names)}. Correct it."
                    )
            elif cells and len(cells) != len(header):
                told = f"{len(cells)} cells under {len(header)} columns"
                yield TaskError(f"{file}, line {start}: {told}. Correct the row.")
            elif cells:
                yield DataRow(path=file, line=start, data=dict(zip(header, cells, strict=True)))
        start = reader.line_num + 1


def _row(file: Path, line: int, value: Any) -> DataRow | TaskError:
    if not isinstance(value, dict):
        return TaskError(
            f"{file}, line {line}: a row is an object with named fields, not {_kind(value)}. Correct the row."
        )
    return DataRow(path=file, line=line, data=value)


def _fault(row: DataRow | TaskError) -> TaskError | None:
    """What is wrong with a row whose syntax is right."""
    if isinstance(row, TaskError):
        return row
    try:
        json.dumps(row.data, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        if "\udc80" <= error.object[error.start] <= "\udcff":  # what a byte became, see `_text`
            return row.error("not UTF-8. Save the file as UTF-8.")
        return row.error("holds half of a surrogate pair, which is no text. Correct the row.")
    except (ValueError, RecursionError):
        return row.error("not JSON: NaN and numbers without end cannot be used. Correct the row.")
    return None


def _kind(value: Any) -> str:
    return {list: "a list", dict: "an object", str: "a string", type(None): "null"}.get(
        type(value), "a number or truth value"
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys differ: of two values under one name the last would win without a word."""
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = ", ".join(repr(key) for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"the key {twice} stands more than once in an object")
    return made


_DECODER = json.JSONDecoder(object_pairs_hook=_once)
