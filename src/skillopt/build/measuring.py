"""What an evaluation is set up from: a configuration without an optimizer, a folder, and skills by name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from skillopt.build.job import Job
from skillopt.config import Resolved, parse_model_string
from skillopt.errors import ConfigError
from skillopt.runs.reader import is_run
from skillopt.skill.document import Document
from skillopt.skill.folder import Skill, load_skill

NO_SKILL = "none"


def target_only(resolved: Resolved) -> Resolved:
    """The configuration with the target in the optimizer's place: nothing here calls an optimizer, so none
    needs a key or a price.

    Where no judge is named the optimizer judges, and goes on to do so.
    """
    model = resolved.config.model
    bare = str(replace(parse_model_string(model.target.name, "target"), harness="chat", says_harness=False))
    stand_in = model.target.model_copy(update={"name": bare})
    roles = {"optimizer": stand_in, "judge": model.judge or model.optimizer}
    config = resolved.config.model_copy(update={"model": model.model_copy(update=roles)})
    return replace(resolved, config=config)


def eval_folder(job: Job, resolved: Resolved) -> Path:
    """Where results go: as told by flag or option, else one folder for these tasks, whatever is measured."""
    out = job.config.env.out_root
    if out is not None and resolved.provenance["env.out_root"].layer in ("flag", "cfg-options"):
        return out  # a config file's out_root is the training run's folder
    identity = job.identity()
    words = json.dumps([identity["env"], identity["tasks"]], sort_keys=True)
    digest = hashlib.sha256(words.encode()).hexdigest()[:10]
    return Path.cwd() / "outputs" / f"eval_{job.benchmark.name}_{digest}"


def skill_named(name: str) -> Skill:
    """A skill with its own files; the best one of a run with those of its seed; `none` is the empty one."""
    if name == NO_SKILL:
        return Skill(path=None, name=name, document=Document(""))
    if not is_run(Path(name)):
        return load_skill(name)
    best = Path(name) / "best_skill.md"
    if not best.is_file():
        raise ConfigError(
            f"{name} is a run without a best skill: there is no {best.name} in it. Train first, or name a"
            " skill."
        )
    # As for an export: a seed folder that was renamed between two sessions leaves two, and the later one
    # belongs to the text.
    whole = [path for path in (Path(name) / "best_skill").glob("*") if path.is_dir()]
    return replace(
        load_skill(best), folder=max(whole, key=lambda path: path.stat().st_mtime_ns, default=None)
    )
