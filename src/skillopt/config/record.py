"""What is shown and kept of a configuration: values with their sources, and the identity of a run. And a run
that stands in the place of a config: which of its settings count, and what those of somebody else's run would
start or send, which a person is asked about first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, SecretStr
from pydantic_core import to_jsonable_python

from skillopt.config.connect import role_defaults
from skillopt.config.fields import file_in, is_path, nested
from skillopt.config.files import ConfigFile
from skillopt.config.keys import declared, keys_with, settings_leaves, tree
from skillopt.config.layers import DEFAULT, SET, Entries, Source
from skillopt.config.roles import ModelString, parse_model_string, provider_of, reasoning_effort
from skillopt.config.schema import Config
from skillopt.config.sections import RARE_ROLES, ROLES, RoleName
from skillopt.errors import ConfigError, UsageError
from skillopt.harnesses import harness_of
from skillopt.redact import Scrubber, looks_secret, without_password
from skillopt.runs.notes import SETTINGS, is_made_here
from skillopt.tasks.benchmark import BenchmarkPlugin

if TYPE_CHECKING:
    from skillopt.config.load import Resolved

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
        "optimizer": config.optimizer.model_dump(mode="json"),
        "evaluation": config.evaluation.model_dump(mode="json", exclude={"eval_test", "check_baseline"}),
        "gate": config.gate.model_dump(mode="json"),
        "env": {"name": config.env.name, **_benchmark_identity(config)},
        "files": config.skill.model_dump(mode="json"),
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


# A run in the place of a config

_DIVIDING = {"env.name", "evaluation.sel_env_num", "evaluation.test_env_num", "train.folds", "train.part"} | {
    "triggers.path",
    "triggers.split_ratio",
}
"""Keys beside those of a benchmark that say which tasks there are, and how they are divided."""
_OF_ANSWERS = {f"env.{name}" for name in ("scorer", "scorer_options", "pass_at", "graded")} | {
    f"env.{name}" for name in ("reference_field", "kind_field", "prompt", "system", "prompts")
}
"""Keys of a benchmark that change how its tasks are asked and scored, and not which they are."""
_OF_A_PERSON = ("flag", "cfg-options", "environment", ".env")
_LOGINS = ("auth_mode", "ad_scope", "managed_identity_client_id", "folder")
"""Options of a provider that say which login is used, or where questions are written."""


def chosen_for_run(document: ConfigFile, layer: Entries, plugin: BenchmarkPlugin | None) -> Entries:
    """A file's entries; of those that a run keeps only what somebody set: no credential or endpoint that it
    does not tell, nothing that its models set by themselves, as another model has its own, and no default of
    the benchmark, as how tasks are divided may rest on whether a setting was set.
    """
    if document.path.name != SETTINGS:
        return layer
    by_model = {
        key: value for role in (*ROLES, *RARE_ROLES) for key, value in role_defaults(role, layer).items()
    }
    defaults = {} if plugin is None else plugin.defaults
    leaves = settings_leaves(None if plugin is None else plugin.Settings)
    unset = {leaf.key: leaf.default for leaf in leaves if leaf.key not in defaults} | by_model
    return {
        key: entry
        for key, entry in layer.items()
        if entry.value != SET
        and not (entry.value is None and key.startswith("model."))
        and not (key in unset and entry.value == unset[key])
    }


def run_of(
    documents: Sequence[ConfigFile], beside: list[Entries], settings: type[BaseModel] | None
) -> Path | None:
    """The run that was named as the config, unless what was said beside it divides or changes its tasks."""
    path = documents[-1].path if documents else None
    if path is None or path.name != SETTINGS or not path.with_name("run.db").is_file():
        return None
    decisive = {*_DIVIDING, *(leaf.key for leaf in settings_leaves(settings))} - _OF_ANSWERS
    return None if any(decisive & layer.keys() for layer in beside) else path.parent


def is_of_a_stranger(path: Path) -> bool:
    """Whether a file is part of a run that was not made here; it may be a `train.yaml` in its folder."""
    is_of_a_run = path.name == SETTINGS or path.with_name("run.db").is_file()
    return is_of_a_run and not is_made_here(path.parent)


def foreign_acts(resolved: Resolved) -> str:
    """What the settings of a run that was not made here would start and where they would send, in lines;
    empty where they do neither, and where they are a person's own.
    """
    if resolved.stranger is None:
        return ""
    theirs = {key: _theirs(key, resolved) for key in resolved.provenance}
    sources = {} if resolved.targets else resolved.provenance  # a target's key is known of one alone
    each = resolved.targets or (resolved.config,)
    acts = dict.fromkeys(act for config in each for act in _acts(config, theirs, sources))
    lines = "".join(f"\n  {act}" for act in acts)
    why = "was not made on this machine, or was moved or changed since"
    return f"{resolved.stranger} {why}. Its settings would:{lines}" if acts else ""


def refuse_foreign(resolved: Resolved) -> None:
    """Raise `UsageError` where a run of somebody else would start or send anything."""
    if told := foreign_acts(resolved):
        raise UsageError(
            f"{told}\nNothing was started or sent. If you know that run and want all of this, say --force on"
            " the command line."
        )


def _theirs(key: str, resolved: Resolved) -> bool:
    keys = [key]
    # Each of several targets, perhaps with an address, is loaded as if a flag had named it.
    if resolved.config.model.targets and key in ("model.target.name", "model.target.base_url"):
        keys.append("model.targets")
    return any(resolved.provenance[one].layer not in _OF_A_PERSON for one in keys)


def _acts(config: Config, theirs: Mapping[str, bool], sources: Mapping[str, Source]) -> Iterator[str]:
    for role in (*ROLES, *RARE_ROLES):
        if getattr(config.model, role) is not None:
            yield from _of_role(config, role, theirs, sources)
    env = config.env.settings
    scorer = getattr(env, "scorer", "")
    if theirs.get("env.scorer") and (not isinstance(scorer, str) or ":" in scorer):
        yield f"score by running {scorer}"
    if theirs.get("env.sandbox") and getattr(env, "sandbox", "bubblewrap") != "bubblewrap":
        yield "run programs that the target wrote without a wall (env.sandbox)"
    if theirs["cache.path"] and config.cache.path is not None:
        yield f"write scored rows into {config.cache.path}"
    for name, settings in config.tracking.settings.items():
        for part, value in settings:
            if isinstance(value, str) and "://" in value and theirs[f"tracking.{name}.{part}"]:
                yield f"send figures to {without_password(value)} ({name})"


def _of_role(
    config: Config, role: RoleName, theirs: Mapping[str, bool], sources: Mapping[str, Source]
) -> Iterator[str]:
    settings, prefix = config.role(role), f"model.{role}"
    try:
        parts = parse_model_string(settings.name, role)
    except ConfigError:  # it is refused when the role is built
        return
    if theirs[f"{prefix}.name"]:
        yield from (f"{prefix}: {act}" for act in _of_name(parts))
    for name, value in settings.agent:
        if value is not None and name != "activation" and theirs[f"{prefix}.agent.{name}"]:
            yield f"{prefix}: let an agent program work with {name} = {value}"
    for name in _LOGINS:
        if (value := settings.options.get(name)) is not None and theirs[f"{prefix}.options.{name}"]:
            yield f"{prefix}: use {name} = {value}"
    if settings.base_url is not None and theirs[f"{prefix}.base_url"]:
        where = sources.get(f"{prefix}.api_key", DEFAULT).where or f"{parts.provider} in your environment"
        key = f"the key of {where}" if settings.api_key is not None else "no key"
        if settings.api_key is None and declared().service(parts.provider).uses_own_login:
            key = "your own login"
        yield f"{prefix}: send to {without_password(settings.base_url)} with {key}"


def _of_name(parts: ModelString) -> Iterator[str]:
    if parts.harness == "service":
        yield f"send tasks and skill to {without_password(parts.name)}"
    elif parts.is_own_agent:
        yield f"run {parts.name}"
    elif (program := declared().program_of(parts.harness, parts.provider)) is not None:
        yield f"start the agent program {program.name} with your login"
    elif (ending := declared().service(parts.provider).model_files) and parts.name.endswith(ending):
        yield f"load the model file {parts.name}"
