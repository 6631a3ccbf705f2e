"""Loads a configuration: flag, --cfg-options, file, environment, .env, default, each with its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError

from skillopt.benchmarks import benchmarks
from skillopt.config.connect import RoleConnection
from skillopt.config.fields import Leaf, file_in
from skillopt.config.files import ConfigFile, read_chain, read_dotenv, resolve_path
from skillopt.config.layers import (
    CHOSEN,
    DEFAULT,
    SET,
    ConfigEntry,
    Entries,
    Layer,
    Source,
    default_layer,
    file_layer,
    flag_layer,
    leaf_of,
    option_layer,
    settings_leaves,
    tree,
    variable_layer,
)
from skillopt.config.model_string import in_harness, parse_model_string, passwords_in, provider_of
from skillopt.config.names import IGNORED_VARIABLES
from skillopt.config.schema import Config
from skillopt.config.sections import RARE_ROLES, ROLES, RoleName
from skillopt.config.services import CHAT, declared
from skillopt.config.validation import check_keys, typed, validation_messages
from skillopt.errors import ConfigError, SkillOptError
from skillopt.redact import Scrubber, looks_secret, secret_variables
from skillopt.registry import Registry
from skillopt.runs.origin import SETTINGS, is_made_here
from skillopt.tasks.benchmark import BenchmarkPlugin, ChoosesHarness

_DIVIDING = {"env.name", "evaluation.sel_env_num", "evaluation.test_env_num", "train.folds", "train.part"} | {
    "triggers.path",
    "triggers.split_ratio",
}
"""Keys beside those of a benchmark that say which tasks there are, and how they are divided."""
_OF_ANSWERS = {f"env.{name}" for name in ("scorer", "scorer_options", "pass_at", "graded")} | {
    f"env.{name}" for name in ("reference_field", "kind_field", "prompt", "system", "prompts")
}
"""Keys of a benchmark that change how its tasks are asked and scored, and not which they are."""
Variables = Mapping[Layer, Mapping[str, str]]
"""The variables of the environment and of `.env`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A configuration with the source of each value, every credential read, and what a user should know."""

    config: Config
    provenance: Mapping[str, Source]
    secrets: tuple[str, ...]
    warnings: tuple[str, ...]
    targets: tuple[Config, ...] = ()
    """The same for each of several targets; `config` is that of the first."""
    run: Path | None = None
    """The run that stands in the place of a config, unless flags or options say otherwise what its tasks are
    or how they are divided.
    """
    stranger: Path | None = None
    """The run of somebody else whose settings these are, until a person has agreed to them (`foreign`)."""

    def __repr__(self) -> str:
        return f"Resolved({len(self.provenance)} keys)"


def load(
    config: str | None,
    *,
    flags: Mapping[str, object],
    options: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    dotenv: bool = True,
    registry: Registry = benchmarks,
) -> Resolved:
    """Read and check everything; all that is wrong is said at once, without any credential.

    `config` is a path or a packaged name; `flags` go by flat name or dotted key; `options` are `a.b=c`.
    """
    cwd = cwd.absolute()
    variables: Variables = {".env": read_dotenv(cwd / ".env") if dotenv else {}, "environment": environ}
    documents = read_chain(config, cwd) if config is not None else []
    problems: list[str] = []
    warnings = _ignored_variables(variables)
    written = [file_layer(document, problems) for document in documents]
    plugin, name = _benchmark(
        [*written, option_layer(options, None, []), flag_layer(flags, None, [])], registry, problems
    )
    settings = plugin.Settings if plugin is not None else None
    layers: list[Entries] = [
        default_layer(plugin.defaults, name or "", problems) if plugin is not None else {},
        variable_layer(variables[".env"], ".env", problems, warnings),
        variable_layer(variables["environment"], "environment", problems, warnings),
        *(_as_written(document, layer, plugin) for document, layer in zip(documents, written, strict=True)),
        option_layer(options, settings, problems),
        flag_layer(flags, settings, problems),
    ]
    secrets = _secrets(layers, variables)
    try:
        loading = _Loading(plugin, name, registry, cwd, problems, warnings)
        config_tree, provenance = loading.resolve(layers)
    except SkillOptError as error:
        raise ConfigError(Scrubber(secrets).scrub(str(error))) from None
    found = Resolved(
        config=config_tree,
        provenance=MappingProxyType(provenance),
        secrets=secrets,
        warnings=tuple(dict.fromkeys(warnings)),
        run=_run(documents, layers[-2:], settings),
        stranger=next((one.path.parent for one in documents if _is_of_a_stranger(one.path)), None),
    )
    names = [name.strip() for name in (config_tree.model.targets or "").split(",") if name.strip()]
    if not names:
        return found
    again = partial(load, config, options=options, environ=environ, cwd=cwd, dotenv=dotenv, registry=registry)
    each = [again(flags={**flags, "target_model": name, "targets": ""}) for name in names]
    return _together(found, each)


def _as_written(document: ConfigFile, layer: Entries, plugin: BenchmarkPlugin | None) -> Entries:
    """A file's entries; of those that a run keeps only what somebody set: no credential or endpoint that it
    does not tell, nothing that its models set by themselves, as another model has its own, and no default of
    the benchmark, as how tasks are divided may rest on whether a setting was set.
    """
    if document.path.name != SETTINGS:
        return layer
    by_model = {
        key: value for role in (*ROLES, *RARE_ROLES) for key, value in _role_defaults(role, layer).items()
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


def _role_defaults(role: RoleName, entries: Mapping[str, ConfigEntry]) -> dict[str, Any]:
    """What the provider of a role sets where nobody does, by key; nothing where no model is named."""
    prefix, section = f"model.{role}.", f"model.{role}.options."
    try:
        parts = parse_model_string(str(entries[f"{prefix}name"].value), role)
    except (KeyError, ConfigError):
        return {}
    options = {
        key.removeprefix(section): one.value for key, one in entries.items() if key.startswith(section)
    }
    filled = declared().service(parts.provider).role_defaults(parts.name, options)
    return {f"{prefix}{part}": value for part, value in filled.items()}


def _run(
    documents: Sequence[ConfigFile], said: list[Entries], settings: type[BaseModel] | None
) -> Path | None:
    """The run that was named as the config, unless what was said beside it divides or changes its tasks."""
    path = documents[-1].path if documents else None
    if path is None or path.name != SETTINGS or not path.with_name("run.db").is_file():
        return None
    decisive = {*_DIVIDING, *(leaf.key for leaf in settings_leaves(settings))} - _OF_ANSWERS
    return None if any(decisive & layer.keys() for layer in said) else path.parent


def _is_of_a_stranger(path: Path) -> bool:
    """Whether a file is part of a run that was not made here; it may be a `train.yaml` in its folder."""
    is_of_a_run = path.name == SETTINGS or path.with_name("run.db").is_file()
    return is_of_a_run and not is_made_here(path.parent)


def _together(asked: Resolved, found: Sequence[Resolved]) -> Resolved:
    """One configuration of several targets, which is that of the first beside their list."""
    check_shared(found)
    return replace(
        asked,
        config=found[0].config.having({"model.targets": asked.config.model.targets}),
        provenance={**found[0].provenance, "model.targets": asked.provenance["model.targets"]},
        secrets=tuple(dict.fromkeys(secret for one in found for secret in one.secrets)),
        warnings=tuple(dict.fromkeys(told for one in found for told in one.warnings)),
        targets=tuple(one.config for one in found) if len(found) > 1 else (),
    )


def check_shared(found: Sequence[Resolved]) -> None:
    """Refuse what is one target's own and written for all of several: a key would leave its home."""
    for one in found if len(found) > 1 else ():
        in_name = one.provenance["model.target.name"]  # an endpoint inside the name is that target's own
        for key in ("base_url", "api_key", "price"):
            source = one.provenance.get(f"model.target.{key}")
            if source is not None and source.layer in CHOSEN and source != in_name:
                raise ConfigError(
                    f"model.target.{key} ({source}) belongs to one target, and {len(found)} are named. Write"
                    " endpoints into the targets (compatible:NAME@URL) and keep keys in the environment, or"
                    " measure this target by itself with the same --out_root: a folder adds up."
                )


