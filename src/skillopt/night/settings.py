"""The settings of nights: decides what `~/.skillopt-sleep/config.yaml` may say, and refuses everything else
by name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from skillopt.config import yaml_file
from skillopt.errors import ConfigError, suggest
from skillopt.skill.spec import MAX_NAME

NAMES = ("config.yaml", "config.yml", "config.json")
_SKILL_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
DEAD: Mapping[str, tuple[str, tuple[Any, ...]]] = {
    "evolve_skill": ("a night always works on skills", (True,)),
    "target_task_filter": ("a task goes to the skill its sessions used", (True,)),
    "progress": ("progress is always shown; --quiet hides it", (False, True)),
    "evidence_log": ("a night's evidence is its run folder", (True,)),
    "evidence_max_chars": ("a night's evidence is its run folder", (4000,)),
    "multi_skill_report": ("multi_skill_fanout is the key", (False,)),
    "replay_mode": ("what is replayed is said by the models", ("mock", "")),
    **{
        f"{name}_path": ("agent programs are found on PATH, or by options of the model", ("",))
        for name in ("codex", "pi", "cursor", "opencode")
    },
}
"""Public keys without effect here: why, and the values that need no word about it."""
REFUSED: Mapping[str, tuple[str, tuple[Any, ...]]] = {
    "auto_adopt": ("a live skill changes only by `skillopt sleep adopt`", (False,)),
    "redact_secrets": ("transcripts are always redacted", (True,)),
    **{
        key: (f"one sum of quality and thrift lets a worse answer win by being short; {instead}", harmless)
        for key, instead, harmless in (
            (
                "multi_objective_reward",
                "set max_tokens_increase or max_latency_increase",
                (False, None, "", {}),
            ),
            ("w_acc", "quality always decides, leave it out", (1, 1.0)),
            ("w_tok", "set max_tokens_increase", (0, 0.0)),
            ("w_lat", "set max_latency_increase", (0, 0.0)),
        )
    },
    "opencode_tool_replay": (
        "what needs tools is never replayed as text; target_model opencode/... replays with OpenCode itself",
        (False,),
    ),
    "azure_endpoint": ("name the endpoint in AZURE_OPENAI_ENDPOINT, or as an entry of `options`", ("",)),
}
"""Public keys whose other values would promise what does not happen: why, and the values that ask for
nothing.
"""


def _empty_is_unset(value: Any) -> Any:
    return None if value == "" else value


def expanded(text: str) -> Path:
    """A path as a person writes it; the `~name` of nobody stays a name."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def _path(value: Any) -> Any:
    return expanded(value) if isinstance(value, str) and value else _empty_is_unset(value)


Place = Annotated[Path | None, BeforeValidator(_path)]


