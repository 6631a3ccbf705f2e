"""The identity of a run: what of its configuration can change a result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skillopt.config.fields import file_in, is_path
from skillopt.config.model_string import provider_of
from skillopt.config.schema import Config, OptimizerConfig, SkillConfig
from skillopt.config.sections import RARE_ROLES, ROLES, Effort, RoleName
from skillopt.config.services import declared
from skillopt.harnesses import harness_of


def run_identity(config: Config, addresses: Mapping[RoleName, str] | None = None) -> dict[str, Any]:
    """What can change a result, as JSON: runs with equal identities (and skill and tasks) are one run.

    `addresses` are those of the models, by role (`ModelSpec.address`). Left out: credentials, prices,
    timeouts, concurrency, budget, outputs, and paths.
    """
    usual = OptimizerConfig()
    unset = {
        name
        for name in ("prune", "skip_unchanged_epochs")  # younger than runs whose identity must still hold
        if getattr(config.optimizer, name) == getattr(usual, name)
    }
    roles = [*ROLES, *(role for role in RARE_ROLES if getattr(config.model, role))]
    return {
        "model": {
            **{role: _role_identity(config, role, (addresses or {}).get(role)) for role in roles},
            **config.model.model_dump(
                mode="json", include={"rewrite_reasoning_effort", "rewrite_max_completion_tokens"}
            ),
        },
        "train": config.train.model_dump(mode="json", exclude={"ahead"}),
        "gradient": config.gradient.model_dump(mode="json", exclude={"analyst_workers"}),
        "optimizer": config.optimizer.model_dump(mode="json", exclude=unset),
        "evaluation": config.evaluation.model_dump(mode="json", exclude={"eval_test", "check_baseline"}),
        "gate": config.gate.model_dump(mode="json"),
        "env": {"name": config.env.name, **_benchmark_identity(config)},
        **({} if config.skill == SkillConfig() else {"files": config.skill.model_dump(mode="json")}),
        **(
            {"triggers": config.triggers.model_dump(mode="json", include={"split_ratio", "listed_as"})}
            if config.train.part == "description"
            else {}
        ),
    }


def reasoning_effort(config: Config, role: RoleName) -> Effort | None:
    """The reasoning effort of a role: its own, else that of both roles where its provider takes it."""
    own = config.role(role)
    if own.reasoning_effort or not declared().service(provider_of(own.name)).takes_common_effort:
        return own.reasoning_effort
    return config.model.reasoning_effort


def _role_identity(config: Config, role: RoleName, address: str | None) -> dict[str, Any]:
    settings = config.role(role)
    own: dict[str, Any] = {
        **settings.model_dump(
            mode="json", exclude={"base_url", "api_key", "timeout", "price", "hedge", "options", "agent"}
        ),
        "name": _without_place(settings.name),
        "reasoning_effort": reasoning_effort(config, role),
        **({"address": address} if address else {}),
    }
    service = declared().service(provider_of(settings.name))
    options = {name: value for name, value in settings.options.items() if name not in service.routing}
    agent = settings.agent.model_dump(mode="json", exclude_none=True, exclude={"path", "home"})
    return own | ({"options": options} if options else {}) | ({"agent": agent} if agent else {})


def _benchmark_identity(config: Config) -> dict[str, Any]:
    settings = config.env.settings
    if settings is None:
        return {}
    paths = {
        name
        for name, field in type(settings).model_fields.items()
        if is_path(f"env.{name}", field.annotation)
    }
    kept = settings.model_dump(mode="json", exclude=paths)
    return {name: _without_folder(f"env.{name}", value) for name, value in kept.items()}


def _without_place(name: str) -> str:
    """A model file by its own name, so that a copied folder is still the same run; a service without its
    address.
    """
    if (own := harness_of(name)) == "service":
        return own
    provider, colon, file = name.partition(":")
    ending = declared().service(provider).model_files
    return f"{provider}:{Path(file).name}" if colon and ending and file.endswith(ending) else name


def _without_folder(key: str, value: Any) -> Any:
    """A value that names a file, by the file's own name: its content is compared by the caller."""
    file, rest = file_in(key, value) if isinstance(value, str) else ("", "")
    return Path(file).name + rest if file else value
