"""Sections of the schema: what belongs to the model of one role, the plan of a run, and its budget."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from skillopt.errors import ConfigError, suggest

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
    """Sampling temperature; unset is not sent, and 0 for models in this process (local)."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Nucleus sampling mass; unset is not sent."""
    seed: int | None = None
    """Sampling seed for providers that take one; unset is not sent."""
    reasoning_effort: Effort | None = None
    """Reasoning effort; unset means model.reasoning_effort."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Output cap of every call; unset means 16384, which compatible and Qwen endpoints are not sent, and 1024
    for models in this process (local).
    """
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

    context_window: int | None = Field(default=None, ge=1)
    """Tokens the target can read: a skill that is longer by itself, at four characters a token, is refused
    before it is measured. Unset: the first task that does not fit tells; a local model's is known.
    """


class OptimizerRoleConfig(RoleConfig):
    """The optimizer's model: its prompts carry evidence that can be shortened, so it also has a window."""

    context_window: int = Field(default=128_000, ge=1)
    """Tokens the model can read; evidence is shortened to fit. Unset, a local model's is known."""
    prompts: Literal["auto", "standard", "small"] = "auto"
    """Form in which `proof` asks about failures. auto: small where the model's name says less than 8 billion
    parameters (1.5b), or says nothing and the window is below 16,000 tokens.
    """


class ProofConfig(Section):
    """The strategy `proof`: how edits are tried before the gate, and what happens after it."""

    batch: int = Field(default=60, ge=1)
    """Most train tasks of a step: large, so that rare failures come in sight together, but a gate every so
    often, so that a budget that ends early has bought something.
    """
    rows: int = Field(default=2, ge=1)
    """Failed tasks an edit is tried on alone; a third one costs, and shows little more."""
    depth: int = Field(default=4, ge=1)
    """Looks at failures: later ones only at what stays open, told what did nothing and what was answered."""
    control: int = Field(default=30, ge=0)
    """Passed train tasks the chosen edits are run on, to find what overreaches; 0 is none."""
    blame_from: int = Field(default=3, ge=1)
    """Broken val rows from which on the guilty edits are looked for."""
    blame_rows: int = Field(default=12, ge=1)
    """Broken rows that parts of a bundle are tried on, at most."""
    prune: bool = True
    """Leave weakly proven edits out again where the gate agrees."""
    remaining: int = Field(default=16, ge=1)
    """Train tasks that must be open for another epoch; of few tasks, a quarter of them."""
    confirm: bool = True
    """Draw a task again that is the only one an edit fixed, with the edit and without: it may be luck."""


class TrainConfig(Section):
    """How long and in which batches."""

    part: Literal["body", "description"] = "body"
    """What of the skill is trained: its body on tasks, or its description on queries (section `triggers`)."""
    strategy: str = "paper"
    """How a step searches: paper (the published loop), proof (edits are tried first), or your own. Tasks of
    your own (`own`, `evals_json`) are trained by proof unless this is set.
    """
    proof: ProofConfig = ProofConfig()
    """The strategy `proof`."""
    folds: int | None = Field(default=None, ge=1)
    """Parts that own tasks are cross-fitted in, each judged by a skill that never saw it; 1 is one split.
    Unset: 5 for 10 to 59 tasks that no setting divides, else 1.
    """
    proposer: str = "analysts"
    """Who proposes edits: analysts (the optimizer model, minibatch by minibatch), agent (the coding agent of
    model.proposer, once for a whole batch), or your own.
    """
    num_epochs: int = Field(default=4, ge=1)
    """Passes over the train split."""
    train_size: int = Field(default=0, ge=0)
    """Expected size of the train split; 0 takes what is there."""
    batch_size: int = Field(default=40, ge=1)
    """Train tasks per step."""
    accumulation: int = Field(default=1, ge=1)
    """Multiplies the batch of a step."""
    seed: int = Field(default=42, ge=0)
    """Seed of every shuffle of the plan."""
    patience: int = Field(default=0, ge=0)
    """Steps without a new best skill after which training stops; 0 is never."""
    ahead: Literal["auto", "off"] = "auto"
    """Run the first batch in slots that the baseline leaves empty: the same result sooner. Never done with a
    budget or a limit on effort, nor for agent programs and answers by hand.
    """


