"""`skillopt config`: look at settings, what there is to choose from and the shared cache, and make splits."""

from __future__ import annotations

import json as json_format
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from skillopt.benchmarks import benchmarks
from skillopt.cli._console import echo, open_console, print_json, tell
from skillopt.cli._flags import Given, flagged
from skillopt.cli._options import Json, argument, group, option, simple
from skillopt.config.files import packaged_configs
from skillopt.config.record import as_json, render
from skillopt.errors import RunConflict, Stopped, TaskError, UnknownName, UsageError
from skillopt.files import write_text
from skillopt.registry.kinds import KINDS as PLUGINS
from skillopt.runs.database import Database
from skillopt.tasks.benchmark import as_benchmark
from skillopt.tasks.manifest import pick, read_manifest
from skillopt.tasks.splits import format_bad_rows
from skillopt.tasks.task import Split

PANEL, PLACE = "Look things up", 0
KINDS = (*(kind for kind in PLUGINS if kind != "agents"), "configs")
FILE = "items.jsonl"


def show(given: Given, json: Json = False) -> None:
    """Print the configuration these arguments would give: key, value, source. No credential is shown."""
    resolved = given.load()
    for warning in resolved.warnings:
        echo(f"warning: {warning}", err=True)
    rows = render(resolved)
    if json:
        print_json({"config": as_json(resolved), "sources": {key: source for key, _, source in rows}})
        return
    console = open_console()
    shown = [(key, json_format.dumps(value, ensure_ascii=False), source) for key, value, source in rows]
    key_width, value_width = (max(len(row[column]) for row in shown) for column in (0, 1))
    for key, value, source in shown:  # not a table: lines stay whole, for grep and for a narrow terminal
        line = f"{key:<{key_width}}  {value:<{min(value_width, 40)}}  {source}"
        console.say(line, "dim" if source == "default" else "")


def list_plugins(
    kind: Annotated[str | None, argument("[" + "|".join(KINDS) + "]", "One kind only.")] = None,
    json: Json = False,
) -> None:
    """List benchmarks, models, harnesses, trackers, scorers, gate policies, transcript sources, configs."""
    if kind is not None and kind not in KINDS:
        raise UnknownName("kind of thing to list", kind, KINDS)
    found = {name: _listed(name) for name in KINDS if kind in (None, name)}
    if json:
        print_json(found)
        return
    for name, rows in found.items():
        echo(f"{name}:")
        width = max(map(len, rows), default=0)
        for row, text in rows.items():
            echo(f"  {row:<{width}}  {text}".rstrip())


def _listed(kind: str) -> dict[str, str]:
    if kind == "configs":
        return packaged_configs()
    registry = PLUGINS[kind]
    return {name: registry.describe(name) for name in registry.names()}


def cache(
    action: Annotated[
        Literal["show", "path", "clear"], typer.Argument(help="show it, print its path, or clear it.")
    ] = "show",
    json: Json = False,
) -> None:
    """Show the rollouts that training runs share by themselves: of models with a key, at temperature 0.

    cache.limit_mb says how large it may grow, what was used longest ago goes first; cache.shared false keeps
    a run out of it. Runs keep their own rollouts, so clearing it loses no run.
    """
    from skillopt.run.assembly import MB, cache_folder  # no other part of `config` needs the engine

    folder = cache_folder()
    if action == "path":
        echo(str(folder))
        return
    files = sorted(folder.glob("*.db"))
    size, rollouts = sum(path.stat().st_size for path in files), sum(map(_rollouts, files))
    if action == "clear":
        for path in folder.glob("*.db*"):
            path.unlink(missing_ok=True)
    data = {"path": str(folder), "bytes": size, "rollouts": rollouts, "cleared": action == "clear"}
    verb = "Cleared" if action == "clear" else f"{folder}:"
    tell(data, [f"{verb} {rollouts:,} rollouts, {size / MB:.1f} MB"], json=json)


def _rollouts(path: Path) -> int:
    """How many a file holds; none where it is damaged or of another version, as no run reads it then."""
    with suppress(RunConflict, Stopped):
        database = Database.reading(path)
        try:
            return database.rollouts()
        finally:
            database.shut()
    return 0


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
        echo(format_bad_rows([str(error) for error in bad]), err=True)
    picked = pick(read_manifest(manifest, ("id", "key", "questionId")), rows, plugin.row_id, source)
    splits = {
        split: [plugin.moved(row, folder.absolute() / split) for row in found]
        for split, found in picked.items()
    }
    if unusable := _write_splits(folder, splits, benchmark):
        echo(format_bad_rows(unusable), err=True)
    for split, found in splits.items():
        echo(f"{len(found):>6}  {folder / split / FILE}")
    echo(f"Train on it: skillopt train --config {benchmark} --split_dir {folder}")


def _write_splits(
    folder: Path, splits: Mapping[Split, list[Mapping[str, Any]]], benchmark: str
) -> Sequence[str]:
    """Write all splits, or none where the benchmark cannot read them. Returns why it leaves rows out."""
    is_new = not folder.exists()
    try:
        for split, rows in splits.items():
            lines = (json_format.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows)
            write_text(folder / split / FILE, "".join(lines))
        plugin = benchmarks.get(benchmark)
        return as_benchmark(plugin(plugin.Settings(split_dir=folder))).bad_rows
    except BaseException:  # also on Ctrl-C: half of the splits would be taken for all of them
        for split in splits:
            shutil.rmtree(folder / split, ignore_errors=True)
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        raise


add = group(
    "Look at settings, what there is to choose from and the shared cache, and make splits of published data.",
    {
        "show": flagged(show, short=("target", "optimizer")),
        "list": simple(list_plugins),
        "cache": simple(cache),
        "data": simple(data),
    },
)
