"""Harvests and mines thousands of synthetic sessions and prints how long it takes and how much memory it
holds at most.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from skillopt.agents import present
from skillopt.transcripts import Homes, harvest
from skillopt_sleep.mining import mine

START = datetime(2026, 11, 1, tzinfo=timezone.utc)
TOPICS = (
    "pricing",
    "hiring",
    "a new office",
    "tablets for a school",
    "opening on Sundays",
    "lending tools",
    "yearly contracts",
    "pets in a hotel",
)


def main() -> None:
    """Write the transcripts, read them in a process of its own, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=2_000, help="how many sessions (default %(default)s)")
    parser.add_argument(
        "--kilobytes", type=int, default=100, help="size of each in kilobytes (default %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read is not None:
        print(json.dumps(measure(arguments.read)))
        return
    with tempfile.TemporaryDirectory(prefix="skillopt-perf-") as folder:
        size = write(Path(folder), arguments.sessions, arguments.kilobytes * 1_000)
        done = subprocess.run(
            [sys.executable, __file__, "--read", folder], capture_output=True, text=True, check=True
        )
    figures = {"megabytes": size / 1e6, **json.loads(done.stdout)}
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    print(
        f"{figures['read']} synthetic sessions, {figures['megabytes']:.0f} MB of transcripts (Claude Code and"
        f" Codex)\nharvested            {figures['kept']} sessions with {figures['prompts']} prompts,"
        f" {figures['skipped']} odd records skipped\ntime                 {figures['harvest_seconds']:.1f} s,"
        f" {figures['megabytes'] / figures['harvest_seconds']:.0f} MB/s\nmined               "
        f" {figures['tasks']} tasks, {figures['suggestions']} suggestions in {figures['mine_seconds']:.1f}"
        f" s\npeak memory          {figures['peak_mb_before']:.0f} MB before,"
        f" {figures['peak_mb_harvest']:.0f} MB after the harvest, {figures['peak_mb_after']:.0f} MB after"
        " mining"
    )


def measure(home: Path) -> dict[str, Any]:
    """Harvest and mine everything below a home."""
    before, started = peak_mb(), time.monotonic()
    found = harvest(present(Homes(home=home)))
    harvested, held = time.monotonic() - started, peak_mb()
    started = time.monotonic()
    mined = asyncio.run(mine(found.sessions))
    return {
        "synthetic": True,
        "read": found.read,
        "kept": found.kept,
        "skipped": sum(found.skipped.values()),
        "prompts": sum(len(session.prompts) for session in found.sessions),
        "tasks": len(mined.tasks),
        "suggestions": len(mined.suggestions),
        "harvest_seconds": harvested,
        "mine_seconds": time.monotonic() - started,
        "peak_mb_before": before,
        "peak_mb_harvest": held,
        "peak_mb_after": peak_mb(),
    }


def write(home: Path, sessions: int, size: int) -> int:
    """Sessions as two programs write them, most of each the output of tools; some hold a line that is no
    JSON. The bytes written.
    """
    written = 0
    for number in range(sessions):
        draw = random.Random(number)
        at = START + timedelta(minutes=10 * number)
        folder, rows = (_claude if number % 2 else _codex)(number, at, draw, size)
        path = home / folder / f"rollout-{at:%Y-%m-%dT%H-%M-%S}-{number:06}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(row) for row in rows] + (['{"torn'] if number % 10 == 0 else [])
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        written += path.stat().st_size
    return written


def _said(number: int, draw: random.Random) -> list[tuple[str, str]]:
    topic = draw.choice(TOPICS)
    words = ["".join(draw.choices("abcdefghij", k=5)) for _ in range(40)]
    return [
        (f"Write a brief on {topic} for customer {' '.join(words[:6])}.", f"{' '.join(words)} and so on."),
        ('No, you forgot the "Key Risks" section.', f"# Brief\n\n## Key Risks\n\n{' '.join(words)}"),
        ("Thanks, that works.", "Gladly."),
        (f"Explain what happens in step {number} of {' '.join(words[6:14])} to me, please.", " ".join(words)),
    ]


def _output(draw: random.Random, size: int) -> str:
    line = " ".join(f"{draw.randrange(1 << 30):x}" for _ in range(12))
    return f"{line}\n" * (size // (len(line) + 1))


def _claude(number: int, at: datetime, draw: random.Random, size: int) -> tuple[str, list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    said = _said(number, draw)

    def add(kind: str, content: Any) -> None:
        row = {
            "type": kind,
            "uuid": f"{number}-{len(rows)}",
            "timestamp": at.isoformat(),
            "cwd": "/home/ann/shop",
            "sessionId": str(number),
        }
        rows.append(row | {"message": {"role": kind, "content": content}})

    for place, (asked, answer) in enumerate(said):
        add("user", asked)
        for call in range(5 if place == 0 else 0):
            add(
                "assistant",
                [{"type": "tool_use", "id": f"t{call}", "name": "Bash", "input": {"command": "make"}}],
            )
            add(
                "user",
                [{"type": "tool_result", "tool_use_id": f"t{call}", "content": _output(draw, size // 5)}],
            )
        add("assistant", [{"type": "text", "text": answer}])
    return ".claude/projects/-home-ann-shop", rows


def _codex(number: int, at: datetime, draw: random.Random, size: int) -> tuple[str, list[dict[str, Any]]]:
    def row(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        return {"timestamp": at.isoformat(), "type": kind, "payload": payload}

    rows = [row("session_meta", {"id": f"c{number}", "cwd": "/home/ann/shop", "source": "cli"})]
    for place, (asked, answer) in enumerate(_said(number, draw)):
        rows.append(
            row(
                "response_item",
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": asked}]},
            )
        )
        rows.append(row("event_msg", {"type": "user_message", "message": asked}))
        if place == 3:
            rows.append(
                row(
                    "response_item",
                    {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"},
                )
            )
            rows.append(
                row(
                    "response_item",
                    {"type": "function_call_output", "call_id": "c", "output": _output(draw, size)},
                )
            )
        rows.append(
            row(
                "response_item",
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": answer}],
                },
            )
        )
        rows.append(row("event_msg", {"type": "agent_message", "message": answer}))
    return f".codex/sessions/{at:%Y/%m/%d}", rows


def peak_mb() -> float:
    """The most memory this process ever held, in megabytes; Linux counts kilobytes, macOS bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main()
