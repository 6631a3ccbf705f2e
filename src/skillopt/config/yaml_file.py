"""Reads a YAML file: plain scalars only, every key with its line, and no key twice."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A value of a file with its line; a mapping keeps its children as nodes."""

    value: Any
    line: int

    @property
    def children(self) -> Mapping[str, Node] | None:
        """The keys below, or None for a plain value."""
        return self.value if isinstance(self.value, dict) else None

    def plain(self) -> Any:
        """The value without line numbers."""
        if not isinstance(self.value, dict):
            return self.value
        return {key: child.plain() for key, child in self.value.items()}


def read(path: Path, shown: str) -> Node:
    """Read a config file; every refusal names `shown` and the line, never a value."""
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
            return Node(value={}, line=1)
        if not isinstance(root, yaml.MappingNode):
            raise ConfigError(f"{shown}:{_line(root)}: expected 'key: value' lines")
        problems: list[str] = []
        node = _node(loader, root, shown, problems, depth=0, seen=itertools.count())
    except yaml.MarkedYAMLError as error:
        # The problem text names syntax, not content; the snippet around it might hold a key and is left out.
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{shown}{line}: is not valid YAML ({_safe(error.problem)})") from None
    except yaml.YAMLError:
        raise ConfigError(f"{shown}: is not valid YAML (a character that may not stand there)") from None
    finally:
        loader.dispose()
    if problems:
        raise ConfigError("\n".join(problems))
    return node


def value_of(text: str) -> Any:
    """The value of a text on a command line: `true`, `3`, `0.5`, `[a, b]`, text. Raises `yaml.YAMLError`."""
    try:
        value = yaml.load(text, Loader=_Loader)
        repr(value)  # brackets in brackets, so deep that no error could name the value
        return value
    except _UNREADABLE as error:
        raise yaml.YAMLError(str(error)) from error


def _node(
    loader: Any, node: yaml.Node, shown: str, problems: list[str], depth: int, seen: Iterator[int]
) -> Node:
    if depth > _DEEPEST or next(seen) > _MOST:
        raise ConfigError(f"{shown}:{_line(node)}: is nested too deeply (an anchor that contains itself?)")
    if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
        items = [_node(loader, item, shown, problems, depth + 1, seen) for item in node.value]
        return Node(value=[item.plain() for item in items], line=_line(node))
    if not isinstance(node, yaml.MappingNode):
        try:
            return Node(value=loader.construct_object(node, deep=True), line=_line(node))
        except _UNREADABLE:
            where = f"{shown}:{_line(node)}"
            raise ConfigError(f"{where}: the value cannot be read as what it looks like; quote it") from None
    children: dict[str, Node] = {}
    for key_node, value_node in node.value:
        key, line = _key(key_node, shown), _line(key_node)
        if key in children:
            problems.append(
                f"{shown}:{line}: key {key!r} is already on line {children[key].line}; keep one of them"
            )
            continue
        child = _node(loader, value_node, shown, problems, depth + 1, seen)
        children[key] = Node(value=child.value, line=line)
    return Node(value=children, line=_line(node))


def _key(node: yaml.Node, shown: str) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise ConfigError(f"{shown}:{_line(node)}: a key must be plain text")
    if node.tag == "tag:yaml.org,2002:merge":
        raise ConfigError(f"{shown}:{_line(node)}: merge keys ('<<') are not read; use '_base_: other.yaml'")
    return str(node.value)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _safe(problem: str | None) -> str:
    """The parser's words without what they quote from the file; a quoted bracket or comma stays."""
    return re.sub(r"'[^'\s]{2,}'|\"[^\"\s]{2,}\"", "'...'", problem or "unreadable")
