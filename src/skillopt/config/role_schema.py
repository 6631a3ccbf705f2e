"""What belongs to one role's model: two roles are two objects of one kind, whatever keys filled them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
RoleName = Literal["optimizer", "target", "judge", "proposer"]
ROLES: tuple[RoleName, ...] = ("optimizer", "target")
"""The roles of every run, which prefix public keys."""
RARE_ROLES: tuple[RoleName, ...] = ("judge", "proposer")
"""Roles that are only there where they are named: a judge for scorers, an agent that proposes edits."""
WORKERS: tuple[RoleName, ...] = ("target", "proposer")
"""Roles that can have a harness, as they work on tasks."""
DEFAULT_MODEL = "gpt-5.5"
S = TypeVar("S", bound="Section")


class Section(BaseModel):
    """A part of the tree: typed strictly, unknown keys refused, never changed in place."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )

    def having(self: S, values: Mapping[str, Any]) -> S:
        """The same with other values, by key from here: `{"target.name": "world"}`."""
        update: dict[str, Any] = {}
        for key, value in values.items():
            name, _, rest = key.partition(".")
            update[name] = update.get(name, getattr(self, name)).having({rest: value}) if rest else value
        return self.model_copy(update=update)


class PriceConfig(Section):
    """What a model costs, in US dollars per million tokens."""

    input: float = Field(ge=0)
    """Price of a million input tokens in US dollars."""
    output: float = Field(ge=0)
    """Price of a million output tokens in US dollars."""
    cached: float | None = Field(default=None, ge=0)
    """Price of a million cached input tokens; unset means the input price."""
    cache_write: float | None = Field(default=None, ge=0)
    """Price of a million input tokens written to a prompt cache; unset means the input price."""


class AgentConfig(Section):
    """The agent program of a role: a target's harness, or a chat by its login. Unset is left to it."""

    path: str | None = None
    """Program to start; unset means the one on the PATH."""
    profile: str | None = None
    """Profile or settings file of the program."""
    use_sdk: bool | Literal["auto", "sdk", "cli"] | None = None
    """claude, codex: drive the program through its SDK or its command line."""
    effort: str | None = None
    """claude: effort of the model."""
    max_thinking_tokens: int | None = Field(default=None, ge=0)
    """claude: most tokens the model may think."""
    reasoning_effort: str | None = None
    """codex: effort of the model."""
    sandbox: str | None = None
    """codex, cursor: sandbox mode of the program."""
    network_access: bool | None = None
    """codex: network inside the sandbox."""
    web_search: bool | None = None
    """codex: searching the web."""
    approval_policy: str | None = None
    """codex: when the program would ask a person."""
    home: Path | None = None
    """Folder of the program's own settings, used instead of a fresh one."""
    allow_all_tools: bool | None = None
    """copilot: tools without asking, where a task edits files."""
    activation: Literal["forced", "natural"] | None = None
    """Whether a target is told to use the skill or must find it; unset means forced."""


class RoleConfig(Section):
    """One model with everything that belongs to it. A knob left unset is not sent."""

    name: str = Field(default=DEFAULT_MODEL, min_length=1)
    """Model string: 'provider:model', 'compatible:model@http://host/v1', 'world', or a bare backend name. A
    target can also be an agent of your own: 'cmd: program', 'http://host/run' or 'file.py:function'.
    """
    base_url: str | None = None
    """Endpoint of this role; unset means the provider's own or its environment variable."""
    api_key: SecretStr | None = None
    """API key of this role; better kept in the environment."""
    temperature: float | None = Field(default=None, ge=0)
    """Sampling temperature; unset is not sent."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Nucleus sampling mass; unset is not sent."""
    seed: int | None = None
    """Sampling seed for providers that take one; unset is not sent."""
    reasoning_effort: Effort | None = None
    """Reasoning effort; unset means model.reasoning_effort."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Output cap of every call; unset means 16384, which compatible and Qwen endpoints are not sent."""
    timeout: float | None = Field(default=None, gt=0)
    """Seconds one call may take; unset means env.exec_timeout."""
    structured_output: Literal["auto", "schema", "json", "off"] = "auto"
    """How a reply's form is asked for: by JSON schema, JSON mode, the prompt alone, or the first that works.
    """
    price: PriceConfig | None = None
    """Prices for a model that the built-in price list does not know."""
    hedge: Literal["auto", "off"] = "auto"
    """Ask a call that takes far longer than its kind once more and take the first reply, for at most 5 % more
    tokens; never done for agent programs and answers by hand.
    """
    options: dict[str, Any] = Field(default_factory=dict)
    """What only this role's provider takes, as that declares it."""
    agent: AgentConfig = AgentConfig()
    """The agent program this role runs in."""


class TargetRoleConfig(RoleConfig):
    """The target's model."""

    context_window: int | None = Field(default=None, ge=1000)
    """Tokens the target can read: a skill that is longer by itself, at four characters a token, is refused
    before it is measured. Unset: the first task that does not fit tells.
    """


class OptimizerRoleConfig(RoleConfig):
    """The optimizer's model: its prompts carry evidence that can be shortened, so it also has a window."""

    context_window: int = Field(default=128_000, ge=1000)
    """Tokens the model can read; evidence is shortened to fit."""
    prompts: Literal["auto", "standard", "small"] = "auto"
    """Form in which `proof` asks about failures. auto: small where the model's name says less than 8 billion
    parameters (1.5b), or says nothing and the window is below 16,000 tokens.
    """
