"""`python examples/nights/run_transfer.py`: whether a skill that was trained with one target helps
other targets too.

Nights train the skill with one target; then the skill as it was and the trained one are measured with every
target on the held-out tasks. Without a model three simulated targets take part: the one that is trained with,
a twin, and one that reads no skill.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import _face as face
from _nights import Night, run_nights
from _persona import PERSONAS
from _seeds import find_seeds
from _simulated import STUBBORN, TWIN, Answers, models_for, of_persona
from run_experiment import work_of
from run_gbrain import doubles_of

from skillopt.config.load import load
from skillopt.errors import ConfigError
from skillopt.run import Matrix, Target, Versus, comparisons, matrix, prepare
from skillopt.skill.document import Document
from skillopt_sleep import Roles
from skillopt_sleep.job import benchmark_of
from skillopt_sleep.judgement import total_cost
from skillopt_sleep.plan import NightTarget

SEED, BEST = "seed", "best"


async def transfer(options: argparse.Namespace) -> int:
    """Train with one target, measure with all, and print seed against best for each."""
    target, optimizer = face.named(options)
    work, doubles, batch = _subject(options, target, optimizer)
    settings = face.settings(
        edit_budget=options.edit_budget,
        max_tokens_per_night=options.budget_tokens,
        options={"train.batch_size": batch} if batch else {},
    )
    simulated = face.says(target, optimizer)
    if not options.json:
        print(
            "\n".join(filter(None, [simulated, f"{work.name}: {len(work.of_split('test'))} held-out tasks"]))
        )
    with (
        face.place(options, f"transfer-{work.name}") as out,
        models_for(doubles, target=target, optimizer=optimizer) as (roles, double),
    ):
        others = options.to or [double(TWIN), double(STUBBORN)]
        nights = await run_nights(work, settings, roles, nights=options.nights, out=out)
        found = await _measured(work, nights, [roles.target, *others], roles, options.budget_tokens, out)
    compared = comparisons(found.evaluations, SEED, graded=False)
    if options.json:
        face.print_json(_as_json(work, nights, found, compared, simulated, roles))
    else:
        print("\n".join(face.line_of(night) for night in nights))
        print("\n".join(_table(found, compared)))
    found.whole()
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(
        prog="run_transfer", description=(__doc__ or "").partition("\n\n")[2], allow_abbrev=False
    )
    parser.add_argument("--persona", choices=sorted(PERSONAS), help="whose requests (default: researcher)")
    parser.add_argument(
        "--data-root",
        type=Path,
        metavar="DIR",
        help="folder with seeds in the gbrain form, instead of a persona",
    )
    parser.add_argument("--seed", metavar="NAME", help="the seed in it")
    parser.add_argument(
        "--to",
        action="append",
        metavar="MODEL",
        help="a further target to measure with; may be given several times",
    )
    face.add_common(parser, nights=4)
    options = parser.parse_args(arguments)
    return face.run(lambda: transfer(options))


def _subject(
    options: argparse.Namespace, target: str | None, optimizer: str | None
) -> tuple[NightTarget, Answers | None, int]:
    """What is trained, the doubles that may stand in, and how many tasks a step takes (0: as a
    night has it).
    """
    if target and not options.to:
        raise ConfigError(
            "No target is named to measure with beside the one that is trained with. Add --to MODEL, once for"
            " each."
        )
    if options.data_root is None and options.seed is None:
        persona = PERSONAS[options.persona or "researcher"]
        return work_of(persona), None if target and optimizer else of_persona(persona), persona.batch_size
    if options.data_root is None or options.seed is None or options.persona is not None:
        raise ConfigError("A seed is named by --data-root and --seed together, and instead of --persona.")
    [work], _ = find_seeds(options.data_root, [options.seed])
    return work, doubles_of(work.name, target, optimizer), 0


async def _measured(
    work: NightTarget,
    nights: Sequence[Night],
    targets: Sequence[str],
    roles: Roles,
    tokens: int,
    out: Path,
) -> Matrix:
    """Both skills with every target, in one folder, with the tokens that the nights left; what was measured
    before is not paid again.
    """
    left = max(1, tokens - (total_cost(night.cost for night in nights).tokens or 0))
    options = (
        f"cache.path={out / 'rollouts.db'}",
        f"model.optimizer={roles.optimizer}",
        f"budget.tokens={left}",
    )
    resolved = [
        load(
            None,
            flags={},
            options=[f"model.target={name}", *options],
            environ=os.environ,
            cwd=Path.cwd(),
            dotenv=False,
        )
        for name in dict.fromkeys(targets)
    ]
    # Whatever one target's errors quote, the keys of all are kept out of it.
    secrets = tuple(dict.fromkeys(secret for one in resolved for secret in one.secrets))
    job = prepare(replace(resolved[0], secrets=secrets), benchmark=benchmark_of(work, ""))
    return await matrix(
        job,
        {SEED: Document(work.seed), BEST: Document(nights[-1].after)},
        ["test"],
        out / "matrix",
        targets=[Target.of(one.config) for one in resolved],
        against=SEED,
        runs=[night.result.folder for night in nights],
    )


def _table(found: Matrix, compared: Sequence[Versus]) -> list[str]:
    scores = {(one.target, one.skill): one.hard for one in found.evaluations}
    names = list(dict.fromkeys(one.target for one in found.evaluations))
    wide = max([6, *map(len, names)])
    lines = ["", f"{'target':<{wide}}  {SEED:>5}  {BEST:>5}  change  95 % interval"]
    for versus in compared:
        figures = (scores.get((versus.target, SEED)), scores.get((versus.target, BEST)))
        shown = "  ".join("    -" if one is None else f"{one:5.3f}" for one in figures)
        rest = f"not compared: {versus.why}"
        if versus.comparison is not None:
            low, high = versus.comparison.interval
            rest = f"{versus.comparison.delta:+.3f}  {low:+.3f} to {high:+.3f}"
        trained = "   (trained with)" if versus.target == names[0] else ""
        lines.append(f"{versus.target:<{wide}}  {shown}  {rest}{trained}")
    lines += [f"{one.target:<{wide}}  {one.skill} not measured: {one.why}" for one in found.missing]
    return lines


def _as_json(
    work: NightTarget,
    nights: Sequence[Night],
    found: Matrix,
    compared: Sequence[Versus],
    simulated: str,
    roles: Roles,
) -> dict[str, Any]:
    return {
        "subject": work.name,
        "simulated": simulated,
        "trained_with": roles.target.partition("@")[0],
        "optimizer": roles.optimizer.partition("@")[0],
        "n_holdout": len(work.of_split("test")),
        "nights_run": len(nights),
        "scores": [
            {"target": one.target, "skill": one.skill, "hard": one.hard, "n": one.n}
            for one in found.evaluations
        ],
        "comparisons": [asdict(one) for one in compared],
        "missing": [asdict(one) for one in found.missing],
        "looks": [{"run": str(one.run), "look": one.look} for one in found.noted],
        "final_skill": nights[-1].after,
    }


if __name__ == "__main__":
    sys.exit(main())
