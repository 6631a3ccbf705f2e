"""Every error a user can meet: what happened, to which thing, and what to do.

SkillOptError
├── UsageError          bad input, found before a call is paid           exit 2
│   ├── ConfigError     a key, value, flag or variable
│   ├── UnknownName     a name no registry holds, with the near miss
│   ├── SkillError      a skill file or folder
│   ├── TaskError       a task file, row or split
│   └── RunConflict     a run folder that is another run's, or in use
├── Stopped             a run that ended between decisions, or bad input that
│   │                   calls were paid before; the same command goes on   exit 3
│   ├── BudgetSpent                                                       exit 4
│   ├── ProviderDown    outage or dead login, every cause listed          exit 3
│   ├── UserError       a person's own scorer or agent does not work      exit 3
│   ├── UnusableReplies the optimizer's replies could not be read, twice  exit 3
│   ├── MachineFailed   disk, files or memory of this machine             exit 3
│   ├── AnswersWanted   questions by hand wait for their answers          exit 5
│   ├── ReviewWanted    drafted queries wait for a person to read them    exit 5
│   └── Interrupted     Ctrl-C                                            exit 130
└── Fault               something the measurement did wrong, with its kind; never a score
    ├── ModelError      one failed attempt of one model call
    └── ScoringError    a scorer that failed
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, get_args

Kind = Literal[
    "auth",
    "spawn",
    "timeout",
    "rate_limit",
    "unavailable",
    "truncated",
    "too_long",
    "parse",
    "contract",
    "judge",
    "sandbox",
    "budget",
]
"""What the *measurement* did wrong; the target's own failures are scores. `too_long` is a request that does
not fit the model's window.
"""

KINDS: tuple[str, ...] = get_args(Kind)
OUTAGE_KINDS: frozenset[str] = frozenset({"auth", "rate_limit", "unavailable", "timeout", "spawn", "sandbox"})
SYSTEMIC_KINDS: frozenset[str] = OUTAGE_KINDS | {"contract", "judge"}
"""What points at the measurement as a whole: a provider, a request or a scorer that does not work. A stage
with much of it stops.
"""
TRANSIENT_KINDS: frozenset[str] = frozenset({"rate_limit", "unavailable", "timeout"})


class SkillOptError(Exception):
    """Base of all errors raised on purpose; `str(error)` is the whole message for a person."""

    exit_code: int = 1


class UsageError(SkillOptError):
    """The input cannot be used; nothing was paid."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration key, value, flag or environment variable cannot be used."""


class SkillError(UsageError):
    """A skill file or folder cannot be used."""


class TaskError(UsageError):
    """A task file, a row of it or a split cannot be used."""


class RunConflict(UsageError):
    """The run folder belongs to a different run, or another process is using it."""


class UnknownName(UsageError):
    """A name that is not registered; names the near miss."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        super().__init__(f"No {what} named {name!r}. {suggest(name, names)}")


class Stopped(SkillOptError):
    """The run stopped between decisions. Everything paid is kept; the same command goes on."""

    exit_code = 3


_paid: ContextVar[list[int] | None] = ContextVar("paid", default=None)


@contextmanager
def stopped_once_paid() -> Iterator[None]:
    """Within it bad input that is found after a paid call is a `Stopped`: a `UsageError` says that nothing
    was paid. Every door of the program stands around it, and the ledger reports to it.
    """
    paid: list[int] = []
    outer = _paid.set(paid)
    try:
        yield
    except UsageError as error:
        if not paid:
            raise
        raise Stopped(
            f"{error}\nThis was found after calls were paid ({sum(paid)}); what they brought is kept, and the"
            " same command goes on from there."
        ) from error
    finally:
        _paid.reset(outer)


def note_paid(calls: int) -> None:
    """Tell whoever stands around it that calls were paid."""
    if calls and (paid := _paid.get()) is not None:
        paid.append(calls)


class BudgetSpent(Stopped):
    """The next reservation does not fit and nothing is outstanding."""

    exit_code = 4


class ProviderDown(Stopped):
    """A stage could not be measured: outage or dead login. Every cause is in the message."""


class UserError(Stopped):
    """A person's own scorer or agent does not work; `__cause__` is what it raised. Where nothing was paid it
    is bad input.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        if not _paid.get():
            self.exit_code = UsageError.exit_code


class UnusableReplies(Stopped):
    """Two steps in a row lost more than half of their reflections to unusable optimizer replies."""


class MachineFailed(Stopped):
    """The machine refused a file, a process or memory: a full disk, too many open files, a lost mount."""


class AnswersWanted(Stopped):
    """Nothing more can be asked before somebody answers the questions that lie in a folder."""

    exit_code = 5


class ReviewWanted(Stopped):
    """Queries were drafted, and nothing is trained on them before a person has read them."""

    exit_code = 5


class Interrupted(Stopped):
    """The person asked to stop."""

    exit_code = 130


class Fault(SkillOptError):
    """The measurement failed; `kind` says how. A rollout that meets one is `Invalid(kind)`."""

    def __init__(self, kind: Kind, detail: str, *, where: str = "") -> None:
        if where not in detail:
            detail = f"{where}: {detail}"
        super().__init__(f"{kind}: {detail}")
        self.kind: Kind = kind
        self.detail = detail
        self.where = where
        """Where a person's own code is to blame: its file and line, or the command. Else empty."""


class ScoringError(Fault):
    """A scorer failed or returned what is no score (`judge`, `contract`, `sandbox`, `timeout`)."""


class ModelError(Fault):
    """One attempt of a model call failed; `retry_after` is what the provider asked for in seconds."""

    def __init__(
        self,
        kind: Kind,
        detail: str,
        *,
        retry_after: float | None = None,
        refused: bool = False,
        tokens: tuple[int, int] | None = None,
        again: bool = False,
    ) -> None:
        super().__init__(kind, detail)
        self.retry_after = retry_after
        self.refused = refused
        """True when it was certainly not worked on, as by an HTTP error: it costs a call, no tokens."""
        self.tokens = tokens
        """Input and output tokens that the provider reports for an answer that cannot be used."""
        self.again = again
        """True when the provider has found another way to ask (a form of structured output given up, a login
        renewed), so that the same request is worth sending at once.
        """


def root_of(error: BaseException) -> BaseException:
    """What an error was raised from, in the end."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def suggest(name: str, known: Iterable[str]) -> str:
    """One sentence that helps with a mistyped name."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Known: {', '.join(names)}." if names else "None is registered."
