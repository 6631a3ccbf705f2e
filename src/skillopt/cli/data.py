"""`skillopt data`: make the splits of a benchmark from its published ids and its published data."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from skillopt.benchmarks import benchmarks
from skillopt.cli._console import echo
from skillopt.cli._options import option, simple
from skillopt.errors import TaskError, UsageError
from skillopt.files import write_text
from skillopt.tasks.benchmark import as_benchmark
from skillopt.tasks.manifest import pick, read_manifest
from skillopt.tasks.splits import told_bad_rows
from skillopt.tasks.task import Split

PANEL, PLACE = "Train and measure", 7
FILE = "items.jsonl"


def data(
    benchmark: Annotated[
        str, typer.Argument(help="searchqa, docvqa, livemathematicianbench, or one of another package.")
    ],
    manifest: Annotated[
        Path,
        option(
            "--manifest", "The ids of each split: a folder with train/, val/, test/, or a JSON file.", "PATH"
        ),
    ],
    source: Annotated[
        Path, option("--source", "The published data: a JSONL, JSON or CSV file, or a folder.", "PATH")
    ],
    out: Annotated[
        Path | None, option("--out", "Where the splits go; data/BENCHMARK when left out.", "FOLDER")
    ] = None,
) -> None:
    """Write train/, val/ and test/ with the rows that the ids of a manifest mean, for --split_dir.

    Ids that are missing or there twice are named, and nothing is written.
    """
    plugin = benchmarks.get(benchmark)
    if not getattr(plugin, "published_ids", ()):
        raise UsageError(
            f"The splits of {benchmark!r} are not made from ids. Its page in docs/benchmarks says where its"
            " data comes from."
        )
    folder = Path("data") / benchmark if out is None else out
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder} already holds something; nothing was written. Choose a new folder with --out."
        )
    bad: list[TaskError] = []
    rows = plugin.raw_rows(source, bad)
    if bad:
        echo(told_bad_rows([str(error) for error in bad]), err=True)
    picked = pick(read_manifest(manifest, ("id", "key", "questionId")), rows, plugin.row_id, source)
    splits = {
        split: [plugin.moved(row, folder.absolute() / split) for row in found]
        for split, found in picked.items()
    }
    if unusable := _write(folder, splits, benchmark):
        echo(told_bad_rows(unusable), err=True)
    for split, found in splits.items():
        echo(f"{len(found):>6}  {folder / split / FILE}")
    echo(f"Train on it: skillopt train --config {benchmark} --split_dir {folder}")


add = simple(data)


def _write(folder: Path, splits: Mapping[Split, list[Mapping[str, Any]]], benchmark: str) -> Sequence[str]:
    """Write all splits, or none where the benchmark cannot read them. Returns why it leaves rows out."""
    is_new = not folder.exists()
    try:
        for split, rows in splits.items():
            lines = (json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows)
            write_text(folder / split / FILE, "".join(lines))
        plugin = benchmarks.get(benchmark)
        return as_benchmark(plugin(plugin.Settings(split_dir=folder))).bad_rows
    except BaseException:  # also on Ctrl-C: half of the splits would be taken for all of them
        for split in splits:
            shutil.rmtree(folder / split, ignore_errors=True)
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        raise
