"""Finds files: that of a `--config` with its `_base_` chain, `.env`, and where a written path points."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from skillopt.errors import ConfigError, suggest
from skillopt.files import expand_home
from skillopt.runs.notes import SETTINGS
from skillopt.skill.document import SKILL_FILE

PACKAGED = Path(__file__).resolve().parent.parent / "configs"
BASE_KEY = "_base_"
IN_FOLDER = "train.yaml"
"""The config of a folder that is named instead of a file."""
_OF_TASKS = (".csv", ".tsv", ".jsonl", ".ndjson", ".xlsx")
_LINE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """One config file: its path, its values and their line numbers."""

    path: Path
    shown: str
    values: Mapping[str, Any]
    lines: Lines

    def line(self, *keys: str) -> str:
        """Where a key stands, by the keys that lead to it."""
        return f"{self.shown}:{self.lines[keys]}"


def packaged_names() -> list[str]:
    """Names of the configs that ship with the package, as `--config` takes them."""
    files = [path.relative_to(PACKAGED) for path in sorted(PACKAGED.rglob("*.yaml"))]
    return [
        (path.parent if path.stem == "default" else path.with_suffix("")).as_posix()
        for path in files
        if not path.parts[0].startswith("_")
    ]


def packaged_configs() -> dict[str, str]:
    """Every packaged config with what its first line says of it."""
    texts = {name: find(name, PACKAGED).read_text(encoding="utf-8") for name in packaged_names()}
    return {name: text.split("\n")[0].removeprefix("#").strip() for name, text in texts.items()}


def find(name: str, folder: Path) -> Path:
    """The file a name means: a path from `folder`, a folder with a `train.yaml`, a run, a packaged one."""
    try:
        return _find(name, folder)
    except OSError as error:  # a name that is too long for the system
        raise ConfigError(f"{name[:60]!r}... is no path: {error.strerror}. Correct it.") from None


def _find(name: str, folder: Path) -> Path:
    path = folder / expand_home(name)
    for found in (path, path / IN_FOLDER, *([path / SETTINGS] if (path / "run.db").is_file() else [])):
        if found.is_file() and found.suffix.lower() in _OF_TASKS:
            make = f"Make one around it: skillopt init --skill PATH --tasks {name}"
            raise ConfigError(f"{name!r} is a file of tasks, not a config. {make}")
        if found.is_file():
            return found.resolve()
    inner = name.removeprefix("configs/")
    for candidate in (inner, f"{inner}.yaml", f"{inner}/default.yaml"):
        packaged = PACKAGED / candidate
        if packaged.is_file() and packaged.resolve().is_relative_to(PACKAGED):
            return packaged.resolve()
    if (path / SKILL_FILE).is_file():
        made = path.with_name(f"{path.name}-training")  # as `skillopt init --skill` names it
        make = f"Make one: skillopt init --skill {name} --tasks FILE"
        remedy = f"Did you mean {made.name!r}?" if (made / IN_FOLDER).is_file() else make
        raise ConfigError(f"The folder {name!r} is a skill and holds no {IN_FOLDER}. {remedy}")
    missing = f"No config file {name!r} in {folder}"
    what = f"The folder {name!r} holds no {IN_FOLDER}" if path.is_dir() else missing
    runs = [f"outputs/{name}"] if (folder / "outputs" / name / "run.db").is_file() else []
    near = [one.parent.name for one in sorted(folder.glob(f"*/{IN_FOLDER}"))]
    hint = f"Did you mean {runs[0]!r}?" if runs else suggest(inner, [*near, *packaged_names()])
    raise ConfigError(f"{what}, and no packaged config of that name. {hint}")


def read_chain(name: str, cwd: Path) -> list[ConfigFile]:
    """The file with everything it is based on, the deepest base first."""
    documents: list[ConfigFile] = []
    path, seen = find(name, cwd), list[Path]()
    while True:
        if path in seen:
            circle = " -> ".join(shown_as(each, cwd) for each in [*seen[seen.index(path) :], path])
            raise ConfigError(f"{BASE_KEY} goes in a circle: {circle}")
        seen.append(path)
        values, lines = read_yaml(path, shown_as(path, cwd))
        document = ConfigFile(path=path, shown=shown_as(path, cwd), values=values, lines=lines)
        documents.insert(0, document)
        base = values.get(BASE_KEY)
        if base in (None, ""):
            return documents
        where = f"{document.line(BASE_KEY)}: {BASE_KEY}"
        if not isinstance(base, str):
            raise ConfigError(f"{where} takes one file name; lists of bases are not read")
        try:
            path = find(base, path.parent)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None


def shown_as(path: Path, cwd: Path) -> str:
    """A file's name for messages: short where it can be."""
    if path.is_relative_to(PACKAGED):
        return f"configs/{path.relative_to(PACKAGED).as_posix()}"
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


def resolve_path(text: str, *, folder: Path | None, cwd: Path, output: bool) -> Path:
    """Where a written path points: from the file's folder, then from the working directory; both is an error,
    unless the path begins with `./`, which means the file's folder first.

    An `output`, and what came by flag or variable (`folder` None), belongs to the working directory.
    """
    path = expand_home(text)
    here = cwd / path
    if path.is_absolute() or folder is None or output:
        return here
    inner, up = path.parts, folder  # the folder of a config is a real path: `..` leads to its parent
    while inner and inner[0] == "..":
        inner, up = inner[1:], up.parent
    beside = up.joinpath(*inner)
    try:
        if not beside.exists():
            return here
    except OSError as error:  # a name that is too long for the system
        raise ConfigError(f"{text[:60]!r}... is no path: {error.strerror}. Correct it.") from error
    if not text.startswith("./") and here.exists() and here.resolve() != beside.resolve():
        raise ConfigError(
            f"{text!r} exists both as {beside} (beside the config file) and as {here}; write './{text}'"
            " for the first, or the absolute path"
        )
    return beside


def read_dotenv(path: Path) -> dict[str, str]:
    """The variables of a `.env` file: `NAME=value`, `export`, quotes, comments. Nothing is substituted."""
    if not path.is_file():  # a folder of that name is somebody's virtual environment
        return {}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({type(error).__name__})") from None
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = None if line.lstrip().startswith("#") else _LINE.match(line)
        if match:
            found[match[1]] = _unquoted(match[2])
    return found


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] in "'\"" and text[-1] == text[0]:
        return text[1:-1]
    if text[:1] in ("'", '"') and text[0] in text[1:]:
        return text[1 : text.index(text[0], 1)]
    return re.split(r"\s+#", text, maxsplit=1)[0].strip()


# YAML: plain scalars only, the line of every key, and no key twice

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


def read_yaml(path: Path, shown: str) -> tuple[dict[str, Any], Lines]:
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


def yaml_value(text: str) -> Any:
    """The value of a text on a command line: `true`, `3`, `0.5`, `[a, b]`, text."""
    try:
        value = yaml.load(text, Loader=_Loader)
        repr(value)  # brackets in brackets, so deep that no error could name the value
        return value
    except (yaml.YAMLError, *_UNREADABLE):
        raise ConfigError("cannot read the value as YAML; quote it") from None


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
