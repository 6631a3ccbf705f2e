"""`python -m skillopt_sleep.experiments.run_experiment --persona researcher --assert-improves`

A *simulated* proof: a made-up person's requests are learned from, the optimizer is tempted by an edit that
does harm, and the gate must measure it and say no. `examples/nights/run_experiment.py` in the repository does
the same with real models.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import skillopt
from skillopt.errors import SkillOptError
from skillopt.files import temporary_folder
from skillopt.messages import Request
from skillopt.testing import FunctionModel

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class Persona:
    """A person who asks for the same kind of thing: `answer` is right where skill and request together state
    every rule. Of three requests the first states all of them, the second all but one.
    """

    skill: str
    rules: tuple[str, ...]
    harmful: str
    prompt: str
    answer: str
    subjects: tuple[str, ...]
    sizes: tuple[int, int, int]
    """How many tasks of each split."""

    def tasks(self, most: int | None) -> dict[str, list[dict[str, str]]]:
        """Its tasks by split, each about another subject."""
        rows, subjects = {}, iter(self.subjects)
        for split, size in zip(SPLITS, self.sizes, strict=True):
            about = [next(subjects) for _ in range(size)][:most]
            rows[split] = [
                {
                    "id": subject,
                    "prompt": " ".join([self.prompt.format(subject), *self.rules[at % 3 :]]),
                    "answer": self.answer.format(subject),
                }
                for at, subject in enumerate(about)
            ]
        return rows

    def simulated_target(self, task: Any, skill: str) -> str:
        """Follows the rules of the skill to the letter, the harmful one first."""
        known = f"{skill}\n{task.prompt}"
        knows = all(rule in known for rule in self.rules) and self.harmful not in skill
        return self.answer.format(task.id) if knows else f"about {task.id}"

    def simulated_optimizer(self, request: Request) -> str:
        """Proposes the harmful edit until it stands among what was tried, and then the missing rules."""
        text = "\n".join(message.content for message in request.messages)
        edits = [rule for rule in self.rules if rule not in text]
        if self.harmful not in text:
            edits = [self.harmful]
        failing = "/analyst_failure/" in request.place
        patch = [{"op": "append", "content": f"- {edit}"} for edit in edits if failing]
        return json.dumps({"batch_size": 1, "patch": {"reasoning": "simulated", "edits": patch}})


PERSONAS = {
    "researcher": Persona(
        skill="---\nname: paper-finder\ndescription: Names papers.\n---\n# Papers\n\n- Be exact.\n",
        rules=("Write arXiv: before the number of a paper.", "Set the answer in double square brackets."),
        harmful="Leave the number of a paper out.",
        prompt="Which paper has the number {}?",
        answer="[[arXiv:{}]]",
        subjects=tuple(f"17{month:02}.{number:05}" for month in range(1, 9) for number in (3762, 4805, 6345)),
        sizes=(6, 6, 12),
    ),
    "programmer": Persona(
        skill="---\nname: commit-writer\ndescription: Writes commits.\n---\n# Commits\n\n- Be short.\n",
        rules=("Begin the subject of a commit with an imperative verb.",),
        harmful="Begin the subject of a commit in the past tense.",
        prompt="Write the subject of a commit that makes the parser skip {}.",
        answer="Skip {} in the parser",
        subjects=tuple(
            f"{kind} {what}"
            for kind in ("empty", "broken", "doubled")
            for what in ("lines", "rows", "files", "names", "dates", "links")
        ),
        sizes=(4, 4, 10),
    ),
}


async def experiment(persona: Persona, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """What the nights came to; each starts from the skill that the one before ended with."""
    skill = folder / "SKILL.md"
    await asyncio.to_thread(skill.write_text, persona.skill, encoding="utf-8")
    nights, tried = list[skillopt.Result](), list[str]()
    while len(nights) < options.nights and not (nights and nights[-1].best_on_val.score == 1):
        night = await skillopt.aoptimize(
            skill=skill,
            tasks=persona.tasks(options.limit_tasks),
            scorer="exact_match",
            target=persona.simulated_target,
            optimizer=FunctionModel(persona.simulated_optimizer, name="simulated-optimizer"),
            out=folder / f"night-{len(nights) + 1}",
            options={
                "train.strategy": "paper",
                "train.batch_size": 2,
                "optimizer.learning_rate": options.edit_budget,
                "evaluation.check_baseline": False,
                "evaluation.eval_test": True,
            },
        )
        nights.append(night)
        tried += [
            step.action
            for step in night.steps
            if persona.harmful in _candidate(night.folder, step.step) and step.selection_rows
        ]
        await asyncio.to_thread(skill.write_text, night.best_skill, encoding="utf-8")
    before, after = nights[0].summary["baseline_test_hard"], nights[-1].summary["test_hard"]
    return {
        "persona": options.persona,
        "backend": "mock",
        "model": "simulated",
        "simulated": "Simulated: target and optimizer are doubles of this program, not a model.",
        "n_tasks": sum(len(rows) for rows in persona.tasks(options.limit_tasks).values()),
        "nights_run": len(nights),
        "baseline_holdout": before,
        "after_holdout": after,
        "lift": after - before,
        "improved": after > before,
        "gate_blocks_harmful": bool(tried) and set(tried) == {"reject"},
        "tokens_used": sum(night.summary["spending"]["tokens"] for night in nights),
        "trace": [
            {"step": step.step, "action": step.action, "why": step.why}
            for night in nights
            for step in night.steps
        ],
        "final_skill_excerpt": nights[-1].best_skill[-600:],
    }


def _candidate(folder: Path, step: int) -> str:
    path = folder / "steps" / f"step_{step:04}" / "candidate_skill.md"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="run_experiment", description=__doc__, allow_abbrev=False)
    parser.add_argument("--persona", choices=sorted(PERSONAS), default="researcher", help="whose requests")
    parser.add_argument("--backend", choices=["mock"], default="mock", help="the simulated one")
    parser.add_argument("--nights", type=int, default=4, help="most nights; a perfect score ends them")
    parser.add_argument("--edit-budget", type=int, default=4, help="most edits of a step")
    parser.add_argument("--limit-tasks", type=int, help="no more tasks of each split")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--assert-improves", action="store_true", help="end with 1 unless the claim holds")
    options = parser.parse_args(arguments)
    if min(options.nights, options.edit_budget, options.limit_tasks or 1) < 1:
        parser.error("--nights, --edit-budget and --limit-tasks take whole numbers from 1 on")
    try:
        with temporary_folder("skillopt-experiment-") as folder:
            found = asyncio.run(experiment(PERSONAS[options.persona], options, folder))
    except SkillOptError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    holds = found["improved"] and found["gate_blocks_harmful"]
    if options.json:
        print(json.dumps(found, ensure_ascii=False, indent=1))
    else:
        print(found["simulated"])
        for step in found["trace"]:
            print(f"step {step['step']}  {step['action']:<16} {step['why']}")
        print(f"held-out {found['baseline_holdout']:.3f} -> {found['after_holdout']:.3f}")
        blocked = "measured and rejected" if found["gate_blocks_harmful"] else "not kept out"
        print(f"The harmful edit, {PERSONAS[options.persona].harmful!r}, was {blocked}.")
    if options.assert_improves and not holds:
        print("FAIL: the held-out score did not rise, or the gate let the harmful edit in.", file=sys.stderr)
    return int(options.assert_improves and not holds)


if __name__ == "__main__":
    sys.exit(main())
