"""Tells the person's own words in sessions from what they pasted and from the output of tools.

This is what an edit may have its commands and links from, so it is strict: in doubt words count as pasted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

from skillopt.skill.steering import TextOrigins
from skillopt.transcripts.session import RecordedSession
from skillopt_sleep.kinds import PASTED, pasted
from skillopt_sleep.plan import NightTarget
from skillopt_sleep.tasks import NightTask

_QUOTED = re.compile(
    r"^[ \t]*>[^\n]*$|\"[^\"\n]{40,}\"|“[^”\n]{40,}”|<!--.*?(?:-->|\Z)", re.MULTILINE | re.DOTALL
)
_INTRODUCED = re.compile(
    r"(?:\b(?-i:[A-Z]{3,}(?:[ -][A-Z]{3,})+)|\b(?:says?|said|reads?|output|message|error|note|log|file|readme"
    r"|doc\w*|text|this|following|result|page|ticket|issue|comment|mail|diff|from \w+))\s*:(?!/)",
    re.IGNORECASE,
)
_TYPED_LINE = 400
"""Characters of a line that a person types; a longer one was written elsewhere."""


def own_words(text: str) -> tuple[str, str]:
    """The words of a turn that the person surely typed, and the rest of it."""
    words, material = pasted(text)
    foreign = [material, *_QUOTED.findall(words)]
    typed: list[str] = []
    is_introduced = False
    for line in _QUOTED.sub("\n", words).splitlines():
        found = _INTRODUCED.search(line)
        if is_introduced or PASTED.match(line) or len(line) > _TYPED_LINE:
            foreign.append(line)
        elif found is not None:
            typed.append(line[: found.start()])
            foreign.append(line[found.start() :])
            is_introduced = True
        else:
            typed.append(line)
            is_introduced = line.rstrip().endswith(":")
    return "\n".join(typed), "\n".join(filter(None, foreign))


def origins_of(
    sessions: Iterable[RecordedSession], tasks: Iterable[NightTask], targets: Iterable[NightTarget]
) -> TextOrigins:
    """Where the edits of a night may have words from: skills as they are, what the person typed, and beside
    them what was pasted and what tools gave back.
    """
    own = [text for one in targets for text in (one.before or "", one.seed, one.beside, *one.files.values())]
    foreign: list[str] = []
    asked = (text for task in tasks for text in (task.prompt, *task.said))
    for text in chain(asked, (turn.text for session in sessions for turn in session.prompts)):
        for kept, part in zip((own, foreign), own_words(text), strict=True):
            kept.append(part)
    foreign += (turn.text for session in sessions for turn in session.turns if turn.role == "tool")
    return TextOrigins(
        own=tuple(filter(None, dict.fromkeys(own))), foreign=tuple(filter(None, dict.fromkeys(foreign)))
    )
