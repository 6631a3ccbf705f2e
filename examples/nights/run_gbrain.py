"""`python examples/nights/run_gbrain.py --data-root DIR`: whether nights repair skills that lack
one thing each.

Every seed is a folder in the gbrain form: SKILL.md, benchmark.jsonl and held-out.jsonl. The benchmark's rows
teach and decide, by a hash of their text; the held-out ones stay sealed until a night is over. Without a
model the optimizer is scripted and the target simulated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import _face as face
from _nights import NightsInARow, limited, run_nights
from _seeds import SCRIPTS, Script, find_seeds, of_script
from _simulated import Answers, models_for

from skillopt.errors import ConfigError, Stopped
from skillopt_sleep import NightSettings
from skillopt_sleep.judgement import Cost, total_cost


class Repaired(NightsInARow):
    """A seed after its nights."""

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        about = {"seed": self.work.name, "n_train": self.size("train"), "n_val": self.size("val")}
        return {**about, **NightsInARow.as_json(self), "final_skill": self.nights[-1].after}


async def repair(options: argparse.Namespace, scripts: Mapping[str, Script]) -> int:
    """Run the nights of every seed and print what they came to."""
    target, optimizer = face.named(options)
    found, left_out = find_seeds(options.data_root, options.seeds)
    works = [limited(work, train=options.limit_replay, test=options.limit_holdout) for work in found]
    doubles = {work.name: doubles_of(work.name, target, optimizer, scripts) for work in works}
    simulated = face.says(target, optimizer)
    done: list[Repaired] = []
    stopped: Stopped | None = None
    if not options.json:
        print("\n".join(filter(None, [simulated, *(f"left out: {why}" for why in left_out)])))
    for work in works:
        settings = _settings(options, total_cost(one.cost for one in done))
        try:
            with (
                face.place(options, "gbrain") as out,
                models_for(doubles[work.name], target=target, optimizer=optimizer) as (roles, _),
            ):
                nights = await run_nights(work, settings, roles, nights=options.nights, out=out / work.name)
        except Stopped as reason:  # what the seeds before it showed is told first
            stopped = reason
            break
        done.append(Repaired(work=work, nights=nights))
        if not options.json:
            train, val, test = (len(work.of_split(split)) for split in ("train", "val", "test"))
            print(f"\n{work.name}: {train} rows to learn from, {val} that decide, {test} held out")
            print("\n".join(face.line_of(night) for night in nights))
            print(f"held-out {face.span(*done[-1].holdout)}")
    if options.json:
        about = {
            "simulated": simulated,
            "gate": options.gate,
            "left_out": left_out,
            "stopped": str(stopped or ""),
        }
        face.print_json({**about, "seeds": [one.as_json() for one in done]})
    if stopped is not None:
        raise stopped
    return 0


def doubles_of(
    name: str, target: str | None, optimizer: str | None, scripts: Mapping[str, Script] = SCRIPTS
) -> Answers | None:
    """The doubles of a seed, where a role needs one. Raises `ConfigError` for a seed that nobody wrote a
    script for.
    """
    if target and optimizer:
        return None
    if name not in scripts:
        raise ConfigError(
            f"No script is written for the seed {name!r}, so it cannot be simulated. Name models: --model, or"
            " --target and --optimizer."
        )
    return of_script(scripts[name])


def main(arguments: Sequence[str] | None = None, scripts: Mapping[str, Script] = SCRIPTS) -> int:
    """The program."""
    parser = argparse.ArgumentParser(
        prog="run_gbrain", description=(__doc__ or "").partition("\n\n")[2], allow_abbrev=False
    )
    parser.add_argument(
        "--data-root", type=Path, required=True, metavar="DIR", help="folder that holds the seeds"
    )
    parser.add_argument(
        "--seeds", type=_names, default=[], metavar="A,B", help="seeds by folder name; unset: all"
    )
    parser.add_argument(
        "--gate",
        choices=("on", "off", "hard", "soft"),
        default="on",
        help="hard and soft: on, reading that score (default: on)",
    )
    parser.add_argument("--budget-minutes", type=float, default=0, metavar="N", help="minutes likewise")
    parser.add_argument(
        "--rollouts-k",
        type=face.count,
        default=1,
        metavar="K",
        help="tries of each row to learn from (default: 1)",
    )
    parser.add_argument(
        "--preferences", default="", metavar="TEXT", help="what you always want, told to the optimizer"
    )
    parser.add_argument("--limit-replay", type=face.count, metavar="N", help="no more rows to learn from")
    parser.add_argument("--limit-holdout", type=face.count, metavar="N", help="no more held-out rows")
    face.add_common(parser, nights=3)
    options = parser.parse_args(arguments)
    return face.run(lambda: repair(options, scripts))


def _settings(options: argparse.Namespace, spent: Cost) -> NightSettings:
    """The settings of a seed's nights, with what the seeds before it left of the budget."""
    told: dict[str, Any] = {"gate_metric": options.gate} if options.gate in ("hard", "soft") else {}
    told["max_tokens_per_night"] = max(1, options.budget_tokens - (spent.tokens or 0))
    if options.budget_minutes:
        left = options.budget_minutes - (spent.minutes or 0.0)
        told["max_minutes_per_night"] = max(min(0.01, options.budget_minutes), left)  # 0 would be no limit
    return face.settings(
        gate_mode="off" if options.gate == "off" else "on",
        edit_budget=options.edit_budget,
        preferences=options.preferences,
        dream_rollouts=options.rollouts_k,
        **told,
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


if __name__ == "__main__":
    sys.exit(main())
