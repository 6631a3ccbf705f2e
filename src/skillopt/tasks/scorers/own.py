"""A person's own scorers: any Python function of task and answer, and any command, which gets both as JSON on
its stdin and prints the score.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from skillopt.errors import ConfigError, Fault, ScoringError, suggest
from skillopt.executors import Executor
from skillopt.executors.port import run_again
from skillopt.files import temporary_folder
from skillopt.process import minimal_env, run_process
from skillopt.process.sandbox import ProcessLimits, Sandbox, is_there, require
from skillopt.tasks.commands import argv_of, files_hash, found, raised_at
from skillopt.tasks.functions import is_async, place_of, source_hash
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers._scorer import Scorer, as_text, clip, extract_answer, to_score
from skillopt.tasks.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionScorer:
    """A user's function. A sync one runs in a thread and holds up nobody; it has no time limit."""

    name: str
    version: str
    graded: bool | None
    function: Callable[..., Any]
    pass_at: float | None

    def check_task(self, task: Task) -> None:
        """Any task will do: only the function knows what it needs."""

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Call the function. What it raises is an error of the scorer; no score breaks its contract."""
        value, error = await self._call(task, extract_answer(trajectory.answer))
        if isinstance(error, Fault):
            raise error
        if error is not None:
            where = place_of(self.function, error)
            said = f"{type(error).__name__}: {error} ({where}, task {task.id!r})"
            raise ScoringError("judge", f"scorer {self.name} raised {said}", where=where) from error
        try:
            return to_score(value, pass_at=self.pass_at, who=f"scorer {self.name} (task {task.id!r})")
        except ScoringError as broken:
            raise ScoringError(broken.kind, broken.detail, where=place_of(self.function)) from None

    async def _call(self, task: Task, answer: str) -> tuple[Any, BaseException | None]:
        # Every exception is caught, as this is a stranger's code, and SystemExit must not end the run.
        try:
            if is_async(self.function):
                return await self.function(task, answer), None
            value, raised = await asyncio.to_thread(_guarded, self.function, task, answer)
            return (await value if inspect.isawaitable(value) else value), raised
        except (Exception, SystemExit) as error:  # noqa: BLE001 - see above
            return None, error


def function_scorer(function: Callable[..., Any], *, pass_at: float | None, graded: bool | None) -> Scorer:
    """A scorer of a callable. Its version is its `version`, or a hash of source and carried values."""
    name = getattr(function, "__qualname__", type(function).__name__)
    if graded is None:
        graded = False if pass_at is not None else getattr(function, "graded", _says(function))
    own = getattr(function, "version", None) or source_hash(function)
    version = f"function {name} {own} pass_at={pass_at}"
    return FunctionScorer(name=name, version=version, graded=graded, function=function, pass_at=pass_at)


def _guarded(function: Callable[..., Any], task: Task, answer: str) -> tuple[Any, BaseException | None]:
    # The error is returned, not raised: a StopIteration raised into a future would hang whoever awaits it.
    try:
        return function(task, answer), None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - see `_call`
        return None, error


def _says(function: Callable[..., Any]) -> bool | None:
    """Whether the return annotation says that scores are graded; None where it says nothing."""
    try:
        said = inspect.signature(function).return_annotation
    except (TypeError, ValueError):  # builtins have no signature
        return None
    return True if said in (float, "float") else False if said in (bool, "bool") else None


DEFAULT_TIMEOUT = 60.0
_MOST_OUTPUT = 1 << 20
_UNBOUNDED = 10_000
"""Commands run as many at a time as rollouts do."""
_OUTSIDE = (
    "It ran in the sandbox, without network and with files that cannot be changed; scorer_options: {sandbox:"
    " off} runs it outside."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandScorer:
    """A user's program.

    In: `{"task": {"id", "prompt", "reference", "kind", "data"}, "answer"}`. Out: a number from 0 to 1, `true`
    or `false`, or an object
    `{"hard", "soft", "feedback"}` or `{"score", "feedback"}`. Messages belong on stderr. A non-zero exit,
    anything else on stdout or no end in time is an error of the scorer, never a zero. It gets a minimal
    environment without any key, and where bubblewrap is installed it runs in the sandbox: it may read what
    the user may, but change nothing and reach no network.
    """

    name: str
    version: str
    graded: bool | None
    argv: tuple[str, ...]
    pass_at: float | None
    timeout: float
    sandbox: Sandbox | None
    """None runs the program like any other one of the user's."""
    executor: Executor | None = None
    """Where the program runs; None is this machine."""

    def check_task(self, task: Task) -> None:
        """Any task will do: only the program knows what it needs."""

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Run the program on one answer."""
        shown = {name: getattr(task, name) for name in ("id", "prompt", "reference", "kind")}
        shown["data"] = dict(task.data)
        job = json.dumps({"task": shown, "answer": extract_answer(trajectory.answer)}, default=str)
        try:
            if self.executor is None:
                code, stdout, stderr = await self._run(job.encode(), Path.cwd())
            else:
                work = partial(
                    _run_there, replace(self, executor=None), _texts(self.argv), job.encode(), Path.cwd()
                )
                code, stdout, stderr = await run_again(self.executor, work)
        except Fault as fault:
            where = self.name if fault.kind == "judge" else ""
            raise ScoringError(
                fault.kind, f"scorer {fault.detail} (task {task.id!r})", where=where
            ) from fault
        try:
            return self._read(code, stdout, stderr, f"scorer {self.name!r} (task {task.id!r})")
        except ScoringError as broken:
            where = raised_at(stderr.decode(errors="replace")) or self.name
            raise ScoringError(broken.kind, broken.detail, where=where) from None

    async def _run(self, job: bytes, cwd: Path) -> tuple[int, bytes, bytes]:
        if self.sandbox is None:
            done = await run_process(self.argv, input=job, env=minimal_env(), cwd=cwd, timeout=self.timeout)
            return done.code, done.stdout, done.stderr
        env = {name: value for name, value in minimal_env().items() if name != "TMPDIR"}
        ran = await self.sandbox.run(self.argv, input=job, env=env, cwd=cwd)
        if ran.stopped == "time":
            raise Fault("timeout", f"{self.argv[0]} did not end within {self.timeout:g} s")
        if ran.stopped is not None:
            raise Fault("judge", f"{self.argv[0]} was ended: over the limit of {ran.stopped}. {_OUTSIDE}")
        return ran.code, ran.stdout, ran.stderr

    def _read(self, code: int, stdout: bytes, stderr: bytes, who: str) -> Score:
        if code != 0:
            said = stderr.decode(errors="replace").strip()[-500:] or "nothing on stderr"
            hint = "" if self.sandbox is None else f" ({_OUTSIDE})"
            raise ScoringError("judge", f"{who} ended with code {code}: {said}{hint}")
        text = stdout.decode(errors="replace").strip()
        try:
            value = json.loads(text.lower() if text in ("True", "False") else text)
        except (ValueError, RecursionError):
            raise ScoringError(
                "contract", f"{who} printed {clip(text)!r} on stdout; print the score and nothing else"
            ) from None
        if isinstance(value, dict):
            return _from_object(value, self.pass_at, who)
        return to_score(value, pass_at=self.pass_at, who=who)


def command_scorer(
    command: str | Sequence[str], *, pass_at: float | None, graded: bool | None, options: dict[str, Any]
) -> Scorer:
    """A scorer of a command line or a list of arguments; the program must be there now.

    `options` may set `timeout` in seconds, and `sandbox`: `bubblewrap` insists on it, `off` does without;
    unset, it is used where there is one.
    """
    argv = argv_of(command, "scorer")
    name = shlex.join(argv)
    for option in options:
        if option not in ("timeout", "sandbox"):
            raise ConfigError(
                f"A scorer command has no option {option!r}. {suggest(option, ['timeout', 'sandbox'])}"
            )
    timeout = options.get("timeout", DEFAULT_TIMEOUT)
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
        raise ConfigError(f"The scorer command's timeout is {timeout!r}; write a number of seconds above 0.")
    argv = found(argv, "scorer")
    version = f"command {name} {files_hash(argv)} pass_at={pass_at}"
    return CommandScorer(
        name=name,
        version=version,
        graded=False if pass_at is not None else graded,
        argv=argv,
        pass_at=pass_at,
        timeout=float(timeout),
        sandbox=_sandbox(options.get("sandbox"), float(timeout)),
    )


def _sandbox(wanted: Any, timeout: float) -> Sandbox | None:
    if wanted is False:  # YAML 1.1 tools write an unquoted off so
        wanted = "off"
    if wanted not in (None, "bubblewrap", "off"):
        raise ConfigError(
            f"The scorer command's sandbox is {wanted!r}; write 'bubblewrap' or 'off', or leave it out."
        )
    if wanted == "bubblewrap":
        require("bubblewrap", remedy="leave scorer_options.sandbox out to do without")
    if wanted == "off" or not is_there():
        return None
    return Sandbox(
        "bubblewrap",
        limits=ProcessLimits(seconds=timeout, output=_MOST_OUTPUT),
        own_program=True,
        at_once=_UNBOUNDED,
    )


def _texts(argv: Sequence[str]) -> dict[str, bytes]:
    """The content of the small text files that a command line names, by argument; no binary files."""
    read = {part: Path(part).read_bytes() for part in argv if _is_small_file(Path(part))}
    return {part: content for part, content in read.items() if b"\0" not in content}


def _is_small_file(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size <= _MOST_OUTPUT
    except (OSError, ValueError):  # an argument that is no path
        return False


def _run_there(
    scorer: CommandScorer, texts: Mapping[str, bytes], job: bytes, cwd: Path
) -> tuple[int, bytes, bytes]:
    """Run the program where its files may not be: those it names are then written into a folder."""
    with temporary_folder("skillopt-scorer-") as folder:
        argv = list(scorer.argv)
        for number, part in enumerate(argv):
            if part in texts and not (Path(part).is_file() and Path(part).read_bytes() == texts[part]):
                path = folder / f"{number}_{Path(part).name}"
                path.write_bytes(texts[part])
                path.chmod(0o700)
                argv[number] = str(path)
        where = cwd if cwd.is_dir() else folder
        return asyncio.run(replace(scorer, argv=tuple(argv))._run(job, where))


def _from_object(value: dict[str, Any], pass_at: float | None, who: str) -> Score:
    feedback = as_text(value.get("feedback"))
    figures = value.keys() - {"feedback"}
    if figures == {"score"}:
        return replace(to_score(value["score"], pass_at=pass_at, who=who), feedback=feedback)
    if figures == {"hard", "soft"}:
        both = Score(hard=value["hard"], soft=value["soft"], feedback=feedback)
        return to_score(both, pass_at=None, who=who)
    told = f"{who} printed an object with [{', '.join(value)}]"
    raise ScoringError("contract", f"{told}; write hard and soft, or score, and perhaps feedback")
