"""Python functions that a person hands over: loaded by name, identified by their code, async or not."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from skillopt.errors import ConfigError, ScoringError, SkillOptError, UserError, suggest

_LIBRARY = re.compile(
    rf"^<frozen|[/\\](site-packages|lib[/\\]python)|^{re.escape(str(Path(__file__).parents[1]))}",
    re.IGNORECASE,
)


def load_function(spec: str, what: str) -> Callable[..., Any]:
    """The function that `package.module:function` or `path/to/file.py:function` names, to be a `what`.

    A file may import what lies beside it, as it could when it is run.
    """
    where, _, attribute = spec.rpartition(":")
    module = _from_file(Path(where), spec, what) if where.endswith(".py") else _from_import(where, spec, what)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            known = [name for name, one in vars(module).items() if callable(one) and not name.startswith("_")]
            raise ConfigError(
                f"The {what} {spec!r}: {where} has no {attribute!r}. {suggest(attribute, known)}"
            )
        found = getattr(found, part)
    if not callable(found):
        raise ConfigError(f"The {what} {spec!r} is no function but {type(found).__name__}. Name a function.")
    return found  # type: ignore[no-any-return]  # whatever is callable


def _from_import(where: str, spec: str, what: str) -> ModuleType:
    with _said_of(f"The {what} {spec!r}", f"importing {where}"):
        try:
            return importlib.import_module(where)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"The {what} {spec!r}: {error}. Install it, or name the file: path/to/file.py:function."
            ) from error


def _from_file(path: Path, spec: str, what: str) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"The {what} {spec!r}: there is no file {path}. Correct the path.")
    name = f"_skillopt_function_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    module_spec = importlib.util.spec_from_file_location(name, path)
    assert module_spec is not None and module_spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(module_spec)
    beside = str(path.resolve().parent)
    if beside not in sys.path:  # at the end: nothing that is installed may change
        sys.path.append(beside)
    sys.modules[name] = module  # dataclasses and pickle look their module up by name
    with _said_of(f"The {what} {spec!r}", f"running {path}"):
        try:
            module_spec.loader.exec_module(module)
        except BaseException:  # also on Ctrl-C: a module that ran in part is not to be found as a whole one
            del sys.modules[name]
            raise
    return module


@contextmanager
def _said_of(which: str, doing: str) -> Iterator[None]:
    try:
        yield
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # a stranger's module may raise anything while it is imported
        raise ConfigError(f"{which}: {doing} raised {type(error).__name__}: {error}.") from error


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives an awaitable that is to run in the caller's event loop."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def place_of(function: Callable[..., Any], error: BaseException | None = None) -> str:
    """File and line of a person's function: where their code raised the error, else where it begins."""
    plain = inspect.unwrap(getattr(function, "func", function))
    code = getattr(plain, "__code__", None) or getattr(type(plain).__call__, "__code__", None)
    if found := "" if error is None else innermost(_frames(error)):
        return found
    if code is None:  # a class or a builtin
        return str(getattr(plain, "__qualname__", type(plain).__qualname__))
    return _shown(code.co_filename, code.co_firstlineno)


@contextmanager
def own_code_blamed(doing: str, *, stops: bool = False) -> Iterator[None]:
    """Make what a person's benchmark or scorer raises a `ScoringError`, or with `stops` a `UserError`; a bug
    of ours stays what it is.
    """
    try:
        yield
    except (SkillOptError, OSError):
        raise
    except Exception as error:
        if not (where := innermost(_frames(error))):
            raise
        said = f"{doing} raised {type(error).__name__}: {error} ({where})"
        raise (
            UserError(f"{said}. Correct it.") if stops else ScoringError("judge", said, where=where)
        ) from error


def innermost(frames: Iterable[tuple[str, int]]) -> str:
    """File and line of the last frame that is in no library and not ours; empty where there is none."""
    own = [frame for frame in frames if not _LIBRARY.search(frame[0])]
    return _shown(*own[-1]) if own else ""


def _frames(error: BaseException) -> Iterator[tuple[str, int]]:
    return ((frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__))


def _shown(name: str, line: int) -> str:
    path, here = Path(name).absolute(), Path.cwd()
    return f"{path.relative_to(here) if here in path.parents else path}:{line}"


def source_hash(function: Callable[..., Any]) -> str:
    """Hash of what the function and those of its file that it names compile to, and of the values it carries:
    two closures of one line are two functions, and a script may change around its function.
    """
    plain = inspect.unwrap(getattr(function, "func", function))  # `func`: functools.partial
    code = [_code_hash(each.__code__) for each in _reachable(plain)]
    return hashlib.sha256(f"{code} {_carried(function)}".encode()).hexdigest()[:16]


def _reachable(function: Any) -> list[FunctionType]:
    """The function, or the methods of a callable object or class, and what they name of the same file."""
    if inspect.ismethod(function):
        owner = function.__self__ if inspect.isclass(function.__self__) else type(function.__self__)
        waiting: list[Any] = [function.__func__, owner]
    else:
        waiting = [function if inspect.isfunction(function) or inspect.isclass(function) else type(function)]
    module = getattr(waiting[0], "__module__", None)
    found: dict[int, FunctionType] = {}
    while waiting:
        one = inspect.unwrap(waiting.pop(0))
        if getattr(one, "__module__", None) != module:
            continue
        if inspect.isclass(one):
            waiting += [each for _, each in sorted(vars(one).items()) if inspect.isfunction(each)]
        elif inspect.isfunction(one) and id(one) not in found:
            found[id(one)] = one
            waiting += [one.__globals__[name] for name in _names(one.__code__) if name in one.__globals__]
    return list(found.values())


def _names(code: CodeType) -> list[str]:
    inner = [name for each in code.co_consts if isinstance(each, CodeType) for name in _names(each)]
    return sorted({*code.co_names, *inner})


def _carried(function: Any) -> str:
    """Values bound to a function: partial arguments, defaults, closure cells, an object's attributes."""
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
    """A text that is the same in every process; an object without one is identified by its type."""
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
