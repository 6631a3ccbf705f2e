"""Reads a YAML file: plain scalars only, the line of every key, and no key twice."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from skillopt.errors import ConfigError

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""What PyYAML raises for a value that is not what its tag says, as `!!timestamp x` or `!!bool maybe`."""
_DEEPEST = 12
_MOST = 100_000
"""Values of a file, each counted as often as anchors repeat it."""


class _Loader(_Base):  # type: ignore[misc]
    """The safe loader with YAML 1.2 scalars: `2:1:7` is text (in 1.1 a number), `1e-3` is a number."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML wants it on the class


_WORDS = ("true", "false", "yes", "no", "on", "off")
_TRUTHS = [form for word in _WORDS for form in (word, word.title(), word.upper())]
_INT = r"^[-+]?[0-9]{1,300}$"  # more digits than any number has are text: Python refuses to read 4,300
_FLOAT = r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$"
for _tag, _pattern, _first in (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", rf"^(?:{'|'.join(_TRUTHS)})$", list("tTfFyYnNoO")),
    ("int", _INT, list("-+0123456789")),
    ("float", _FLOAT, list("-+.0123456789")),
    ("merge", r"^<<$", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)
# A leading zero does not make a number octal: 010 is ten, as in YAML 1.2.
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(loader.construct_scalar(node)))
_Loader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(loader.construct_scalar(node)))


Lines = dict[tuple[str, ...], int]
"""The line of each key by the keys that lead to it."""


def read(path: Path, shown: str) -> tuple[dict[str, Any], Lines]:
    """The values of a config file and their lines. A refusal names `shown` and the line, never a value."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{shown}: cannot be read ({error.strerror or type(error).__name__})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{shown}: is not UTF-8 text") from None
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return {}, {}
        if not isinstance(root, yaml.MappingNode):
            raise ConfigError(f"{shown}:{_line(root)}: expected 'key: value' lines")
        reader = _Reader(loader, shown)
        values = reader.value(root, ())
    except yaml.MarkedYAMLError as error:
        # The problem text names syntax, not content; the snippet around it might hold a key and is left out.
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{shown}{line}: is not valid YAML ({_safe(error.problem)})") from None
    except yaml.YAMLError:
        raise ConfigError(f"{shown}: is not valid YAML (a character that may not stand there)") from None
    finally:
        loader.dispose()
    if reader.problems:
        raise ConfigError("\n".join(reader.problems))
    return values, reader.lines


def value_of(text: str) -> Any:
    """The value of a text on a command line: `true`, `3`, `0.5`, `[a, b]`, text. Raises `yaml.YAMLError`."""
    try:
        value = yaml.load(text, Loader=_Loader)
        repr(value)  # brackets in brackets, so deep that no error could name the value
        return value
    except _UNREADABLE as error:
        raise yaml.YAMLError(str(error)) from error


class _Reader:
    """Makes plain values of the nodes of one file."""

    def __init__(self, loader: Any, shown: str) -> None:
        self.lines: Lines = {}
        self.problems: list[str] = []
        self._loader, self._shown, self._seen = loader, shown, 0

    def value(self, node: yaml.Node, path: tuple[str, ...]) -> Any:
        """The value of a node that stands below the keys of `path`."""
        self._seen += 1
        where = f"{self._shown}:{_line(node)}"
        if len(path) > _DEEPEST or self._seen > _MOST:
            raise ConfigError(f"{where}: is nested too deeply (an anchor that contains itself?)")
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self.value(item, (*path, str(number))) for number, item in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode):
            try:
                return self._loader.construct_object(node, deep=True)
            except _UNREADABLE:
                raise ConfigError(
                    f"{where}: the value cannot be read as what it looks like; quote it"
                ) from None
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, line = self._key(key_node), _line(key_node)
            at = (*path, key)
            if key in values:
                first = self.lines[at]
                self.problems.append(
                    f"{self._shown}:{line}: key {key!r} is already on line {first}; keep one of them"
                )
                continue
            self.lines[at] = line
            values[key] = self.value(value_node, at)
        return values

    def _key(self, node: yaml.Node) -> str:
        where = f"{self._shown}:{_line(node)}"
        if not isinstance(node, yaml.ScalarNode):
            raise ConfigError(f"{where}: a key must be plain text")
        if node.tag == "tag:yaml.org,2002:merge":
            raise ConfigError(f"{where}: merge keys ('<<') are not read; use '_base_: other.yaml'")
        return str(node.value)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _safe(problem: str | None) -> str:
    """The parser's words without what they quote from the file; a quoted bracket or comma stays."""
    return re.sub(r"'[^'\s]{2,}'|\"[^\"\s]{2,}\"", "'...'", problem or "unreadable")
