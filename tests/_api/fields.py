"""The small checks strict request bodies are made of; each refusal names the field, as a strict API would."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


class BadRequest(ValueError):
    """A body the API refuses with HTTP 400."""


def only(value: Mapping[str, Any], known: Collection[str], at: str) -> None:
    """No field but the known ones."""
    unknown = sorted(set(value) - set(known))
    if unknown:
        raise BadRequest(f"{at}: unknown field {unknown[0]!r}")


def mapping(value: Any, at: str) -> dict[str, Any]:
    """The value, which must be an object."""
    if not isinstance(value, dict):
        raise BadRequest(f"{at} must be an object")
    return value


def filled(value: Any, at: str) -> list[Any]:
    """The value, which must be a list with something in it."""
    if not isinstance(value, list) or not value:
        raise BadRequest(f"{at} must be a list that is not empty")
    return value


def text(value: Mapping[str, Any], field: str, at: str) -> None:
    """A field that must be a text that is not empty."""
    if not isinstance(value.get(field), str) or not value[field]:
        raise BadRequest(f"{at}.{field} must be a text that is not empty")


def flag(value: Mapping[str, Any], field: str, at: str) -> None:
    """A field that must be true or false."""
    if not isinstance(value.get(field), bool):
        raise BadRequest(f"{at}.{field} must be true or false")


def whole(value: Mapping[str, Any], field: str, least: int | None) -> None:
    """A field that must be a whole number."""
    number = value.get(field)
    if not isinstance(number, int) or isinstance(number, bool) or (least is not None and number < least):
        raise BadRequest(f"{field} must be a whole number{'' if least is None else f' of at least {least}'}")


def number(value: Mapping[str, Any], field: str, low: float, high: float) -> None:
    """A field that may be absent and else must be a number in a range."""
    if field not in value:
        return
    given = value[field]
    if not isinstance(given, (int, float)) or isinstance(given, bool) or not low <= given <= high:
        raise BadRequest(f"{field} must be a number from {low} to {high}")


def one_of(value: Any, known: Collection[str], at: str) -> None:
    """A value that must be one of the known ones."""
    if value not in known:
        raise BadRequest(f"{at} must be one of {', '.join(known)}, got {value!r}")
