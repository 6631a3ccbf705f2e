"""Files: decides how every file of ours is read, written whole or not at all, and held by one process."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from skillopt.errors import ConfigError, RunConflict, UsageError


def caches_folder() -> Path:
    """The person's folder for what this program can make again."""
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named) / "skillopt"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "skillopt"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(local) / "skillopt" / "cache"
    return Path.home() / ".cache" / "skillopt"


def person_folder() -> Path:
    """The person's folder for what must be known again, outside of every project: nights, receipts, runs."""
    return Path.home() / ".skillopt-sleep"


def expand_home(path: str) -> Path:
    """The path with `~` or `~name` at its beginning written out."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        home = Path(path).parts[0]
        raise ConfigError(
            f"{path}: the home folder of {home!r} is not known. Write the path out; for a file of that name,"
            " begin it with './'."
        ) from None


def read_text(path: Path | str) -> str:
    """The text as UTF-8 with its newlines and byte order mark; raises `OSError`, `UnicodeDecodeError`."""
    return Path(path).read_bytes().decode("utf-8")


@contextmanager
def as_usage_error(
    path: Path | str, doing: str, remedy: str, kind: type[UsageError] = UsageError
) -> Iterator[None]:
    """Say in one sentence what the system refuses inside: `doing` ends "The file cannot be ..."."""
    try:
        yield
    except UnicodeDecodeError as error:
        what = f"byte {error.start} cannot be read ({error.reason})"
        raise kind(f"{path} is not UTF-8: {what}. Save the file as UTF-8.") from error
    except OSError as error:
        raise kind(f"{path} cannot be {doing}: {error.strerror or error}. {remedy}") from error


def check_writable(path: Path) -> None:
    """Raise `UsageError` for a file that cannot be written, before its content is paid for."""
    is_there = path.exists()
    if not is_there:
        check_no_link(path)
    with as_usage_error(path, "written", "Name another file."):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
        if not is_there:
            path.unlink()


def check_no_link(path: Path) -> None:
    """Raise `UsageError` for a link where a file or folder is to be made: it would be made elsewhere."""
    if path.is_symlink():
        raise UsageError(
            f"{path} is a link to {os.path.realpath(path)}; nothing was written. Remove it if you do not know"
            " it, or name another place."
        )


def check_links_stay(folder: Path) -> None:
    """Raise `UsageError` for a link that leads out of a folder: a file written or read there is another's."""
    home = os.path.realpath(folder)
    pending = [home]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for one in entries:
                if one.is_dir(follow_symlinks=False):
                    pending.append(one.path)
                elif one.is_symlink() and not Path(os.path.realpath(one.path)).is_relative_to(home):
                    raise UsageError(
                        f"{one.path} is a link that leads out of {folder}; nothing was changed. Remove it if"
                        " you do not know it: a run keeps all of its files in its own folder."
                    )


def make_private_folder(folder: Path) -> None:
    """Make a folder and those missing above it for their owner alone, whatever the umask allows others."""
    for one in [one for one in (*reversed(folder.parents), folder) if not one.exists()]:
        one.mkdir(mode=0o700, exist_ok=True)


def write_text(path: Path | str, text: str, *, durable: bool = True) -> None:
    """Write the text as UTF-8, newlines as they are, in the way of `write_bytes`."""
    write_bytes(path, text.encode("utf-8"), durable=durable)


