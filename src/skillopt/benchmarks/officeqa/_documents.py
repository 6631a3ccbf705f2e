"""Finds the documents of a row below the folders that hold them, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skillopt.errors import ConfigError

_TEXTS = ("", "transformed", "treasury_bulletins_parsed/transformed")
_PARSED = ("jsons", "treasury_bulletins_parsed/jsons")


class Library:
    """The folders with documents: their texts beside each other or in `transformed/`, parsed ones in
    `jsons/`.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        for root in roots:
            if not root.is_dir():
                raise ConfigError(
                    f"env.data_dirs: there is no folder {root}. Name the folder with the documents."
                )
        self._roots = [root.resolve() for root in roots]

    @property
    def has_pages(self) -> bool:
        """Whether parsed documents are here at all."""
        return any((root / folder).is_dir() for root in self._roots for folder in _PARSED)

    def text(self, name: str) -> Path:
        """The document of that name. Raises `LookupError` that says what is wrong."""
        return self._find(name, [root / folder for root in self._roots for folder in reversed(_TEXTS)])

    def parsed(self, stem: str) -> Path:
        """The parsed form of a document. Raises `LookupError` that says what is wrong."""
        return self._find(f"{stem}.json", [root / folder for root in self._roots for folder in _PARSED])

    def _find(self, name: str, folders: Sequence[Path]) -> Path:
        if name != Path(name).name or name in ("", ".", ".."):
            raise LookupError(f"{name!r} is no plain file name")
        for folder in folders:
            path = folder / name
            if path.is_file():
                if not any(path.resolve().is_relative_to(root) for root in self._roots):
                    raise LookupError(
                        f"{path} is a link that leads out of the folder; put the file itself there"
                    )
                return path
        raise LookupError(f"there is no {name} in {' or '.join(str(root) for root in self._roots)}")
