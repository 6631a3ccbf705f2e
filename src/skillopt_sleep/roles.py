"""The models of a night: as model strings, or in the public words for a backend; never simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skillopt.agents import agents
from skillopt.config.model_string import parse_model_string
from skillopt.errors import ConfigError, UnknownName
from skillopt.models import PROVIDERS
from skillopt_sleep.settings import NightSettings

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