def write_bytes(path: Path | str, data: bytes, *, mode: int | None = None, durable: bool = True) -> None:
    """Write so that a reader sees the old file or the new one and never a part.

    `durable` waits until the disk has it; what can be written again from other files need not. `mode` are the
    permissions of the file. Makes missing folders, private ones for a private file, keeps the mode of an
    existing file unless told, and writes through a symbolic link instead of replacing it.
    """
    target = Path(path).resolve()
    if mode is not None and not mode & 0o077:
        make_private_folder(target.parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        temporary.touch(mode=0o666 if mode is None else 0o600, exist_ok=False)
        with temporary.open("wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            temporary.chmod(stat.S_IMODE(target.stat().st_mode) if mode is None else mode)
        temporary.replace(target)
    except BaseException:
        # Also on Ctrl-C: a folder of the user's is not to collect our half-written files.
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(target.parent)


def write_json(path: Path | str, obj: Any, *, mode: int | None = None, durable: bool = True) -> None:
    """Write JSON for people: indented, keys in their order, non-ASCII as it is; no NaN or infinity."""
    write_bytes(path, f"{_dumped(obj)}\n".encode(), mode=mode, durable=durable)


def append_json(path: Path | str, obj: Any) -> bool:
    """Add one item to a list that `write_json` wrote, at the cost of that item alone; False where the file
    does not end like such a list.

    One write at the end of the file: whoever is killed leaves the old list or the new one.
    """
    item = "  " + _dumped(obj).replace("\n", "\n  ")
    try:
        with Path(path).open("r+b") as file:
            bracket = max(0, file.seek(0, os.SEEK_END) - 3)
            file.seek(bracket)
            if file.read() != b"\n]\n":
                return False
            file.seek(bracket)
            file.write(f",\n{item}\n]\n".encode())
    except FileNotFoundError:
        return False
    return True


def _dumped(obj: Any) -> str:
    text = json.dumps(obj, indent=2, ensure_ascii=False, allow_nan=False)
    # A model's reply may hold half of a surrogate pair; UTF-8 cannot, a JSON escape can.
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


@contextmanager
def lock(path: Path | str, *, mode: int = 0o666) -> Iterator[None]:
    """Hold an exclusive lock on a lock file; raise `RunConflict` at once when another process holds it.

    The system frees the lock when its process ends, however it ends. The file stays, so that no two processes
    lock different files of one name.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, mode), "a+b") as file:
        if not _try_lock(file.fileno()):
            file.seek(0)
            holder = file.read(20).decode("ascii", "replace").strip() or "unknown"
            raise RunConflict(
                f"{path.parent} is in use by process {holder} (it holds {path.name}). "
                "Wait until that process has ended or stop it, then run the same command again."
            )
        try:
            _write_holder(file.fileno(), str(os.getpid()))
            yield
        finally:
            _write_holder(file.fileno(), "")
            _unlock(file.fileno())


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder that may be a stranger's: whoever locks a file writes into it."""
    check_links_stay(folder)
    with lock(folder / ".lock"):
        yield


@contextmanager
def lock_privately(path: Path | str, patience: float = 0.0) -> Iterator[None]:
    """Hold such a lock in a folder that is made for its owner alone. Raises `UsageError` where that folder
    cannot be used.

    `patience` is how many seconds another process that holds it is waited for.
    """
    path = Path(path)
    last = time.monotonic() + patience
    with contextlib.ExitStack() as held:
        while True:
            try:
                make_private_folder(path.parent)
                held.enter_context(lock(path, mode=0o600))
                break
            except RunConflict:
                if time.monotonic() >= last:
                    raise
                time.sleep(_PAUSE)
            except OSError as error:
                raise UsageError(
                    f"{path.parent} cannot be written to: {error.strerror or error}. See that it is a folder"
                    " of yours, or name another."
                ) from error
        yield


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A private folder with a lock file in it, gone afterwards; `prefix` begins with `skillopt-`. What killed
    processes left goes with the first one that this process makes.
    """
    _sweep(Path(tempfile.gettempdir()))
    with contextlib.ExitStack() as held:
        while True:
            root = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
            try:
                held.enter_context(lock(root / _TEMPORARY))
            except RunConflict:  # another process sweeps, and took it for left behind
                continue
            if (root / _TEMPORARY).exists():
                break
            held.pop_all().close()  # swept between the making of its lock file and the lock
        try:
            yield root
        finally:
            if sys.platform == "win32":  # no file is removed there while it is open
                held.close()
            _remove_temporary(root)


@cache
def _sweep(folder: Path) -> None:
    """Remove the folders of processes that are gone: the lock of a living one is held."""
    for root in folder.glob("skillopt-*"):
        with contextlib.suppress(OSError, RunConflict):
            is_ours = not root.is_symlink() and root.stat().st_uid == getattr(os, "getuid", int)()
            if is_ours and (root / _TEMPORARY).is_file():
                with lock(root / _TEMPORARY):
                    _remove_temporary(root)
                remove(root)  # Windows keeps a file while it is open


def _remove_temporary(root: Path) -> None:
    """Remove a temporary folder, its lock last: what a kill leaves of it can still be swept."""
    with contextlib.suppress(OSError):
        for path in list(root.iterdir()):
            if path.is_dir() and not path.is_symlink():
                remove(path)
            elif path.name != _TEMPORARY:
                path.unlink()
    remove(root)


def remove(root: Path) -> None:
    """Remove a tree, also what was made read-only in it; nothing above it is touched."""

    def again(function: Callable[..., Any], path: str, _error: Any) -> None:
        for each in (Path(path).parent, Path(path)):
            if not each.is_relative_to(root) or each.is_symlink():
                continue
            with contextlib.suppress(OSError):
                each.chmod(stat.S_IRWXU)
        with contextlib.suppress(OSError):
            function(path)

    shutil.rmtree(root, onerror=again)


def holder(path: Path | str) -> str | None:
    """The process that holds a lock file, as it was asked now and without writing; None when nobody does."""
    try:
        with Path(path).open("rb") as file:
            name = file.read(20).decode("ascii", "replace").strip()
            # A name in the file is left behind by a process that was killed; only then the lock is asked.
            return name if name and _is_locked(file.fileno()) else None
    except OSError:
        return None


_PAUSE = 0.05
_TEMPORARY = ".skillopt-temporary"
"""The lock of a temporary folder, and of no other: a folder that a person keeps may be named so too."""
_SURROGATE = re.compile("[\ud800-\udfff]")


def _write_holder(descriptor: int, holder: str) -> None:
    os.ftruncate(descriptor, 0)
    os.write(descriptor, holder.encode())


if sys.platform == "win32":
    import msvcrt

    # Far behind the process id, because Windows keeps others from reading bytes that are locked.
    _LOCKED_BYTE = 1 << 20

    def _try_lock(descriptor: int) -> bool:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _is_locked(descriptor: int) -> bool:
        return True  # asking would need write access; a name in the file has to do

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

    def _sync_folder(folder: Path) -> None:
        """Windows has no way to sync a folder."""

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_locked(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return False

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _sync_folder(folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
