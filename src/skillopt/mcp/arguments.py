"""What tools take: paths inside the project, numbers, switches and choices, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

from skillopt.config.sections import parse_budget
from skillopt.errors import ConfigError
from skillopt.mcp.place import confine

UNSET: Any = None
LONGEST = 4096
"""Characters of a text: each becomes a word of a command line, whose length systems limit."""


def _inside(path: str, info: ValidationInfo) -> str:
    assert isinstance(info.context, Path), "arguments are read for a project"
    confine(path, info.context)
    return path


def _word(text: str) -> str:
    if "\0" in text:
        raise ValueError("it holds a NUL character")
    return text


def _budget(text: str) -> str:
    try:
        parse_budget(text)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return text


Text = Annotated[str, Field(min_length=1, max_length=LONGEST), AfterValidator(_word)]
ProjectPath = Annotated[Text, AfterValidator(_inside)]
Budget = Annotated[Text, AfterValidator(_budget)]
Amount = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]


class Arguments(BaseModel):
    """What every tool takes."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    project: Text = UNSET
    """The project's folder; paths are relative to it. Left out: the client's first root, or where the server
    was started."""


class RunsArguments(Arguments):
    folders: list[ProjectPath] = UNSET
    """Runs, or folders with runs below them; left out: outputs."""


class ConfiguredArguments(Arguments):
    """What a tool takes that works with a config."""

    config: ProjectPath
    """A config file of the project, a run of it, or a packaged name of skillopt_list_configs."""
    out_root: ProjectPath = UNSET
    """Run folder; left out makes one under outputs/."""
    budget: Budget = UNSET
    """What the run may spend: '$2', '200k tokens', '500 calls', '30 minutes', or several with commas."""
    limit: Count = UNSET
    """Use only so many tasks of each split."""
    workers: Count = UNSET
    """Rollouts in flight; changes speed, never the result."""
    seed: Amount = UNSET
    """Seed of splits and shuffles."""


class TrainArguments(ConfiguredArguments):
    num_epochs: Count = UNSET
    """Passes over the train tasks."""
    batch_size: Count = UNSET
    """Train tasks of a step."""
    edit_budget: Count = UNSET
    """Most edits of a step."""
    use_gate: bool = UNSET
    """False takes every candidate unproven."""
    gate_metric: Literal["hard", "soft", "mixed"] = UNSET
    """Number the gate reads."""
    eval_test: bool = UNSET
    """Measure the sealed test at the end."""


class EstimateArguments(TrainArguments):
    target_reply: Count = UNSET
    """Length of the target's replies in tokens, where it is known."""
    optimizer_reply: Count = UNSET
    """Length of the optimizer's replies in tokens, where it is known."""


class EvaluateArguments(ConfiguredArguments):
    skill: list[ProjectPath] = UNSET
    """What to measure: skills' folders or .md files, runs for their best skill, or 'none' for no skill."""
    against: ProjectPath = UNSET
    """Compare each skill in pairs with this one."""
    split: Literal["train", "val", "valid_seen", "test", "valid_unseen", "all"] = UNSET
    """What to measure on; left out: all, of a run val, as its test is sealed."""
    repeats: Count = UNSET
    """Draws per task; their mean is the task's score."""
    run: list[ProjectPath] = UNSET
    """Training runs whose test split this may look at."""


class HarvestArguments(Arguments):
    scope: Literal["invoked", "all"] = UNSET
    """Sessions of the project only, or of all projects."""
    source: Literal[
        "auto", "claude", "codex", "copilot_chat", "copilot_cli", "cursor", "devin", "opencode", "pi"
    ] = UNSET
    """Whose sessions to read; auto is all that are found."""
    lookback_hours: Amount = UNSET
    """How far back to look; 0 is everything."""
    max_sessions: Amount = UNSET
    """Sessions read at most; 0 is 2,000."""


class NightArguments(HarvestArguments):
    backend: Literal["claude", "codex", "copilot", "handoff"] = UNSET
    """The login of the person that answers for both roles; handoff: you answer. Left out: the models of the
    person's settings."""
    max_tasks: Count = UNSET
    """Tasks of a night at most."""
    max_tokens: Amount = UNSET
    """Tokens a night may use, in and out; 0 is no limit."""
    max_dollars: Annotated[float, Field(ge=0, allow_inf_nan=False)] = UNSET
    """US dollars a night may use; 0 is no limit."""
    max_minutes: Amount = UNSET
    """Minutes a night may take; 0 is no limit."""
    edit_budget: Count = UNSET
    """Most edits of a step."""
    target_skill_path: ProjectPath = UNSET
    """The one skill to improve; left out: the skills the sessions used."""


class DryRunArguments(NightArguments):
    tasks_file: ProjectPath = UNSET
    """Use the tasks of this file, which the person has reviewed, instead of sessions."""


class RunNightArguments(DryRunArguments):
    restart: bool = UNSET
    """Leave a night that is open and begin anew, also without news."""


class ScheduleArguments(NightArguments):
    hour: Annotated[int, Field(ge=0, le=23)] = UNSET
    """Hour of the day; left out: 3."""
    minute: Annotated[int, Field(ge=0, le=59)] = UNSET
    """Minute of the hour; left out: 17."""


class UndoArguments(Arguments):
    proposal: Annotated[str, Field(pattern=r"^\d{8}-\d{6}-[0-9a-f]{8}$")] = UNSET
    """Id of a proposal, from sleep_status; left out: the newest of this project that is open."""


class AdoptArguments(UndoArguments):
    skill: list[Text] = UNSET
    """Only these skills."""


class DiffArguments(AdoptArguments):
    edit: list[Count] = UNSET
    """Only the edits of these numbers."""
