"""`python examples/nights/read_reactions.py --reader MODEL`: how well a model reads reactions of a person.

Two hundred things that a person says after an answer, in 13 languages, labelled before there was anything
that reads them. The model is asked by the very question of a night.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import _face as face

from skillopt.run import open_run
from skillopt.transcripts.session import RecordedSession, Turn
from skillopt_sleep import NightSettings, Roles
from skillopt_sleep.gather import NO_SKILL, at_once
from skillopt_sleep.job import NightJobs
from skillopt_sleep.readings import (
    Readings,
    ReadTurn,
    SessionReading,
    read_with_model,
    unread,
)

CORPUS = Path(__file__).parents[2] / "tests" / "night" / "data" / "reactions.tsv"
REQUEST = "Write a release note for version 2.4: faster search, 3 fixes."
ANSWER = "Version 2.4: we made the search faster and fixed three bugs."
START = datetime(2026, 11, 1, tzinfo=timezone.utc)
REACTIONS = ("corrected", "accepted", "redone", "abandoned", "none")


def corpus(path: Path, limit: int | None) -> list[Mapping[str, str]]:
    """The labelled sentences, always in the same shuffled order."""
    with path.open(encoding="utf-8") as file:
        rows: list[Mapping[str, str]] = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    random.Random(1).shuffle(rows)
    return rows[:limit]


def session_of(number: int, words: str) -> RecordedSession:
    """A session in which a person says this of an answer; the request before it is always the same."""
    at = START + timedelta(minutes=number)
    turns = (
        Turn(role="user", text=REQUEST),
        Turn(role="assistant", text=ANSWER),
        Turn(role="user", text=words),
    )
    return RecordedSession(
        source="jsonl", id=f"s{number:03}", project="/shop", started=at, ended=at, turns=turns
    )


def scored(rows: Sequence[Mapping[str, str]], told: Sequence[ReadTurn | None]) -> dict[str, Any]:
    """Precision and recall of each reaction, and of the wishes for every time among the corrections; None is
    a sentence that stayed unread, which is no reaction and never right.
    """
    pairs = [(row["reaction"], one and one.reaction) for row, one in zip(rows, told, strict=True)]
    lasting = [
        (row["lasts"] == "lasting", one.lasting)
        for row, one in zip(rows, told, strict=True)
        if one is not None and row["reaction"] == one.reaction == "corrected"
    ]
    return {
        "sentences": len(rows),
        "unread": sum(one is None for one in told),
        "right": sum(wanted == found for wanted, found in pairs),
        "reactions": {name: _counts(pairs, name) for name in REACTIONS},
        "lasting": {"corrections": len(lasting), **_counts(lasting, True)},
    }


def _counts(pairs: Sequence[tuple[object, object]], value: object) -> dict[str, int]:
    return {
        "are": sum(wanted == value for wanted, _ in pairs),
        "told": sum(found == value for _, found in pairs),
        "right": sum(wanted == found == value for wanted, found in pairs),
    }


async def read_all(
    sessions: Sequence[RecordedSession], reader: str, options: Mapping[str, Any], out: Path
) -> dict[str, SessionReading]:
    """The readings of a model; those that are there already are not asked for again."""
    settings = NightSettings.model_validate({"max_tokens_per_night": 0, "options": options})
    jobs = NightJobs(
        settings=settings,
        roles=Roles(target=reader, optimizer=reader),
        rollouts=out / "rollouts.db",
        environ=os.environ,
        cwd=Path.cwd(),
    )
    kept = Readings(folder=out / "readings")
    job = jobs.job(NO_SKILL)
    async with open_run(job, out / "run", {"reading": 1, **job.identity()}) as opened:
        model = opened.models.of("optimizer", job.optimizer)
        wanted = unread(sessions, kept.of(sessions))
        _, lost = await read_with_model(model, wanted, kept, at_once(job))
        await opened.drain()
    print("\n".join(lost), file=sys.stderr)
    return kept.of(sessions)


def table(title: str, found: Mapping[str, Any]) -> str:
    """The figures for reading."""
    lines = [f"{title}: {found['right']} of {found['sentences']} right, {found['unread']} unread"]
    for name, row in [*found["reactions"].items(), ("lasting", found["lasting"])]:
        precision = f"{row['right'] / row['told']:.2f}" if row["told"] else "   -"
        recall = f"{row['right'] / row['are']:.2f}" if row["are"] else "   -"
        lines.append(
            f"  {name:<10} precision {precision} ({row['right']} of {row['told']})"
            f"   recall {recall} ({row['right']} of {row['are']})"
        )
    return "\n".join(lines)


async def compare(options: argparse.Namespace) -> int:
    """Read, compare, print."""
    rows = corpus(options.corpus, options.limit)
    sessions = [session_of(number, row["words"]) for number, row in enumerate(rows)]
    settings = dict(part.split("=", 1) for part in options.options)
    read = await read_all(sessions, options.reader, settings, options.out)
    found = scored(rows, [read[one.name].turns[1] if one.name in read else None for one in sessions])
    print(json.dumps(found) if options.json else table(options.reader, found))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(
        prog="read_reactions", description=(__doc__ or "").partition("\n\n")[2], allow_abbrev=False
    )
    parser.add_argument("--reader", metavar="MODEL", required=True, help="who reads the sessions")
    parser.add_argument("--options", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the run")
    parser.add_argument("--limit", type=face.count, help="so many of the sentences, always the same ones")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="a file like that of the tests")
    parser.add_argument("--out", type=Path, default=Path("outputs/reactions"), help="where replies are kept")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    return face.run(lambda: compare(options))


if __name__ == "__main__":
    sys.exit(main())