@dataclass(frozen=True, slots=True)
class _Loading:
    """What the steps from layers to one tree need in common."""

    plugin: BenchmarkPlugin | None
    benchmark: str | None
    registry: Registry
    cwd: Path
    problems: list[str]
    warnings: list[str]

    @property
    def settings(self) -> type[BaseModel] | None:
        return None if self.plugin is None else self.plugin.Settings

    def resolve(self, layers: list[Entries]) -> tuple[Config, dict[str, Source]]:
        """The tree and where each value comes from; everything that is wrong is raised at once."""
        problems, settings = self.problems, self.settings
        every = [entry for layer in layers for entry in layer.values()]
        self.warnings.extend(check_keys(every, settings, self.benchmark, self.registry, problems))
        merged = self._read(_merge(layers))
        self._set_what_follows(merged, layers)
        merged |= self._connected(merged)
        values = {key: entry.value for key, entry in merged.items() if key not in declared().keys}
        config = typed(values, merged, settings, problems)
        if config is None or problems:
            raise ConfigError("\n".join(dict.fromkeys(problems)))
        chosen = self.plugin.harness(config.env.settings) if isinstance(self.plugin, ChoosesHarness) else CHAT
        config = config.having({"model.target.name": in_harness(config.model.target.name, chosen)})
        own = [leaf.key for leaf in settings_leaves(settings)]
        found = {key: entry.source for key, entry in merged.items() if key in values}
        return config, dict.fromkeys([*tree(), *own], DEFAULT) | found

    def _read(self, entries: Mapping[str, ConfigEntry]) -> Entries:
        """Known entries with values in the types of their keys; a wrong value is a problem and left out."""
        found = {}
        for key, entry in entries.items():
            leaf = leaf_of(key, self.settings)
            if leaf is None:
                continue
            try:
                found[key] = replace(entry, value=leaf.read(self._placed(entry, leaf), is_text=entry.is_text))
            except ConfigError as error:
                self.problems.append(f"{entry}: {error}")
            except ValidationError as error:
                if key in declared().keys and entry.source.layer not in CHOSEN:
                    found[key] = entry  # a variable of a provider that nobody uses stops nobody
                else:
                    self.problems.append(validation_messages(error, {key: entry}, {key: leaf}.get, key)[0])
        return found

    def _placed(self, entry: ConfigEntry, leaf: Leaf) -> Any:
        """The value; a written path, or the file that a text names, where it points."""
        if (
            not isinstance(entry.value, str)
            or not entry.value
            or (entry.is_text and leaf.is_list(entry.value))
        ):
            return entry.value
        file, rest = (entry.value, "") if leaf.path else file_in(entry.key, entry.value)
        if not file:
            return entry.value
        path = resolve_path(file, folder=entry.folder, cwd=self.cwd, output=leaf.writes)
        return path if Path in leaf.options else f"{path}{rest}"

    def _set_what_follows(self, merged: Entries, layers: list[Entries]) -> None:
        """Set what the values of other keys leave no choice about."""

        def value(key: str) -> Any:
            return merged[key].value if key in merged else None

        # A limit below the end of its schedule moves that end, unless the end was written as strongly.
        top, end = "optimizer.learning_rate", "optimizer.min_learning_rate"
        last = {key: number for number, layer in enumerate(layers) for key in layer}
        lowest = value(end) or tree()[end].default
        if type(value(top)) is int and 1 <= value(top) < lowest and last[top] > last.get(end, -1):
            merged[end] = ConfigEntry.by_default(end, value(top), f"not above {top}")
        mode, control = "full_rewrite_minibatch", "optimizer.lr_control_mode"
        if value("optimizer.skill_update_mode") == mode and value(control) != "none":
            merged[control] = ConfigEntry.by_default(control, "none", f"under {mode}")
            self.warnings.append(f"{control} is none: under {mode} there is no number of edits to limit")
        # Only the simulated optimizer learns for a simulated target; it is meant where none is named.
        optimizer = "model.optimizer.name"
        named = any(key in merged for key in (optimizer, "model.optimizer_backend", "model.backend"))
        provider = provider_of(value("model.target.name") or "")
        if not named and declared().service(provider).simulates_both:
            merged[optimizer] = ConfigEntry.by_default(optimizer, provider, "as the target is simulated")

    def _connected(self, merged: Mapping[str, ConfigEntry]) -> Entries:
        """What the roles' settings become once their providers are known."""
        found: Entries = {}
        named = {".".join(key.split(".")[:2]) for key, entry in merged.items() if entry.value is not None}
        for role in (*ROLES, *(role for role in RARE_ROLES if f"model.{role}" in named)):
            try:
                role_entries = RoleConnection(role=role, entries=merged, cwd=self.cwd, warnings=self.warnings)
                found |= role_entries.connect()
            except SkillOptError as error:
                message = str(error)
                self.problems.append(message if message.startswith("model.") else f"model.{role}: {message}")
                continue
            known = {**merged, **found}
            where = f"of {provider_of(str(known[f'model.{role}.name'].value))}"
            for key, value in _role_defaults(role, known).items():
                if key in tree() and (key not in known or known[key].value is None):
                    found[key] = ConfigEntry.by_default(key, value, where)
        return found


