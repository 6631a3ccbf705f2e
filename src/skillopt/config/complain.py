"""Decides what is said about a key or value that cannot be used: the key, where it stands, what was expected, and the near miss."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from skillopt.config.fields import Leaf
from skillopt.config.keys import DEAD, FLAT, LATER, LATER_VALUES
from skillopt.config.layers import LEAVES, SECTIONS, leaf_of, settings_leaves
from skillopt.config.source import Entry
from skillopt.errors import suggest

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "path_type": "a path",
    "is_instance_of": "a path",
    "list_type": "a list",
    "dict_type": "keys with values",
    "string_too_short": "text",
}


def check_keys(entries: Iterable[Entry], settings: type[BaseModel] | None, benchmark: str | None, problems: list[str]) -> list[str]:
    """Refuse keys nobody reads; returns the warnings about dead keys and about credentials on a command line."""
    warnings: list[str] = []
    for entry in entries:
        leaf = leaf_of(entry.key, settings)
        if leaf is not None:
            if leaf.secret and entry.source.layer in ("flag", "cfg-options"):
                warnings.append(f"{entry.written}: a key on the command line can be read by other users; put it in the environment")
            if _is_later(entry):
                problems.append(f"{entry}: {entry.value!r} is known but not supported yet; use {leaf.default!r}")
        elif entry.key in DEAD:
            warnings.append(f"{entry}: this key has no effect ({DEAD[entry.key]})")
        elif entry.key in LATER:
            if not _asks_for_nothing(entry.value, LATER[entry.key]):
                problems.append(f"{entry}: this key is known but not supported yet; leave it out")
        elif entry.key in SECTIONS:
            problems.append(f"{entry}: is a section; expected keys below it")
        elif entry.key.startswith("env.") and settings is None and benchmark is not None:
            continue  # the benchmark itself is unknown and already named; whose key this is cannot be told
        else:
            problems.append(f"{entry}: unknown key. {_near_miss(entry, settings, benchmark)}")
    return list(dict.fromkeys(warnings))


def about(error: ValidationError, merged: Mapping[str, Entry], settings: type[BaseModel] | None = None) -> list[str]:
    """One line for every value of the tree - or of a benchmark's settings - that has the wrong type or range."""
    lines = []
    for detail in error.errors(include_url=False, include_input=False):
        # A union adds the names of its branches, a list its index: the key is the part in front that is one.
        parts = [*(["env"] if settings else []), *(str(part) for part in detail["loc"])]
        ends = [end for end in range(len(parts), 0, -1) if leaf_of(".".join(parts[:end]), settings) is not None]
        key = ".".join(parts[: ends[0]] if ends else parts)
        entry = merged.get(key)
        if entry is None or not _is_later(entry):  # else it is said already, and better
            lines.append(_line(key, entry, leaf_of(key, settings), detail))
    return list(dict.fromkeys(lines))


def looks_secret(key: str) -> bool:
    """True for a key that holds a credential by its name, also when it is misspelt or not ours."""
    last = key.rpartition(".")[2].lower()
    return any(word in last for word in ("api_key", "apikey", "secret", "password")) or bool(
        difflib.get_close_matches(last, ["api_key", "azure_openai_api_key"], n=1, cutoff=0.8)
    )


def _line(key: str, entry: Entry | None, leaf: Leaf | None, detail: Any) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if entry is None:
        message = "is missing" if kind == "missing" else str(detail["msg"]).removeprefix("Value error, ")
        return f"{key}: {message}"
    where = str(entry)
    shown = "the value" if (leaf is not None and leaf.secret) or looks_secret(key) else repr(entry.value)
    if leaf is not None and leaf.choices:
        choices = [str(choice).lower() if isinstance(choice, bool) else str(choice) for choice in leaf.choices]
        return f"{where}: {shown} is not one of {', '.join(choices)}. {_did_you_mean(str(entry.value), choices)}".rstrip()
    if kind in _EXPECTED:
        return f"{where}: expected {_EXPECTED[kind]}, not {shown}"
    bounds = {"greater_than_equal": "ge", "greater_than": "gt", "less_than_equal": "le", "less_than": "lt"}
    words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    if kind in bounds:
        return f"{where}: expected {words[bounds[kind]]} {context[bounds[kind]]}, not {shown}"
    return f"{where}: {shown} cannot be used ({str(detail['msg']).removeprefix('Value error, ')})"


def _is_later(entry: Entry) -> bool:
    return any(entry.value == value and type(entry.value) is type(value) for value in LATER_VALUES.get(entry.key, ()))


def _did_you_mean(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"Did you mean {close[0]!r}?" if close else ""


def _near_miss(entry: Entry, settings: type[BaseModel] | None, benchmark: str | None) -> str:
    own = [leaf.key for leaf in settings_leaves(settings)] if settings else []
    known = [*LEAVES, *own]
    written = entry.written.lstrip("-")
    if "." not in written:
        return suggest(written, [*FLAT, *(key.removeprefix("env.") for key in own)])
    section, _, last = written.rpartition(".")
    elsewhere = [key for key in known if key.rpartition(".")[2] == last]
    if elsewhere:
        nearest = max(elsewhere, key=lambda key: difflib.SequenceMatcher(None, written, key).ratio())
        return f"Did you mean {nearest!r}?"
    close = difflib.get_close_matches(written, known, n=1, cutoff=0.75)
    if close:
        return f"Did you mean {close[0]!r}?"
    if section == "env" and benchmark is None:
        return "No benchmark is named (env.name), so only the common env keys exist."
    siblings = [key.rpartition(".")[2] for key in known if key.rpartition(".")[0] == section]
    return suggest(last, siblings) if siblings else suggest(section.partition(".")[0], [name for name in SECTIONS if "." not in name])


def _asks_for_nothing(value: Any, harmless: tuple[Any, ...]) -> bool:
    if value is None or value == "":
        return True
    # A flag or option arrives as text, so the public default is compared as text as well.
    return any(value == each or str(value).lower() == str(each).lower() for each in harmless)
