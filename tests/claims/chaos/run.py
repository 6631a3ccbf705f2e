"""Chaos: training runs, nights, adoptions and checks, each struck by a fault and then started again.

A round ends well if the struck command was killed or ended by itself without a traceback, the next one comes
to the result of an undisturbed run, nothing whose answer was kept is asked again, and neither files nor
processes are left behind. One seed drives everything:

    python tests/claims/chaos/run.py --seed 1 --rounds 200
    python tests/claims/chaos/run.py --seed 1 --only 17        one round of them, with what its commands said

All models are simulated, behind a provider on this machine.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from claims._product import Call, LoopbackProvider, Misbehaviour
from claims.chaos._jobs import Job, answers, fresh, jobs, names, world
from claims.chaos._session import Ended, Session, finish, run, start
from claims.promises._runs import MEMORY_DISK, committed

STATUSES = (429, 500, 502, 503, 529)
REPLIES = (
    *(Misbehaviour.status(code) for code in STATUSES),
    *(Misbehaviour.reset(), Misbehaviour.garbage(), Misbehaviour.half(), Misbehaviour.odd()),
    *(Misbehaviour.broken_off("error"), Misbehaviour.broken_off(None)),
)


@dataclass
class Round:
    """One job in one folder, about to be struck."""

    job: Job
    folder: Path
    dice: random.Random
    provider: Provider
    seconds: float
    """CPU of an undisturbed session."""
    largest: int
    """Bytes of the largest file that it leaves."""
    ends: list[Ended] = field(default_factory=list)

    def strike(self, *more: str, **faults: Any) -> None:
        self.ends.append(run(self.job.session(self.folder, *more, **faults)))

    def moment(self, first: float, last: float = 1.0) -> float:
        """CPU seconds into a session, of which the first half is its start."""
        return self.seconds * self.dice.uniform(first, last)

    def die(self, first: float = 0.55) -> None:
        """A kill that leaves something behind to be damaged."""
        self.strike(after=("kill", self.moment(first, 0.95)))

    @property
    def out(self) -> Path:
        assert self.job.out is not None
        return self.folder / self.job.out


class Provider:
    """The provider of all rounds; at times it does what providers do."""

    def __init__(self) -> None:
        self.rate, self.salt = 0.0, ""

    def behave(self, call: Call) -> Misbehaviour | None:
        drawn = random.Random(zlib.crc32(f"{self.salt};{call.place};{call.draw};{call.attempt}".encode()))
        return drawn.choice(REPLIES) if drawn.random() < self.rate else None


def by_signal(how: str, first: float = 0.4) -> Callable[[Round], None]:
    return lambda one: one.strike(after=(how, one.moment(first)))


def closed_pipe(one: Round) -> None:
    one.strike(streams="closed")


def full_device(one: Round) -> None:
    one.strike(streams="full")


def full_disk(one: Round) -> None:
    one.strike(largest=one.dice.randrange(1, one.largest + one.largest // 5))


def read_only(one: Round) -> None:
    folders = [one.folder, *(path for path in one.folder.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    try:
        one.strike(powerless=True)
    finally:
        for path in folders:
            path.chmod(0o755)


def locked_database(one: Round) -> None:
    one.die()
    for path in one.out.glob("run.db"):
        holder = sqlite3.connect(path, isolation_level=None)
        try:
            holder.execute("BEGIN EXCLUSIVE")
            one.strike()
        finally:
            holder.close()


def damaged_database(one: Round) -> None:
    one.die()
    for path in one.out.glob("run.db"):
        aside = one.folder.with_name("aside")
        # A guard that outlives its process by a moment is still sweeping there.
        shutil.copytree(one.folder, aside, symlinks=True, ignore=shutil.ignore_patterns("skillopt-*"))
        data = bytearray(path.read_bytes())
        for at in (one.dice.randrange(len(data)) for _ in range(one.dice.choice((1, 40, 400)))):
            data[at] ^= 0xFF
        path.write_bytes(data[: one.dice.choice((len(data), len(data) // 2))])
        one.strike()
        shutil.rmtree(one.folder)
        aside.rename(one.folder)


def torn_log(one: Round) -> None:
    one.die()
    for path in one.out.glob("events.jsonl"):
        data = path.read_bytes()
        last = data.rfind(b"\n", 0, len(data) - 1) + 1
        if last < len(data):
            path.write_bytes(data[: one.dice.randrange(last, len(data))])


def clock_jump(one: Round) -> None:
    one.strike(clock=one.dice.choice((-1, 1)) * one.dice.choice((60.0, 3600.0, 40 * 86400.0)))


def no_names(one: Round) -> None:
    one.strike(nameless=True)


def bad_replies(one: Round) -> None:
    one.provider.rate, one.provider.salt = 0.3, str(one.dice.random())
    try:
        one.strike()
    finally:
        one.provider.rate = 0.0


def crashing(what: str) -> Callable[[Round], None]:
    def strike(one: Round) -> None:
        flag = one.folder / f"crash-{what}"
        flag.touch()
        one.strike()
        flag.unlink()

    return strike


def crashing_tracker(one: Round) -> None:
    one.strike("tracking.use=raising", tracker=True)


def two_processes(one: Round) -> None:
    both = [one.job.session(one.folder) for _ in range(2)]
    started: list[tuple[Any, Session]] = []
    for session in both:
        started.append((start(session), session))
        time.sleep(one.dice.uniform(0.0, 0.3))
    one.ends += [finish(process, session) for process, session in started]


FAULTS: dict[str, Callable[[Round], None]] = {
    "kill -9": by_signal("kill"),
    "kill -9 late, in the test or the last files": by_signal("kill", 0.8),
    "kill -9 of the group": by_signal("kill group"),
    "SIGTERM": by_signal("terminate"),
    "SIGHUP": by_signal("hang up"),
    "closed pipe": closed_pipe,
    "full device for the output": full_device,
    "full disk": full_disk,
    "read-only folder": read_only,
    "locked run.db": locked_database,
    "damaged run.db": damaged_database,
    "torn log": torn_log,
    "clock jumps": clock_jump,
    "no host name is found": no_names,
    "30 % of replies broken": bad_replies,
    "crashing scorer": crashing("scorer"),
    "crashing agent": crashing("agent"),
    "crashing tracker": crashing_tracker,
    "two processes": two_processes,
}
_OF_FOLDERS = ("locked run.db", "damaged run.db", "torn log")
_OF_PROGRAMS = ("crashing scorer", "crashing agent")


def fits(fault: str, job: Job) -> bool:
    """Whether a fault can strike a job at all."""
    if fault in _OF_PROGRAMS:
        return job.name == "train own program"
    if fault == "crashing tracker":
        return job.name.startswith("train")
    if fault in ("no host name is found", "30 % of replies broken"):
        return job.name != "adopt"
    return job.out is not None or fault not in _OF_FOLDERS


def plan(seed: int, rounds: int, named: dict[str, Job]) -> list[tuple[Job, str]]:
    """Every pair of job and fault in an order of the seed's, again and again."""
    pairs = [(job, fault) for job in named.values() for fault in FAULTS if fits(fault, job)]
    made: list[tuple[Job, str]] = []
    for turn in range(-(-rounds // len(pairs))):
        random.Random(f"{seed}/{turn}").shuffle(pairs)
        made += pairs
    return made[:rounds]


@dataclass(frozen=True)
class Told:
    """How a round went."""

    number: int
    job: str
    fault: str
    landed: bool
    """Whether the fault kept a command from its end."""
    wrong: tuple[str, ...]
    said: tuple[str, ...]


class Chaos:
    """All rounds of a seed."""

    def __init__(self, root: Path, provider: LoopbackProvider, behaviour: Provider, seed: int) -> None:
        self._folder, self._templates = root / "now", root / "templates"
        self._provider, self._behaviour, self._seed = provider, behaviour, seed
        self.jobs = jobs(provider.base_url.replace("127.0.0.1", "localhost"))
        self._undisturbed: dict[str, tuple[Any, set[str], float, int]] = {}

    def round(self, number: int, job: Job, fault: str) -> Told:
        """Strike, start again, compare."""
        same, files, seconds, largest = self._reference(job)
        fresh(self._folder, job, self._templates)
        dice = random.Random(f"{self._seed}/{number}")
        one = Round(job, self._folder, dice, self._behaviour, seconds, largest)
        FAULTS[fault](one)
        kept, mark = self._kept(), self._provider.calls
        last = run(job.session(self._folder))
        return Told(
            number=number,
            job=job.name,
            fault=fault,
            landed=any(end.code not in job.ends for end in one.ends),
            wrong=tuple(self._wrong(one, last, kept, mark, same, files)),
            said=tuple(f"[{end.code}] {end.said[-3000:]}" for end in (*one.ends, last)),
        )

    def _wrong(
        self, one: Round, last: Ended, kept: set[Any], mark: int, same: Any, files: set[str]
    ) -> Iterator[str]:
        for end in one.ends:
            if not end.is_clean:
                yield f"the struck command ended with {end.code}" + (
                    " and a traceback" if "Traceback" in end.said else ""
                )
        if last.code not in one.job.ends or not last.is_clean:
            yield f"the next command ended with {last.code}"
            return
        asked = {(entry.place, entry.draw) for entry in self._provider.log[mark:]}
        if twice := asked & kept:
            yield f"{len(twice)} answers were kept and asked for again, such as {min(map(str, twice))}"
        if left := sorted(names(self._folder) - files):
            yield f"files are left behind: {', '.join(left[:5])}"
        if missing := sorted(files - names(self._folder)):
            yield f"files are missing: {', '.join(missing[:5])}"
        if left := [path.name for path in (self._folder / "tmp").iterdir()]:
            yield f"temporary files are left behind: {', '.join(left[:5])}"
        if alive := processes(self._folder):
            yield f"processes are left behind: {', '.join(alive)}"
        if one.job.same(self._folder, last) != same:
            yield "the result is not that of the undisturbed run"

    def _reference(self, job: Job) -> tuple[Any, set[str], float, int]:
        if job.name not in self._undisturbed:
            fresh(self._folder, job, self._templates)
            ended = run(job.session(self._folder))
            assert ended.code in job.ends, ended.said
            files = names(self._folder)
            largest = max(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())
            again = run(job.session(self._folder))  # what is finished says the same again
            self._undisturbed[job.name] = (job.same(self._folder, again), files, ended.seconds, largest)
        return self._undisturbed[job.name]

    def _kept(self) -> set[Any]:
        """Walked with `os.walk`, which passes over folders that the guard of a killed agent is sweeping."""
        found = (Path(root) for root, _, files in os.walk(self._folder) if "run.db" in files)
        return {one for folder in found for one in committed(folder)}


def processes(folder: Path) -> list[str]:
    """Processes that work in a folder or were started with its name."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            where = str((path / "cwd").readlink())
        except OSError:
            continue
        if str(folder) in f"{words} {where}":
            found.append(f"{path.name} {words[:80]}")
    return found


def rounds(seed: int, count: int, first: int = 0, only: int | None = None) -> Iterator[Told]:
    """The rounds of a seed, one after the other."""
    behaviour = Provider()
    disk = MEMORY_DISK if MEMORY_DISK.is_dir() else None
    with (
        tempfile.TemporaryDirectory(dir=disk, prefix="chaos-") as root,
        LoopbackProvider.in_thread(answers(world()), behave=behaviour.behave) as provider,
    ):
        Path(root).chmod(0o755)
        chaos = Chaos(Path(root), provider, behaviour, seed)
        for number, (job, fault) in enumerate(plan(seed, count, chaos.jobs)):
            if number >= first and (only is None or number == only):
                yield chaos.round(number, job, fault)


def table(told: list[Told]) -> str:
    """Rounds by fault and job, as Markdown; how many of them the fault stopped stands in brackets."""
    columns = list(dict.fromkeys(one.job for one in sorted(told, key=lambda one: one.job)))
    lines = [f"| fault | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    counted = Counter((one.fault, one.job) for one in told)
    stopped = Counter((one.fault, one.job) for one in told if one.landed)
    for fault in FAULTS:
        cells = [
            f"{counted[fault, job]} ({stopped[fault, job]})" if counted[fault, job] else "" for job in columns
        ]
        lines.append(f"| {fault} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="leave out the rounds before this one")
    parser.add_argument("--only", type=int, help="this round alone, with what its commands said")
    given = parser.parse_args()
    told: list[Told] = []
    begun = time.monotonic()
    for one in rounds(given.seed, given.rounds, given.first, given.only):
        told.append(one)
        print(f"{one.number:>4}  {one.job:<18} {one.fault:<44} {'; '.join(one.wrong) or 'ok'}", flush=True)
        if one.wrong and given.only is not None:
            print("\n".join(one.said))
    bad = [one for one in told if one.wrong]
    print(f"\n{table(told)}\n")
    stopped = sum(one.landed for one in told)
    print(
        f"{len(told) - len(bad)} of {len(told)} rounds ended well; {stopped} commands were kept from their end."
        f" Seed {given.seed}, {time.monotonic() - begun:.0f} s. Everything is simulated."
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
