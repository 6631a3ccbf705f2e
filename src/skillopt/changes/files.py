"""A file below a folder of the person's, read and replaced without following a link on the way.

On POSIX every folder below the root is opened without following links and held while it is used, so a link
that is put there meanwhile is not followed either.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from skillopt.errors import UsageError
from skillopt.files import as_usage_error

_HAS_FOLDER_HANDLES = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
_DIRECTORY, _NOFOLLOW, _BINARY = (getattr(os, name, 0) for name in ("O_DIRECTORY", "O_NOFOLLOW", "O_BINARY"))
_REPARSE_POINT = 0x400  # FILE_ATTRIBUTE_REPARSE_POINT: a link or a junction on Windows


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """The bytes of a file and its permissions."""

    data: bytes
    mode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeFile:
    """A file below a root; `parts` are its folders and its name."""

    root: Path
    """Resolved: the user may reach their own folder over links as they like."""
    parts: tuple[str, ...]

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.parts)

    @property
    def name(self) -> str:
        return self.parts[-1]

    @property
    def folded(self) -> str:
        """Equal for two places that one file system or another takes for the same."""
        return _fold(str(self.path))

    def read(self) -> FileContent | None:
        """What the file holds, or None. Raises `UsageError` for a link or what is no plain file."""
        remedy = "Check its permissions and those of its folder."
        with as_usage_error(self.path, "read", remedy), self.folder() as folder:
            return None if folder is None else folder.read(self.name)

    def content(self) -> bytes | None:
        """The bytes alone; None when it is not there."""
        found = self.read()
        return None if found is None else found.data

    def missing(self) -> int:
        """How many of its folders are not there yet."""
        depth = len(self.parts) - 1
        while depth and not self.root.joinpath(*self.parts[:depth]).exists():
            depth -= 1
        return len(self.parts) - 1 - depth

    @contextmanager
    def folder(self, *, make: bool = False, up: int = 0) -> Iterator[Folder | None]:
        """Its folder (or one `up` from there), held open; None when it is not there and not to be made."""
        try:
            held: Folder | None = Folder(self.root)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UsageError(
                f"There is no folder {self.root} for {self.path}. Make it, or name another."
            ) from error
        try:
            for part in self.parts[: len(self.parts) - 1 - up]:
                if held is None:
                    break
                inner = held.enter(part, make=make)
                held.close()
                held = inner
            yield held
        finally:
            if held is not None:
                held.close()

    def remove_folders(self, count: int) -> None:
        """Remove the innermost `count` folders, as far as they are empty."""
        for up in range(1, count + 1):
            with self.folder(up=up) as folder:
                if folder is None or not folder.remove_empty(self.parts[len(self.parts) - 1 - up]):
                    return


class Folder:
    """An open folder. Names in it are single names, never paths."""

    def __init__(self, path: Path, descriptor: int | None = None) -> None:
        self.path = path
        self._descriptor = descriptor
        if descriptor is None and _HAS_FOLDER_HANDLES:
            self._descriptor = os.open(path, os.O_RDONLY | _DIRECTORY)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def enter(self, name: str, *, make: bool) -> Folder | None:
        """A folder in this one; None when it is not there. Links are not followed."""
        self._refuse_other_case(name)
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._at(name), dir_fd=self._descriptor)
                self._sync()
        try:
            if self._descriptor is None:
                self._refuse_link(name, os.lstat(self._at(name)))
                return Folder(self.path / name)
            flags = os.O_RDONLY | _DIRECTORY | _NOFOLLOW
            return Folder(self.path / name, os.open(name, flags, dir_fd=self._descriptor))
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            raise UsageError(
                f"{self.path / name} is a symbolic link or no folder, so what lies behind it may be anywhere."
                " Nothing was written; name the folder it leads to as a root of its own if that is where"
                " your skills live."
            ) from error

    def read(self, name: str) -> FileContent | None:
        """A file in this folder; None when it is not there."""
        self._refuse_other_case(name)
        try:
            found = os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        self._refuse_link(name, found)
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{self.path / name} is no regular file. Nothing was written.")
        if found.st_nlink > 1:
            raise UsageError(
                f"{self.path / name} has further names (hard links), under which the old text would stay. "
                "Nothing was written; make it a file of its own, or adopt by hand from the diff."
            )
        descriptor = os.open(self._at(name), os.O_RDONLY | _NOFOLLOW | _BINARY, dir_fd=self._descriptor)
        with os.fdopen(descriptor, "rb") as file:
            return FileContent(data=file.read(), mode=stat.S_IMODE(found.st_mode))

    def write(self, name: str, data: bytes, mode: int | None, *, durable: bool) -> None:
        """Put a file in place, whole or not at all. Without a mode it gets the usual one."""
        # The name is always the same, so that what a killed process left behind is found by the next one.
        temporary = self.temporary(name)
        self.remove(temporary)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _BINARY
        try:
            rights = 0o666 if mode is None else 0o600
            descriptor = os.open(self._at(temporary), flags, rights, dir_fd=self._descriptor)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                if mode is not None and hasattr(os, "fchmod"):
                    os.fchmod(file.fileno(), mode)
                if durable:
                    os.fsync(file.fileno())
            here = self._descriptor
            os.replace(self._at(temporary), self._at(name), src_dir_fd=here, dst_dir_fd=here)
        except BaseException:
            # Also on Ctrl-C: a folder of the person's is not to collect our half-written files.
            self.remove(temporary)
            raise
        if durable:
            self._sync()

    @staticmethod
    def temporary(name: str) -> str:
        """What a file is called until it is whole."""
        return f".{name[:100]}.skillopt.tmp"

    def remove(self, name: str) -> None:
        """Remove a file; one that is not there is no error."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._at(name), dir_fd=self._descriptor)
            self._sync()

    def remove_empty(self, name: str) -> bool:
        """Remove an empty folder; False when something is in it."""
        try:
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(self._at(name), dir_fd=self._descriptor)
        except OSError:  # not empty, or no longer ours to remove: then it stays
            return False
        return True

    def _sync(self) -> None:
        """Wait until the disk has the folder's names; Windows has no way to ask for it."""
        if self._descriptor is not None:
            os.fsync(self._descriptor)

    def _at(self, name: str) -> str:
        return name if self._descriptor is not None else str(self.path / name)

    def _refuse_other_case(self, name: str) -> None:
        """A name that differs only in case or composition is the same file on some systems."""
        with os.scandir(self.path if self._descriptor is None else self._descriptor) as listing:
            names = [entry.name for entry in listing]
        other = next((one for one in names if _fold(one) == _fold(name)), name)
        if name not in names and other != name:
            raise UsageError(
                f"{self.path} holds {other!r}, not {name!r}: some systems take both for one. Name that one."
            )

    def _refuse_link(self, name: str, found: os.stat_result) -> None:
        if stat.S_ISLNK(found.st_mode) or getattr(found, "st_file_attributes", 0) & _REPARSE_POINT:
            raise UsageError(
                f"{self.path / name} is a symbolic link, so what would change lies elsewhere. Nothing was"
                " written; let the night work on the file it leads to, or replace the link by that file."
            )