def _benchmark(
    layers: list[Entries], registry: Registry, problems: list[str]
) -> tuple[BenchmarkPlugin | None, str | None]:
    """The benchmark that is named, and its name; its settings decide which `env` keys exist."""
    entry = _merge(layers).get("env.name")
    if entry is None or not isinstance(entry.value, str) or not entry.value:
        return None, None
    try:
        return registry.get(entry.value), entry.value
    except SkillOptError as error:
        problems.append(f"{entry}: {error}")
        return None, entry.value


def _merge(layers: list[Entries]) -> Entries:
    merged: Entries = {}
    for layer in layers:
        for key, entry in layer.items():
            below = merged.get(key)
            # Public files carry blanks ("azure_openai_endpoint: ''") that mean "from the environment".
            blank = entry.value == "" or (entry.value is None and key in declared().keys)
            is_set = below is not None and below.source.layer in ("environment", ".env")
            if not (blank and entry.source.layer == "config" and is_set):
                merged[key] = entry
    return merged


def _ignored_variables(variables: Variables) -> list[str]:
    """A warning for every variable that somebody set and that changes nothing here."""
    given = {name: value for names in variables.values() for name, value in names.items() if value}
    return [
        f"The variable {name} has no effect here: {why}."
        for name, (why, harmless) in IGNORED_VARIABLES.items()
        if name in given and given[name] not in harmless
    ]


def _secrets(layers: list[Entries], variables: Variables) -> tuple[str, ...]:
    """Every credential in reach, whether it is used or not, also under a misspelt or unsupported key."""
    found: list[str] = []
    for entry in (entry for layer in layers for entry in layer.values()):
        if not isinstance(entry.value, str):
            continue
        leaf = leaf_of(entry.key, None)
        if (leaf is not None and leaf.secret) or looks_secret(entry.key):
            found.append(entry.value)
        else:
            found += passwords_in(entry.value)
    tables = declared()
    secret = [name for name, key in tables.variables.items() if tables.keys[key].leaf.secret]
    for names in variables.values():
        found += [*secret_variables(names), *(names.get(name, "") for name in secret)]
        urls = (url for name, url in names.items() if name.endswith(("BASE_URL", "ENDPOINT")))
        found += [password for url in urls for password in passwords_in(url)]
    return tuple(dict.fromkeys(secret for secret in found if secret and secret.lower() != "none"))
