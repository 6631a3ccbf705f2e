"""The user's key and what it vouches for: decides whether a record was written by this user's own nights or
planted by somebody else.

A repository can hold any file, but not one sealed with a key that never left the user's machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skillopt.errors import UsageError

_SEAL = "seal"
_BYTES = 32


@dataclass(frozen=True, slots=True)
class Key:
    """A key that seals records. Its bytes never show in a representation."""

    secret: bytes = field(repr=False)

    def sealed(self, body: Mapping[str, Any], purpose: str) -> dict[str, Any]:
        """The record with its seal. `purpose` says what it is and what it belongs to, so that no record
        passes for another.
        """
        if _SEAL in body:
            raise ValueError(f"a record has no {_SEAL!r} of its own")
        return {**body, _SEAL: self._mark(body, purpose)}

    def opened(self, record: object, purpose: str) -> dict[str, Any] | None:
        """The record without its seal; None when it was not sealed with this key for this purpose, or changed
        since.
        """
        if not isinstance(record, dict) or not isinstance(record.get(_SEAL), str):
            return None
        body = {name: value for name, value in record.items() if name != _SEAL}
        try:
            mark = self._mark(body, purpose)
        except (
            ValueError,
            RecursionError,
        ):  # NaN, half a surrogate pair, endless nesting: nothing that we would have sealed
            return None
        return body if hmac.compare_digest(mark.encode(), record[_SEAL].encode("utf-8", "replace")) else None

    def _mark(self, body: Mapping[str, Any], purpose: str) -> str:
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return hmac.new(self.secret, f"{purpose}\0{text}".encode(), hashlib.sha256).hexdigest()


def read_key(path: Path) -> Key | None:
    """The user's key; None where none was made yet. Raises `UsageError` for one that others could read, own
    or have put there.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(
            f"The key {path} cannot be read: {error.strerror or error}. Check the permissions of its folder."
        ) from error
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(
            f"The key {path} is no regular file. Move it away; a new key is made, and proposals of the old"
            " one are refused."
        )
    if sys.platform != "win32":
        if found.st_uid != os.geteuid():
            raise UsageError(
                f"The key {path} belongs to another user. Move it away; a new one is made with the next"
                " proposal."
            )
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise UsageError(
                f"The key {path} has mode {stat.S_IMODE(found.st_mode):03o}, so others may have read it, or"
                f" it came with files that are not yours. If you know that it is your own: chmod 600 {path}."
                " Else delete it; a new one is made with the next proposal."
            )
    try:
        secret = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except OSError as error:
        raise UsageError(
            f"The key {path} cannot be read: {error.strerror or error}. Check its permissions."
        ) from error
    except ValueError:
        secret = b""
    if len(secret) != _BYTES:
        raise UsageError(
            f"{path} holds no key of ours. Move it away; a new one is made with the next proposal."
        )
    return Key(secret)


def make_key(path: Path) -> Key:
    """The user's key, made on first use with mode 600. Of several processes that make one at once, all get
    the same.
    """
    if (found := read_key(path)) is not None:
        return found
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a rename, never takes the place of a key that another process has made meanwhile.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    except OSError as error:
        raise UsageError(
            f"The key {path} cannot be made: {error.strerror or error}. Check the permissions of its folder."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    made = read_key(path)
    assert made is not None, f"{path} was there a moment ago"
    return made


def digest(data: bytes | None) -> str | None:
    """The hash by which a file's content is pinned; None for a file that is not there."""
    return None if data is None else hashlib.sha256(data).hexdigest()