def confined(path: Path, roots: Sequence[Path]) -> SafeFile:
    """A file below one of the roots that the person named. Raises `UsageError` for any other."""
    has_controls = any(unicodedata.category(char) == "Cc" for char in str(path))
    if not path.is_absolute() or ".." in path.parts or has_controls:
        raise UsageError(f"{str(path)!r} is no plain absolute path, so nothing is written there.")
    if sys.platform == "win32" and any(":" in part for part in path.parts[1:]):
        raise UsageError(f"{path} names a stream inside a file, so nothing is written there.")
    for root in roots:
        resolved = Path(os.path.realpath(root))
        for base in (root, resolved):
            if path != base and base in path.parents:
                return SafeFile(root=resolved, parts=path.relative_to(base).parts)
    named = ", ".join(str(root) for root in roots) or "none"
    raise UsageError(
        f"{path} is not below a folder that you named for adoption ({named}). Name its folder, or discard it."
    )


def followed(path: Path) -> SafeFile:
    """A file at the end of whatever links lead to it: for settings in the person's own folders."""
    path = Path(os.path.realpath(path))
    root = next(folder for folder in path.parents if folder.is_dir())
    return SafeFile(root=root, parts=path.relative_to(root).parts)


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One file, what it held when it was read, and what it is to hold; None where there is no file."""

    file: SafeFile
    before: bytes | None
    after: bytes | None
    mode: int | None = None
    """The permissions of a new file; an old one keeps its own."""
    made: int = 0
    """How many folders were made for the file, and go with it."""
    durable: bool = True
    """Whether to wait until the disk has it. A new file that can be written again need not."""
    name: str = ""
    """What a person calls the file; empty for its own name."""
    edits: tuple[int, ...] = ()
    """Edits of a proposal that the file gains, or loses by an undo."""


def digest(data: bytes | None) -> str | None:
    """The hash that pins a file's content; None for a file that is not there."""
    return None if data is None else hashlib.sha256(data).hexdigest()