class NightSettings(BaseModel):
    """Every key of the file. Paths may begin with `~`; an empty text is a key left out."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    claude_home: Place = Field(
        default=None, description="Claude Code's folder; unset: ~/.claude or CLAUDE_CONFIG_DIR."
    )
    codex_home: Place = Field(default=None, description="Codex's folder; unset: ~/.codex or CODEX_HOME.")
    cursor_home: Place = Field(default=None, description="Cursor's folder; unset: ~/.cursor.")
    pi_home: Place = Field(default=None, description="Pi's folder; unset: ~/.pi.")
    vscode_workspace_storage: Place = Field(
        default=None, description="VS Code's workspaceStorage, for Copilot Chat."
    )
    copilot_cli_session_store: Place = Field(default=None, description="Copilot CLI's session-store.db.")
    opencode_db: Place = Field(default=None, description="OpenCode's database.")
    transcript_source: str = Field(
        default="auto", description="Sources to read, with commas; auto is all that are found."
    )
    projects: Literal["invoked", "all"] = Field(
        default="invoked", description="Sessions of the project only, or of all projects."
    )
    invoked_project: Place = Field(default=None, description="The project; unset: the working directory.")
    lookback_hours: float = Field(
        default=72, ge=0, le=1_000_000, description="How far back a night looks; 0 is everything."
    )
    max_sessions_per_night: int = Field(default=0, ge=0, description="Sessions read at most; 0 is 2,000.")
    max_tasks_per_night: int = Field(default=40, ge=1, description="Tasks of a night at most.")
    max_tokens_per_night: int = Field(
        default=400_000, ge=0, description="Tokens a night may use, in and out; 0 is no limit."
    )
    max_dollars_per_night: float = Field(
        default=0, ge=0, description="US dollars a night may use; 0 is no limit."
    )
    max_minutes_per_night: float = Field(
        default=0, ge=0, description="Minutes a night may take; 0 is no limit."
    )
    val_fraction: float = Field(default=0.34, gt=0, lt=1, description="Share of the tasks that decide.")
    holdout_fraction: float | None = Field(
        default=None, gt=0, lt=1, description="An older name of val_fraction."
    )
    test_fraction: float = Field(
        default=0.0, ge=0, lt=1, description="Share that is sealed for the claim; 0 makes none."
    )
    backend: str = Field(default="", description="Provider of both roles, where the model does not name it.")
    model: str = Field(default="", description="Model of both roles, such as openai:gpt-5.4-mini.")
    optimizer_backend: str = Field(default="", description="Provider of the optimizer.")
    optimizer_model: str = Field(default="", description="Model that writes the edits.")
    target_backend: str = Field(default="", description="Provider of the target.")
    target_model: str = Field(
        default="", description="Model that works with the skill: the one you use by day."
    )
    judge_model: str = Field(default="", description="Model that judges by rubrics; unset: the optimizer.")
    llm_mine: bool = Field(
        default=True,
        description="Ask the optimizer about requests that come back; off: mine by your own words alone.",
    )
    gate_mode: Literal["on", "off"] = Field(
        default="on", description="Off takes every change unproven, and every report says so."
    )
    gate_metric: Literal["hard", "soft", "mixed"] = Field(
        default="mixed", description="Number the gate reads."
    )
    gate_mixed_weight: float = Field(default=0.5, ge=0, le=1, description="Weight of soft in mixed.")
    gate_no_regression: bool = Field(
        default=False, description="Refuse a change that makes any held-out task worse."
    )
    edit_budget: int = Field(default=4, ge=1, description="Most edits of a step.")
    recall_k: int = Field(
        default=0,
        ge=0,
        description="Train tasks of earlier nights that are learned from again, those most like tonight's.",
    )
    dream_factor: int = Field(
        default=0,
        ge=0,
        le=10,
        description="Variants of each train task that the optimizer writes; learned from, never decided by.",
    )
    dream_rollouts: int = Field(
        default=1,
        ge=1,
        le=10,
        description="Tries of each train task; where they differ, the best is studied against the worst.",
    )
    slow_update_nights: int = Field(
        default=5,
        ge=0,
        description=(
            "Nights a slow update looks back, to the text before the oldest adopted one; 0 makes none."
        ),
    )
    max_tokens_increase: float | None = Field(
        default=None,
        ge=0,
        description="Largest share of further tokens that a better skill may make answers take; 0.2 is 20 %.",
    )
    max_latency_increase: float | None = Field(
        default=None,
        ge=0,
        description=(
            "Largest share of further seconds that a better skill may make answers take; 0.2 is 20 %."
        ),
    )
    preferences: str = Field(
        default="", description="What you always want, in your words; told to the optimizer."
    )
    target_skill_path: Place = Field(
        default=None, description="The one skill to improve; unset: the skills the sessions used."
    )
    skill_roots: list[Annotated[Path, BeforeValidator(_path)]] = Field(
        default_factory=list, description="Further folders of skills, which a night may propose changes for."
    )
    multi_skill_fanout: bool | None = Field(
        default=None, description="A run for each skill the sessions used; unset is yes."
    )
    evolve_memory: bool = Field(
        default=False,
        description=(
            "What belongs to no skill goes to our block in the project's memory file, where it has one."
        ),
    )
    managed_skill_name: str = Field(
        default="skillopt-sleep-learned", description="The skill for what belongs to no other."
    )
    seed: int = Field(default=42, ge=0, description="Seed of splits and shuffles.")
    state_dir: Place = Field(
        default=None, description="Where nights keep what they know; unset: ~/.skillopt-sleep."
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="Any key of a training run by its dotted name, such as env.workers."
    )

    @model_validator(mode="after")
    def _fits(self) -> NightSettings:
        if self.val + self.test_fraction >= 1:
            raise ValueError(
                "val_fraction and test_fraction leave nothing to learn from; together they are less than 1"
            )
        name = self.managed_skill_name
        if len(name) > MAX_NAME or not _SKILL_NAME.fullmatch(name):
            raise ValueError(
                f"managed_skill_name {name!r} is no name of a skill: lower-case letters and digits, with"
                " single dashes between"
            )
        return self

    @property
    def val(self) -> float:
        """The share that decides, by whichever name it was written."""
        return self.val_fraction if self.holdout_fraction is None else self.holdout_fraction

    def places(self) -> dict[str, Path]:
        """Where sources were said to be, by source."""
        named = {
            "claude_code": self.claude_home,
            "codex": self.codex_home,
            "cursor": self.cursor_home,
            "pi": self.pi_home,
            "copilot_chat": self.vscode_workspace_storage,
            "copilot_cli": self.copilot_cli_session_store,
            "opencode": self.opencode_db,
        }
        return {source: path for source, path in named.items() if path is not None}


PATHS = frozenset(
    key
    for key, field in NightSettings.model_fields.items()
    if key == "skill_roots" or Path in get_args(field.annotation)
)
"""The keys that hold paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """Settings, the file they came from (None where there is none) and what the reader should know."""

    settings: NightSettings
    path: Path | None
    warnings: tuple[str, ...] = ()


