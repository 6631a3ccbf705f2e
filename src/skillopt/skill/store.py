"""The skill texts of a run, each kept once and named by its digest in events and checkpoints."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from skillopt.errors import RunConflict
from skillopt.skill.document import Document

_CACHED = 32


class Skills:
    """Skills by the digest of their text; the last few are not read and checked again."""

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self._read = read
        self._recent: OrderedDict[str, Document] = OrderedDict()

    def get(self, digest: str) -> Document:
        """The skill of that digest; raises `RunConflict` where the texts are not the log's."""
        skill = self._recent.get(digest)
        if skill is None:
            text = self._read(digest)
            if text is None:
                raise RunConflict(
                    f"The skill {digest[:16]} that the log names is not in the run's database, which was not"
                    " written with this log. Put the right run.db back, or start a new run in another folder."
                )
            skill = Document.of(text)
        return self._note(digest, skill)

    def _note(self, digest: str, skill: Document) -> Document:
        self._recent[digest] = skill
        self._recent.move_to_end(digest)
        if len(self._recent) > _CACHED:
            self._recent.popitem(last=False)
        return skill


class SkillStore(Skills):
    """The skills of a run that is under way: what is kept here can be named in its log."""

    def __init__(
        self,
        read: Callable[[str], str | None],
        write: Callable[[str, str], None],
        *,
        scrub: Callable[[str], str] = str,
    ) -> None:
        """`write` keeps a text under its digest: what it returned from is there after `kill -9`, and one that
        is there already stays. `scrub` takes credentials out of what is stored.
        """
        super().__init__(read)
        self._write = write
        self._scrub = scrub

    def keep(self, skill: Document) -> str:
        """Store a skill, before any event names it; returns the digest that names it."""
        digest = skill.text_digest
        if digest not in self._recent:
            self._write(digest, self._scrub(skill.whole))
        self._note(digest, skill)
        return digest
