"""Scores with any Python function: `f(task, answer)` returning a bool, a number from 0 to 1, or a `Score`."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CellType, CodeType, ModuleType
from typing import Any

from skillopt.errors import ConfigError, Fault, ScoringError, suggest
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers._scorer import Scorer, extract_answer, to_score
from skillopt.tasks.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionScorer:
    """A user's function. A sync one runs in a thread, so it may be slow without holding up the rest; it has
    no time limit.
    """

    name: str
    version: str
    graded: bool | None
    function: Callable[..., Any]
    pass_at: float | None

    def check_task(self, task: Task) -> None:
        """Any task will do: only the function knows what it needs."""

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Call the function. What it raises is an error of the scorer (`judge`), what is no score breaks its
        contract.
        """
        value, error = await self._call(task, extract_answer(trajectory.answer))
        if isinstance(error, Fault):
            raise error
        if error is not None:
            raise ScoringError(
                "judge", f"scorer {self.name} raised {type(error).__name__}: {error} (task {task.id!r})"
            ) from error
        return to_score(value, pass_at=self.pass_at, who=f"scorer {self.name} (task {task.id!r})")

    async def _call(self, task: Task, answer: str) -> tuple[Any, BaseException | None]:
        # Every exception is caught because this is a stranger's code, and SystemExit because a scorer must
        # not end the run.
        try:
            if _is_async(self.function):
                return await self.function(task, answer), None
            value, raised = await asyncio.to_thread(_guarded, self.function, task, answer)
            return (await value if inspect.isawaitable(value) else value), raised
        except (Exception, SystemExit) as error:  # noqa: BLE001 - see above
            return None, error


def function_scorer(function: Callable[..., Any], *, pass_at: float | None, graded: bool | None) -> Scorer:
    """A scorer of a callable. Its version is its attribute `version`, or else a hash of its source and the
    values it carries.
    """
    name = getattr(function, "__qualname__", type(function).__name__)
    if graded is None:
        graded = False if pass_at is not None else getattr(function, "graded", _says(function))
    own = getattr(function, "version", None) or _source_hash(function)
    version = f"function {name} {own} pass_at={pass_at}"
    return FunctionScorer(name=name, version=version, graded=graded, function=function, pass_at=pass_at)


def load_function(spec: str) -> Callable[..., Any]:
    """The function that `package.module:function` or `path/to/file.py:function` names."""
    where, _, attribute = spec.rpartition(":")
    module = _from_file(Path(where), spec) if where.endswith(".py") else _from_import(where, spec)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            known = [
                name for name, value in vars(module).items() if callable(value) and not name.startswith("_")
            ]
            raise ConfigError(
                f"The scorer {spec!r}: {where} has no {attribute!r}. {suggest(attribute, known)}"
            )
        found = getattr(found, part)
    if not callable(found):
        kind = type(found).__name__
        raise ConfigError(
            f"The scorer {spec!r} is no function but {kind}. Name a function of (task, answer)."
        )
    return found  # type: ignore[no-any-return]  # whatever is callable


def _from_import(where: str, spec: str) -> ModuleType:
    with _said_of(spec, f"importing {where}"):
        try:
            return importlib.import_module(where)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"The scorer {spec!r}: {error}. Install it, or name the file: path/to/file.py:function."
            ) from error


def _from_file(path: Path, spec: str) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"The scorer {spec!r}: there is no file {path}. Correct the path.")
    name = f"_skillopt_scorer_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    module_spec = importlib.util.spec_from_file_location(name, path)
    assert module_spec is not None and module_spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up by name
    with _said_of(spec, f"running {path}"):
        try:
            module_spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module


@contextmanager
def _said_of(spec: str, doing: str) -> Iterator[None]:
    try:
        yield
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # a stranger's module may raise anything while it is imported
        raise ConfigError(f"The scorer {spec!r}: {doing} raised {type(error).__name__}: {error}.") from error


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _guarded(function: Callable[..., Any], task: Task, answer: str) -> tuple[Any, BaseException | None]:
    # The error is returned, not raised: a StopIteration raised into a future would hang whoever awaits it.
    try:
        return function(task, answer), None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - see `_call`
        return None, error


def _says(function: Callable[..., Any]) -> bool | None:
    """Whether the return annotation says that scores are graded; None where it says nothing."""
    try:
        said = inspect.signature(function).return_annotation
    except (TypeError, ValueError):  # builtins have no signature
        return None
    return True if said in (float, "float") else False if said in (bool, "bool") else None


def _source_hash(function: Callable[..., Any]) -> str:
    """The source file, what the function compiles to, and the values it carries: two closures of one line are
    two scorers.
    """
    carried = _carried(function)
    plain = inspect.unwrap(getattr(function, "func", function))  # `func`: functools.partial
    code = _code_hash(getattr(plain, "__code__", None))
    plain = plain if hasattr(plain, "__code__") or inspect.isclass(plain) else type(plain)
    try:
        source = hashlib.sha256(Path(inspect.getsourcefile(plain) or "").read_bytes()).hexdigest()
    except (OSError, TypeError):  # typed into a console, or not Python at all: what it compiles to has to do
        source = ""
    return hashlib.sha256(f"{source} {code} {carried}".encode()).hexdigest()[:16]


def _carried(function: Any) -> str:
    """Values bound to a function: partial arguments, defaults, closure cells, the attributes of a callable
    object.
    """
    plain = inspect.unwrap(getattr(function, "func", function))
    cells = [cell.cell_contents for cell in getattr(plain, "__closure__", None) or () if _is_filled(cell)]
    owner = getattr(plain, "__self__", None if hasattr(plain, "__code__") else plain)
    is_value = hasattr(owner, "__dict__") and not inspect.isclass(owner) and not inspect.ismodule(owner)
    held = vars(owner) if is_value else {}
    arguments = (getattr(function, "args", ()), getattr(function, "keywords", {}))
    return _stable(
        [arguments, getattr(plain, "__defaults__", None), getattr(plain, "__kwdefaults__", None), cells, held]
    )


def _stable(value: Any, depth: int = 4) -> str:
    """A text that is the same in every process. What has none - an open client, a lock - is told by its type
    alone.
    """
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, Path)):
        return repr(value)
    if depth == 0:
        return type(value).__qualname__
    if isinstance(value, Mapping):
        pairs = [f"{_stable(key, depth - 1)}:{_stable(item, depth - 1)}" for key, item in value.items()]
        return "{" + ",".join(sorted(pairs)) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ",".join(sorted(_stable(item, depth - 1) for item in value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_stable(item, depth - 1) for item in value) + "]"
    if isinstance(value, re.Pattern):
        return repr((value.pattern, value.flags))
    return f"{type(value).__qualname__} {_code_hash(value.__code__) if hasattr(value, '__code__') else ''}"


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - asking is the only way to know
    except ValueError:
        return False
    return True


def _code_hash(code: CodeType | None) -> str:
    sha = hashlib.sha256()
    if code is not None:
        sha.update(code.co_code + repr(code.co_names).encode())
        for constant in code.co_consts:
            # A set's order differs between processes, an inner function's repr holds an address.
            if isinstance(constant, CodeType):
                constant = _code_hash(constant)
            elif isinstance(constant, frozenset):
                constant = sorted(map(repr, constant))
            sha.update(repr(constant).encode())
    return sha.hexdigest()[:16]