def find_settings(folder: Path) -> Path | None:
    """The file with the settings. Raises `ConfigError` where there are two: which one counts is
    not guessed.
    """
    found = [folder / name for name in NAMES if (folder / name).is_file()]
    if len(found) > 1:
        raise ConfigError(f"{' and '.join(map(str, found))} both hold settings of nights. Keep one of them.")
    return found[0] if found else None


def read_settings(path: Path | None, flags: Mapping[str, Any] | None = None) -> LoadedSettings:
    """The settings of a file with flags over them; a flag that is None was not given. All that is wrong is
    said at once.
    """
    written: dict[str, Any] = {}
    if path is not None:
        written = dict(yaml_file.read(path, str(path)).plain())
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    problems: list[str] = []
    warnings: list[str] = []
    for key in list(written):
        where = f"{path}: {key}"
        if key in DEAD:
            why, quiet = DEAD[key]
            if written.pop(key) not in quiet:
                warnings.append(f"{where} has no effect ({why})")
        elif key in REFUSED:
            why, harmless = REFUSED[key]
            if (value := written.pop(key)) not in harmless:
                problems.append(f"{where}: {value!r} is refused: {why}")
        elif key not in NightSettings.model_fields:
            del written[key]
            problems.append(f"{where}: unknown key. {_near(key)}")
    if (
        "val_fraction" in written
        and written.get("holdout_fraction", written["val_fraction"]) != written["val_fraction"]
    ):
        problems.append(
            f"{path}: val_fraction and holdout_fraction are two names of one share and differ. Keep"
            " val_fraction."
        )
    try:
        settings = NightSettings.model_validate({**written, **given})
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            key = ".".join(map(str, detail["loc"]))
            problems.append(
                f"{f'{path}: ' if key in written else ''}{key or 'settings'}:"
                f" {detail['msg'].removeprefix('Value error, ')}"
            )
        settings = NightSettings()
    if problems:
        raise ConfigError("\n".join(problems))
    return LoadedSettings(settings=settings, path=path, warnings=tuple(warnings))


def _near(key: str) -> str:
    known = [*NightSettings.model_fields, *DEAD, *REFUSED]
    return (
        suggest(key, known)
        if difflib.get_close_matches(key, known, n=1, cutoff=0.6)
        else "docs/sleep.md lists them."
    )
