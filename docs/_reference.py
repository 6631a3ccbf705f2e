"""The Python reference: every public name of `skillopt` with its signature and docstring."""

from __future__ import annotations

import collections.abc
import inspect
import re
import typing
from collections.abc import Iterator
from typing import Any

import skillopt

HEAD = """# Python reference

Made by `docs/generate.py` from the docstrings; `make docs` writes it anew and a test holds it.

Everything here is a name of the package: `import skillopt`, then `skillopt.optimize(...)`. Inside a running event loop use the names that begin with `a`. [Your own task](your-own-task.md) and [your agent](your-agent.md) show them at work; `skillopt.testing` has doubles for your tests.
"""


def reference() -> str:
    """The whole page: functions first, then types, each by name."""
    names = sorted(skillopt.__all__)
    functions = [name for name in names if inspect.isfunction(getattr(skillopt, name))]
    types = [name for name in names if name not in functions]
    parts = [HEAD, "## Functions\n"]
    parts += [_function(name) for name in functions]
    parts.append("## Types\n")
    parts += [_type(name) for name in types]
    return "\n".join(parts)


def _function(name: str) -> str:
    function = getattr(skillopt, name)
    if name[0] == "a" and name[1:] in skillopt.__all__:
        return f"### `{name}`\n\nThe same as `{name[1:]}`, to be awaited inside a running event loop.\n"
    return f"### `{name}`\n\n```text\n{_signature(name, function)}\n```\n\n{_docstring(function)}\n"


def _type(name: str) -> str:
    kind = getattr(skillopt, name)
    # Python 3.10 takes an alias such as `Callable[...]` for a class.
    is_class = inspect.isclass(kind) and typing.get_origin(kind) is None
    lines = [f"### `{name}`\n", f"{_docstring(kind)}\n" if is_class else _alias(kind)]
    if is_class:
        members = [*_fields(kind), *_methods(kind)]
        if members:
            lines.append("\n".join(members) + "\n")
    return "\n".join(lines)


def _alias(kind: Any) -> str:
    """What an alias stands for: the members of a union, which may be annotated, or the shape of a callable."""
    if typing.get_origin(kind) is collections.abc.Callable:
        return "Any callable that takes one `Event`.\n"
    union = typing.get_args(kind)[0] if typing.get_origin(kind) is typing.Annotated else kind
    return "One of " + ", ".join(f"`{_name(member)}`" for member in typing.get_args(union)) + ".\n"


def _name(member: Any) -> str:
    return member.__name__ if inspect.isclass(member) else str(member).replace("typing.", "")


def _fields(kind: type) -> Iterator[str]:
    """The fields of a dataclass or a pydantic model."""
    fields = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "model_fields", {})
    for name in fields:
        annotation = next(
            (
                vars(base)["__annotations__"][name]
                for base in kind.__mro__
                if name in vars(base).get("__annotations__", {})
            ),
            "",
        )
        yield f"- `{name}: {annotation}`" if isinstance(annotation, str) else f"- `{name}`"


def _methods(kind: type) -> Iterator[str]:
    """The public methods and properties that the class itself defines, in the order of the source."""
    for name, member in vars(kind).items():
        if name.startswith("_") or name == "model_config":
            continue
        if isinstance(member, property):
            yield _item(name, member)
        elif inspect.isfunction(getattr(member, "__func__", member)):
            function = getattr(member, "__func__", member)
            yield _item(" ".join(_signature(name, function).split()), function)


def _item(code: str, thing: Any) -> str:
    text = _first_paragraph(thing)
    return f"- `{code}`" + (f": {text}" if text else "")


def _signature(name: str, function: Any) -> str:
    """The signature; where it is long, a parameter a line."""
    signature = inspect.signature(function)
    start = f"{'async ' if inspect.iscoroutinefunction(function) else ''}{name}"
    end = (
        "" if signature.return_annotation is inspect.Signature.empty else f" -> {signature.return_annotation}"
    )
    parameters = list(_parameters(signature))
    line = f"{start}({', '.join(parameters)}){end}"
    if len(line) <= 100:
        return line
    return f"{start}(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + f"){end}"


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    """Each parameter as it is written in the source, whose annotations are text."""
    starred = False
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        annotated = parameter.annotation is not inspect.Parameter.empty
        text = f"{parameter.name}: {parameter.annotation}" if annotated else parameter.name
        default = "" if parameter.default is inspect.Parameter.empty else repr(parameter.default)
        yield text + (f" = {default}" if default and annotated else f"={default}" if default else "")


def _docstring(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "").strip()


def _first_paragraph(thing: Any) -> str:
    return re.sub(r"\s+", " ", _docstring(thing).partition("\n\n")[0])
