"""Writes the tasks of this example: five families of requests whose answers a house wants in one form, fresh
items in every split.

No request says which form is wanted; only the scored answers show it.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

PER_FAMILY = {"train": 6, "val": 4, "test": 16}
SEED = 11

FIRST = [
    "Maria",
    "Jonas",
    "Aiko",
    "Peter",
    "Lucia",
    "Omar",
    "Ingrid",
    "Pavel",
    "Chloe",
    "Rahul",
    "Nina",
    "Diego",
]
LAST = [
    "Costa",
    "Weber",
    "Tanaka",
    "Novak",
    "Rossi",
    "Haddad",
    "Larsen",
    "Popov",
    "Martin",
    "Sharma",
    "Keller",
    "Vega",
]
TOWNS = [
    "Porto",
    "Leipzig",
    "Osaka",
    "Brno",
    "Turin",
    "Tunis",
    "Bergen",
    "Varna",
    "Lyon",
    "Pune",
    "Basel",
    "Quito",
]
THINGS = [
    "bakery",
    "bicycle shop",
    "print works",
    "museum",
    "school",
    "workshop",
    "library",
    "cinema",
    "garden centre",
    "clinic",
]
EVENTS = [
    "The parcel left the depot",
    "The contract was signed",
    "The bridge was opened",
    "The ship reached the port",
    "The audit ended",
]
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def question(random: random.Random) -> tuple[str, str]:
    """The words of the text that answer, and nothing else."""
    name, town, thing, year = (
        person(random),
        random.choice(TOWNS),
        random.choice(THINGS),
        random.randint(1951, 2019),
    )
    text = f"{name} opened a {thing} in {town} in {year}."
    asked, answer = random.choice(
        [
            ("Who opened it?", name),
            ("In which town?", town),
            ("What was opened?", thing),
            ("In which year?", str(year)),
        ]
    )
    return f"Read: {text} {asked}", answer


def day(random: random.Random) -> tuple[str, str]:
    """YYYY-MM-DD."""
    when = date(1985, 1, 1) + timedelta(days=random.randrange(14_000))
    month = MONTHS[when.month - 1]
    written = random.choice([f"{month} {when.day}, {when.year}", f"{when.day} {month} {when.year}"])
    return f"{random.choice(EVENTS)} on {written}. On which date?", when.isoformat()


def formula(random: random.Random) -> tuple[str, str]:
    """The spreadsheet formula alone."""
    column, first = random.choice("BCDEFGH"), random.randint(2, 9)
    cells = f"{column}{first}:{column}{first + random.randint(3, 40)}"
    name, words = random.choice(
        [
            ("SUM", "the sum"),
            ("AVERAGE", "the average"),
            ("MAX", "the largest value"),
            ("MIN", "the smallest value"),
        ]
    )
    return f"Which spreadsheet formula gives {words} of the cells {cells}?", f"={name}({cells})"


def total(random: random.Random) -> tuple[str, str]:
    """`ANSWER: 12`."""
    one, other = random.randint(2, 40), random.randint(2, 40)
    things = random.choice(["apples", "boxes", "tickets", "chairs", "letters"])
    return (
        f"There are {one} {things} here and {other} {things} there. How many {things} are there?",
        f"ANSWER: {one + other}",
    )


def record(random: random.Random) -> tuple[str, str]:
    """One JSON object with the keys name, age and city."""
    name, age, town = person(random), random.randint(19, 80), random.choice(TOWNS)
    return f"Make a record of this person: {name}, {age} years old, lives in {town}.", json.dumps(
        {"name": name, "age": age, "city": town}
    )


def person(random: random.Random) -> str:
    return f"{random.choice(FIRST)} {random.choice(LAST)}"


FAMILIES: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "question": question,
    "date": day,
    "formula": formula,
    "total": total,
    "record": record,
}


def make(seed: int = SEED) -> dict[str, list[dict[str, str]]]:
    """Rows by split; no request occurs twice in any of them."""
    splits: dict[str, list[dict[str, str]]] = {split: [] for split in PER_FAMILY}
    for family, write in FAMILIES.items():
        # The sealed test has dice of its own: whoever changes the sizes while trying things out never meets a
        # test task.
        dice, sealed, seen = random.Random(f"{seed} {family}"), random.Random(f"{seed} {family} test"), set()
        for split, wanted in PER_FAMILY.items():
            while sum(row["kind"] == family for row in splits[split]) < wanted:
                prompt, answer = write(sealed if split == "test" else dice)
                if prompt not in seen:
                    seen.add(prompt)
                    splits[split].append(
                        {
                            "id": f"{family}-{len(seen):03d}",
                            "kind": family,
                            "prompt": prompt,
                            "answer": answer,
                        }
                    )
    return splits


def main() -> None:
    """Write `tasks/<split>/tasks.jsonl` beside this file; a first argument is another seed."""
    for split, rows in make(int(sys.argv[1]) if len(sys.argv) > 1 else SEED).items():
        folder = Path(__file__).parent / "tasks" / split
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
