"""What is shown and kept of a configuration: values with their sources, JSON without credentials, and the
identity of a run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic_core import to_jsonable_python

from skillopt.config.fields import file_in, is_path, nested
from skillopt.config.keys import keys_with, tree
from skillopt.config.layers import SET
from skillopt.config.load import Resolved
from skillopt.config.roles import provider_of, reasoning_effort
from skillopt.config.schema import Config, OptimizerConfig, SkillConfig
from skillopt.config.sections import RARE_ROLES, ROLES, RoleName
from skillopt.config.services import declared
from skillopt.harnesses import harness_of
from skillopt.redact import Scrubber, looks_secret, without_password

_RARE = re.compile(r"model\.((optimizer|target)\.(options|agent)|judge|proposer)\.")


def render(resolved: Resolved) -> list[tuple[str, Any, str]]:
    """Rows (dotted key, value as JSON, source) in the order of the tree; a credential is shown as `[set]`.

    Of the many options and agent settings of a role, and of a judge or a proposer, only what is set is shown.
    """
    scrubber, settings = Scrubber(resolved.secrets), resolved.config.env.settings
    rows = [
        (leaf.key, scrubber.scrub_json(_value(resolved, leaf.key)), str(resolved.provenance[leaf.key]))
        for leaf in keys_with(None if settings is None else type(settings))
    ]
    return [row for row in rows if row[1] is not None or not _RARE.match(row[0])]


def as_json(resolved: Resolved) -> dict[str, Any]:
    """The tree as nested JSON values, without credentials."""
    return nested({key: value for key, value, _ in render(resolved)})


def _value(resolved: Resolved, key: str) -> Any:
    value: Any = resolved.config
    section, _, rest = key.partition(".")
    tracker = rest.partition(".")[0] if section == "tracking" else ""
    if key not in tree() and section == "env":
        value = getattr(value.env.settings, rest, None)
    elif tracker in value.tracking.settings:
        value = getattr(value.tracking.settings[tracker], rest.partition(".")[2], None)
    else:
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else getattr(value, part, None)
    if value is not None and (isinstance(value, SecretStr) or looks_secret(key)):
        return SET
    if key.endswith(("base_url", "endpoint")) and isinstance(value, str):
        return without_password(value)
    return to_jsonable_python(value, fallback=str)


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
