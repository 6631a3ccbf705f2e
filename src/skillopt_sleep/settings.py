"""The settings of nights: what `~/.skillopt-sleep/config.yaml` may say; all else is refused by name. And the
models that they name, as model strings or in the public words for a backend; never simulated.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from skillopt.agents import agents
from skillopt.config.fields import leaves
from skillopt.config.files import read_yaml
from skillopt.config.layers import ConfigEntry, Source, is_harmless, validation_messages
from skillopt.config.roles import parse_model_string
from skillopt.config.sections import Section
from skillopt.errors import ConfigError, UnknownName, suggest
from skillopt.files import expand_home
from skillopt.models import PROVIDERS
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
    "recall_k": ("tasks of earlier nights come again by themselves", (0,)),
    "dream_factor": (
        "nobody but you asks tasks: each input of yours is one, and no variants are written",
        (0,),
    ),
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
"""Public keys that are refused unless they ask for nothing: why, and the values that do."""
REMEDY = (
    "No model is configured, so nothing was sent and nothing is learned. Name one: `--model"
    " openai:gpt-5.4-mini` (or target_model and optimizer_model in ~/.skillopt-sleep/config.yaml), `--model"
    " claude-cli:sonnet` to use a Claude Code login, `--model local:smollm2` for a small model on this"
    " machine, or `--model handoff` to let the agent you work with answer, without a key."
)
_PUBLIC: Mapping[str, str] = {
    **dict.fromkeys(("claude", "claude_cli", "claude_code"), "claude-cli"),
    **dict.fromkeys(("codex", "codex_cli"), "codex-cli"),
    **dict.fromkeys(("copilot", "copilot_cli"), "copilot-cli"),
    **dict.fromkeys(("azure", "azure_openai", "aoai", "azure_responses"), "azure"),
    **dict.fromkeys(("handoff", "session", "file"), "handoff"),
}
_TARGETS_ONLY = {"opencode": "OpenCode", "cursor": "Cursor", "cursor_agent": "Cursor"}
"""Agents that work with a skill and cannot be asked as a model."""
_DEFAULT_MODEL = {"claude-cli": "sonnet"}
_SIMULATED = ("mock", "world")


def _path(value: Any) -> Any:
    return (expand_home(value) if value else None) if isinstance(value, str) else value


OptionalPath = Annotated[Path | None, BeforeValidator(_path)]


class NightSettings(Section):
    """Every key of the file. Paths may begin with `~`; an empty text is a key left out. The texts below the
    keys are the help of their options.
    """

    model_config = ConfigDict(allow_inf_nan=False, use_attribute_docstrings=True)

    claude_home: OptionalPath = None
    """Claude Code's folder; unset: ~/.claude or CLAUDE_CONFIG_DIR."""
    codex_home: OptionalPath = None
    """Codex's folder; unset: ~/.codex or CODEX_HOME."""
    cursor_home: OptionalPath = None
    """Cursor's folder; unset: ~/.cursor."""
    pi_home: OptionalPath = None
    """Pi's folder; unset: ~/.pi."""
    vscode_workspace_storage: OptionalPath = None
    """VS Code's workspaceStorage, for Copilot Chat."""
    copilot_cli_session_store: OptionalPath = None
    """Copilot CLI's session-store.db."""
    opencode_db: OptionalPath = None
    """OpenCode's database."""
    transcript_source: str = "auto"
    """Sources to read, with commas; auto is all that are found."""
    projects: Literal["invoked", "all"] = "invoked"
    """Sessions of the project only, or of all projects."""
    invoked_project: OptionalPath = None
    """The project; unset: the working directory."""
    lookback_hours: float = Field(default=72, ge=0, le=1_000_000)
    """How far back a night looks; 0 is everything."""
    max_sessions_per_night: int = Field(default=0, ge=0)
    """Sessions read at most; 0 is 2,000."""
    max_tasks_per_night: int = Field(default=40, ge=1)
    """Tasks of a night at most."""
    max_tokens_per_night: int = Field(default=400_000, ge=0)
    """Tokens a night may use, in and out; 0 is no limit."""
    max_dollars_per_night: float = Field(default=0, ge=0)
    """US dollars a night may use; 0 is no limit."""
    max_minutes_per_night: float = Field(default=0, ge=0)
    """Minutes a night may take; 0 is no limit."""
    val_fraction: float = Field(default=0.34, gt=0, lt=1)
    """Share of the tasks that decide."""
    holdout_fraction: float | None = Field(default=None, gt=0, lt=1)
    """An older name of val_fraction."""
    test_fraction: float = Field(default=0.0, ge=0, lt=1)
    """Share that is sealed for the claim; 0 makes none."""
    backend: str = ""
    """Provider of both roles, where the model does not name it."""
    model: str = ""
    """Model of both roles, such as openai:gpt-5.4-mini."""
    optimizer_backend: str = ""
    """Provider of the optimizer."""
    optimizer_model: str = ""
    """Model that writes the edits."""
    target_backend: str = ""
    """Provider of the target."""
    target_model: str = ""
    """Model that works with the skill: the one you use by day."""
    judge_model: str = ""
    """Model that judges by rubrics; unset: the optimizer."""
    reader_model: str = ""
    """Model that reads how you answered to what was done, a cheap one; unset: the optimizer."""
    llm_mine: bool = True
    """Have a model find measures; off: by your own words alone. A model reads the sessions either way."""
    gate_mode: Literal["on", "off"] = "on"
    """Off takes every change unproven, and every report says so."""
    gate_metric: Literal["hard", "soft", "mixed"] = "mixed"
    """Number the gate reads."""
    gate_mixed_weight: float = Field(default=0.5, ge=0, le=1)
    """Weight of soft in mixed."""
    gate_no_regression: bool = False
    """Refuse a change that makes any held-out task worse."""
    edit_budget: int = Field(default=4, ge=1)
    """Most edits of a step."""
    dream_rollouts: int = Field(default=1, ge=1, le=10)
    """Tries of each train task; where they differ, the best is studied against the worst."""
    slow_update_nights: int = Field(default=5, ge=0)
    """Nights a slow update looks back, to the text before the oldest adopted one; 0 makes none."""
    max_tokens_increase: float | None = Field(default=None, ge=0)
    """Largest share of further tokens that a better skill may make answers take; 0.2 is 20 %."""
    max_latency_increase: float | None = Field(default=None, ge=0)
    """Largest share of further seconds that a better skill may make answers take; 0.2 is 20 %."""
    preferences: str = ""
    """What you always want, in your words; told to the optimizer."""
    target_skill_path: OptionalPath = None
    """The one skill to improve; unset: the skills the sessions used."""
    skill_roots: list[Annotated[Path, BeforeValidator(_path)]] = Field(default_factory=list)
    """Further folders of skills, which a night may propose changes for."""
    multi_skill_fanout: bool | None = None
    """A run for each skill the sessions used; unset is yes."""
    evolve_memory: bool = False
    """What belongs to no skill goes to our block in the project's memory file, where it has one."""
    managed_skill_name: str = "skillopt-sleep-learned"
    """The skill for what belongs to no other."""
    notices: list[Literal["banner", "desktop", "branch"]] = Field(default_factory=list)
    """How a proposal makes itself known: a line when a session of Claude Code starts (by the plug-in), a
    desktop notification, a branch with a commit."""
    seed: int = Field(default=42, ge=0)
    """Seed of splits and shuffles."""
    state_dir: OptionalPath = None
    """Where nights keep what they know; unset: ~/.skillopt-sleep."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Any key of a training run by its dotted name, such as env.workers."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """Settings, and what the reader should know."""

    settings: NightSettings
    warnings: tuple[str, ...] = ()


def find_settings(folder: Path) -> Path | None:
    """The file with the settings, if any. Raises `ConfigError` where there are two."""
    found = [folder / name for name in NAMES if (folder / name).is_file()]
    if len(found) > 1:
        raise ConfigError(f"{' and '.join(map(str, found))} both hold settings of nights. Keep one of them.")
    return found[0] if found else None


def read_settings(path: Path | None, flags: Mapping[str, Any] | None = None) -> LoadedSettings:
    """The settings of a file with flags over them (None: not given). Names all problems at once."""
    entries: dict[str, ConfigEntry] = {}
    if path is not None:
        values, lines = read_yaml(path, str(path))
        for key, value in values.items():
            source = Source(layer="config", where=f"{path}:{lines[key,]}")
            entries[key] = ConfigEntry(key=key, value=value, source=source, written=key)
    problems: list[str] = []
    warnings: list[str] = []
    for key, entry in list(entries.items()):
        if key in _LEAVES:
            continue
        del entries[key]
        why, harmless = DEAD.get(key) or REFUSED.get(key) or ("", ())
        if not why:
            close = difflib.get_close_matches(key, [*_LEAVES, *DEAD, *REFUSED], cutoff=0.6)[:1]
            problems.append(
                f"{entry}: unknown key. {suggest(key, close) if close else 'docs/sleep.md lists them.'}"
            )
        elif is_harmless(entry.value, harmless):
            continue
        elif key in DEAD:
            warnings.append(f"{entry} has no effect ({why})")
        else:
            problems.append(f"{entry}: {entry.value!r} is refused: {why}")
    shares = [entries[key].value for key in ("val_fraction", "holdout_fraction") if key in entries]
    if len(shares) == 2 and shares[0] != shares[1]:
        problems.append(
            f"{path}: val_fraction and holdout_fraction are two names of one share and differ. Keep"
            " val_fraction."
        )
    for key, value in (flags or {}).items():
        if value is not None:
            entries[key] = ConfigEntry(key=key, value=value, source=Source(layer="flag"), written=key)
    settings = NightSettings()
    try:
        settings = NightSettings.model_validate({key: entry.value for key, entry in entries.items()})
    except ValidationError as error:
        problems += validation_messages(error, entries, _LEAVES.get)
    if problems:
        raise ConfigError("\n".join(problems))
    return LoadedSettings(settings=settings, warnings=tuple(warnings))


_LEAVES = {leaf.key: leaf for leaf in leaves(NightSettings)}
PATHS = frozenset(key for key, leaf in _LEAVES.items() if Path in leaf.options or key == "skill_roots")
"""The keys that hold paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The models of a night as model strings. Where no judge is named, the optimizer judges by rubrics."""

    target: str
    optimizer: str
    judge: str | None = None

    @property
    def replays(self) -> bool:
        """Whether the target is an agent with tools of its own, which can work in a repository again."""
        return parse_model_string(self.target, "target").harness in {
            one.name for one in agents() if one.driver
        }

    def named(self) -> tuple[str, ...]:
        """Each model once."""
        return tuple(
            dict.fromkeys(one for one in (self.target, self.optimizer, self.judge) if one is not None)
        )


def roles_of(settings: NightSettings) -> Roles | None:
    """The models that were named, None where none was; `model` and `backend` stand for both roles."""
    common = _string(settings.backend, settings.model, "backend")
    target = _string(settings.target_backend, settings.target_model, "target_backend") or common
    optimizer = _string(settings.optimizer_backend, settings.optimizer_model, "optimizer_backend") or common
    if target is None and optimizer is None:
        return None
    if target is None or optimizer is None:
        missing, other = ("target", "optimizer") if target is None else ("optimizer", "target")
        raise ConfigError(
            f"The {other} of a night is named and its {missing} is not. Set {missing}_model, or `model` for"
            " both."
        )
    return Roles(target=target, optimizer=optimizer, judge=_string("", settings.judge_model, "judge_model"))


def _string(backend: str, model: str, key: str) -> str | None:
    plain = backend.strip().replace("-", "_").lower()
    if model.partition(":")[0] in _SIMULATED or plain in _SIMULATED:
        raise ConfigError(
            "The simulated world cannot learn from real sessions, so it is no model of a night. Name a real"
            " one, or leave it unset and see what was harvested and mined with `skillopt sleep dry-run`. The"
            " simulated experiment is `python -m skillopt_sleep.experiments.run_experiment --persona"
            " researcher`."
        )
    if not plain:
        return model.strip() or None
    if plain in _TARGETS_ONLY:
        agent, name = plain.removesuffix("_agent"), model.strip()
        if key == "target_backend" and name:
            return f"{agent}/{name}"
        raise ConfigError(
            f"{key} {backend!r}: {_TARGETS_ONLY[plain]} works with a skill and cannot write one. Name it as"
            f" the target, and a model as optimizer: `skillopt sleep run --target {agent}/{name or 'MODEL'}"
            " --optimizer openai:gpt-5.4-mini`."
        )
    if plain == "pi":
        raise ConfigError(
            f"{key} 'pi': Pi's sessions are read and Pi itself is not driven. Name the model that it uses:"
            " `skillopt sleep run --source pi --model PROVIDER:MODEL`."
        )
    if plain not in _PUBLIC and plain not in PROVIDERS.names():
        raise UnknownName(f"backend ({key})", backend, {*_PUBLIC, *PROVIDERS.names()} - set(_SIMULATED))
    provider = _PUBLIC.get(plain, plain)
    name = model.strip() or _DEFAULT_MODEL.get(provider, "")
    return f"{provider}:{name}" if name else provider