class TriggersConfig(Section):
    """Queries that should load the skill and queries that should not, for `train.part: description`."""

    path: Path = Path("triggers.jsonl")
    """JSONL, JSON or CSV file with prompt and should_load; where there is none, one is drafted to review."""
    split_ratio: str = "2:2:1"
    """Weights of train, val and test among the queries, the same for both kinds."""
    others: bool = True
    """List other skills beside the trained one; of theirs only name and description are sent."""
    skills: Path | None = None
    """Folder with those other skills; unset means those installed where the agent looks for them."""
    listed_as: str = "claude_code"
    """Agent whose list of skills a chat target is shown; an agent as target shows its own."""
    drafts: int = Field(default=40, ge=8)
    """Queries a draft holds, half of each kind."""


_UNITS = {
    **dict.fromkeys(("$", "usd", "dollar", "dollars"), "usd"),
    **dict.fromkeys(("token", "tokens"), "tokens"),
    **dict.fromkeys(("call", "calls"), "calls"),
    **dict.fromkeys(("min", "minute", "minutes"), "minutes"),
    **dict.fromkeys(("h", "hour", "hours"), "hours"),
}
_SCALES = {"": 1, "k": 1_000, "m": 1_000_000}
_PART = re.compile(
    r"^(?P<dollar>\$)?\s*(?P<number>(?:\d{1,3}(?:[, ]\d{3})+|\d+)(?:\.\d+)?(?:[eE]\d{1,2})?|\.\d+)"
    r"(?P<scale>[kKmM]?)\s*(?P<unit>[A-Za-z]*)$"
)
_BETWEEN = re.compile(r"(?<!\d),|,(?!\d{3}(?!\d))")  # not the comma of 1,000,000
_HOURS = re.compile(r"(\d+)\s*(?:h|hours?)\s*(?:and\s*)?(\d+)\s*(?:m|min|minutes?)\b", re.IGNORECASE)
_HELP = "Write '$2', '200k tokens', '500 calls', '30 minutes', or several with commas"


class AllowanceConfig(Section):
    """What one rollout inside an agent program may use, set aside before it starts: its calls are its own."""

    usd: float | None = Field(default=None, gt=0)
    """US dollars set aside for a rollout inside an agent program."""
    tokens: int | None = Field(default=None, gt=0)
    """Tokens set aside for a rollout inside an agent program."""


class BudgetConfig(Section):
    """What a run may spend; unset is unlimited. Also as text: '$2', '200k tokens', or several with commas."""

    usd: float | None = Field(default=None, gt=0)
    """US dollars."""
    tokens: int | None = Field(default=None, gt=0)
    """Input and output tokens together."""
    calls: int | None = Field(default=None, gt=0)
    """Model calls."""
    minutes: float | None = Field(default=None, gt=0)
    """Wall time over all sessions; calls under way at its end are waited for."""
    per_rollout: AllowanceConfig = AllowanceConfig()
    """Set aside for one rollout inside an agent program; unset learns from those seen."""


def parse_budget(text: str) -> BudgetConfig:
    """Read '$2', '200k tokens', '500 calls', '2 hours', or several with commas; all else is unlimited."""
    found: dict[str, Decimal] = {}
    plain = _HOURS.sub(lambda found: f"{int(found[1]) * 60 + int(found[2])} minutes", text)
    for part in _BETWEEN.split(plain):
        unit, amount = _part(part.strip())
        if unit in found:
            raise ConfigError(f"budget {text!r} names {unit} twice. {_HELP}.")
        found[unit] = amount
    limits: dict[str, Any] = {
        unit: int(amount) if unit in ("tokens", "calls") else float(amount) for unit, amount in found.items()
    }
    return BudgetConfig(**limits)


def _part(part: str) -> tuple[str, Decimal]:
    match = _PART.match(part)
    if match is None:
        raise ConfigError(f"budget: cannot read {part!r}. {_HELP}.")
    word = match["unit"].lower() or match["dollar"]
    if not word:
        raise ConfigError(f"budget: {part!r} has no unit. {_HELP}.")
    if word not in _UNITS:
        near = suggest(word, ("usd", "tokens", "calls", "minutes"))
        raise ConfigError(f"budget: {part!r} has an unknown unit. {near} {_HELP}.")
    unit = _UNITS[word]
    if match["dollar"] and unit != "usd":
        raise ConfigError(f"budget: {part!r} names two units. {_HELP}.")
    amount = Decimal(re.sub("[, ]", "", match["number"])) * _SCALES[match["scale"].lower()]
    if amount <= 0:
        raise ConfigError(f"budget: {part!r} allows nothing; leave it out for no limit.")
    if unit == "hours":
        unit, amount = "minutes", amount * 60
    if unit in ("tokens", "calls") and amount != amount.to_integral_value():
        raise ConfigError(f"budget: {part!r} is not a whole number of {unit}.")
    return unit, amount