def put(change: FileChange) -> bool:
    """Whether the file now holds `after`. False where it holds neither: then it is somebody else's and stays.

    Raises `OSError` where it cannot be written, and `UsageError` where a link or a folder took its place.
    """
    name = change.file.name
    with change.file.folder(make=change.after is not None) as folder:
        if folder is None:
            return True  # only a file that is to go away has no folder any more
        folder.remove(folder.temporary(name))
        found = folder.read(name)
        live = None if found is None else found.data
        if live not in (change.before, change.after):
            return False
        if live != change.after and change.after is None:
            folder.remove(name)
        elif live != change.after and change.after is not None:
            mode = change.mode if found is None else found.mode
            folder.write(name, change.after, mode, durable=change.durable)
    if change.after is None:
        change.file.remove_folders(change.made)
    return True


def put_back(change: FileChange) -> None:
    """Give a file its content of before, where nobody else changed it meanwhile."""
    with contextlib.suppress(OSError, UsageError):
        put(replace(change, before=change.after, after=change.before))


def apply(
    changes: Sequence[FileChange],
    *,
    leave_changed: bool = False,
    put: Callable[[FileChange], bool] = put,
    on_put: Callable[[FileChange], None] = lambda change: None,
) -> list[FileChange]:
    """Make all changes, or none: whatever stops it, Ctrl-C too, everything is put back before it is raised.

    A file that somebody changed since stops it as well; with `leave_changed` it is left and returned.
    """
    begun: list[FileChange] = []
    left: list[FileChange] = []
    try:
        for change in changes:
            begun.append(change)
            try:
                is_put = put(change)
            except UsageError:
                if not leave_changed:
                    raise
                is_put = False
            if is_put:
                on_put(change)
            elif leave_changed:
                left.append(begun.pop())
            else:
                raise changed_meanwhile(change)
    except BaseException as error:  # also on Ctrl-C: all files are changed, or none
        for change in reversed(begun):
            put_back(change)
        if isinstance(error, OSError):
            raise UsageError(
                f"{begun[-1].file.path} cannot be written: {error.strerror or error}. Nothing was changed;"
                " check the permissions of its folder, then try again."
            ) from error
        raise
    return left


def changed_meanwhile(change: FileChange) -> UsageError:
    """Why nothing is written where somebody else writes at the same moment."""
    return UsageError(
        f"{change.file.path} was changed at this moment by somebody else. Nothing was written; look at it,"
        " then try again."
    )
