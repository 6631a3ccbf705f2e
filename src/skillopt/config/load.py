"""Loads a configuration: flag, --cfg-options, file, environment, .env, default, each with its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from skillopt.benchmarks import benchmarks
from skillopt.config.connect import RoleConnection, role_defaults
from skillopt.config.fields import Leaf, file_in, nested
from skillopt.config.files import read_chain, read_dotenv, resolve_path
from skillopt.config.keys import CHAT, IGNORED_VARIABLES, declared, keys_with, leaf_of, tracker_settings, tree
from skillopt.config.layers import (
    CHOSEN,
    DEFAULT,
    ConfigEntry,
    Entries,
    Layer,
    Source,
    UnknownKey,
    default_layer,
    file_layer,
    flag_layer,
    option_layer,
    validation_messages,
    variable_layer,
)
from skillopt.config.record import chosen_for_run, is_of_a_stranger, run_of
from skillopt.config.roles import in_harness, is_elsewhere, passwords_in, provider_of
from skillopt.config.schema import Config
from skillopt.config.sections import RARE_ROLES, ROLES
from skillopt.errors import ConfigError, SkillOptError, suggest
from skillopt.gate.policies import POLICIES
from skillopt.optimizer.proposers import PROPOSERS
from skillopt.redact import Scrubber, looks_secret, secret_variables
from skillopt.registry import Registry
from skillopt.tasks.benchmark import BenchmarkPlugin, usual_harness
from skillopt.train.strategies import STRATEGIES

M = TypeVar("M", bound=BaseModel)
Variables = Mapping[Layer, Mapping[str, str]]
"""The variables of the environment and of `.env`."""
_PLUGINS = {"gate.policy": POLICIES, "train.strategy": STRATEGIES, "train.proposer": PROPOSERS}
"""Keys whose value is the name of a plug-in."""


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
    """The run of somebody else whose settings these are, until a person has agreed to them
    (`record.refuse_foreign`).
    """

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
    """Read and check everything; all that is wrong is raised at once, without any credential.

    `config` is a path or a packaged name; `flags` go by flat name or dotted key; `options` are `a.b=c`.
    """
    cwd = cwd.absolute()
    variables: Variables = {".env": read_dotenv(cwd / ".env") if dotenv else {}, "environment": environ}
    documents = read_chain(config, cwd) if config is not None else []
    problems: list[str] = []
    warnings = _ignored_variables(variables)
    written = [file_layer(document, problems) for document in documents]
    # The benchmark decides which `env` keys exist, so it is known before the layers are read for good.
    naming = [*written, option_layer(options, None, []), flag_layer(flags, None, [])]
    plugin, benchmark = _benchmark(naming, registry, problems)
    settings = plugin.Settings if plugin is not None else None
    layers: list[Entries] = [
        default_layer(plugin.defaults, benchmark, problems) if plugin is not None else {},
        variable_layer(variables[".env"], ".env", problems, warnings),
        variable_layer(variables["environment"], "environment", problems, warnings),
        *(
            chosen_for_run(document, layer, plugin)
            for document, layer in zip(documents, written, strict=True)
        ),
        option_layer(options, settings, problems),
        flag_layer(flags, settings, problems),
    ]
    secrets = _secrets(layers, variables)
    unknown = UnknownKey(settings=settings, benchmark=benchmark or None, registry=registry)
    loading = _Loading(plugin, settings, unknown, cwd, problems, warnings)
    try:
        tree_of_values, provenance = loading.resolve(layers)
    except SkillOptError as error:
        raise ConfigError(Scrubber(secrets).scrub(str(error))) from None
    resolved = Resolved(
        config=tree_of_values,
        provenance=MappingProxyType(provenance),
        secrets=secrets,
        warnings=tuple(dict.fromkeys(warnings)),
        run=run_of(documents, layers[-2:], settings),
        stranger=next((each.path.parent for each in documents if is_of_a_stranger(each.path)), None),
    )
    targets = [name.strip() for name in (resolved.config.model.targets or "").split(",") if name.strip()]
    if not targets:
        return resolved
    again = partial(load, config, options=options, environ=environ, cwd=cwd, dotenv=dotenv, registry=registry)
    each = [again(flags={**flags, "target_model": name, "targets": ""}) for name in targets]
    return _together(resolved, each)


def _together(resolved: Resolved, each: Sequence[Resolved]) -> Resolved:
    """Merge the configurations of several targets: settings of the first, and the list of targets."""
    check_shared(each)
    return replace(
        resolved,
        config=each[0].config.having({"model.targets": resolved.config.model.targets}),
        provenance={**each[0].provenance, "model.targets": resolved.provenance["model.targets"]},
        secrets=tuple(dict.fromkeys(secret for target in each for secret in target.secrets)),
        warnings=tuple(dict.fromkeys(warning for target in each for warning in target.warnings)),
        targets=tuple(target.config for target in each) if len(each) > 1 else (),
    )


def check_shared(targets: Sequence[Resolved]) -> None:
    """Refuse what is one target's own and written for all of several: a key would leave its home."""
    for target in targets if len(targets) > 1 else ():
        in_name = target.provenance["model.target.name"]  # an endpoint inside the name is that target's own
        for key in ("base_url", "api_key", "price"):
            source = target.provenance.get(f"model.target.{key}")
            if source is not None and source.layer in CHOSEN and source != in_name:
                raise ConfigError(
                    f"model.target.{key} ({source}) belongs to one target, and {len(targets)} are named."
                    " Write endpoints into the targets (compatible:NAME@URL) and keep keys in the"
                    " environment, or measure this target by itself with the same --out_root: a folder adds"
                    " up."
                )


@dataclass(frozen=True, slots=True)
class _Loading:
    """From layers to one tree; what is wrong on the way is added to `problems`."""

    plugin: BenchmarkPlugin | None
    settings: type[BaseModel] | None
    unknown: UnknownKey
    cwd: Path
    problems: list[str]
    warnings: list[str]

    def resolve(self, layers: list[Entries]) -> tuple[Config, dict[str, Source]]:
        """The tree and where each value comes from; everything that is wrong is raised at once."""
        read = (self._read(entry) for entry in self._merge(layers).values())
        merged = {entry.key: entry for entry in read if entry is not None}
        self._set_what_follows(merged, layers)
        merged |= self._connected(merged)
        values = {key: entry.value for key, entry in merged.items() if key not in declared().keys}
        config = self._tree(values, merged)
        if config is None or self.problems:
            raise ConfigError("\n".join(dict.fromkeys(self.problems)))
        chosen = CHAT if self.plugin is None else usual_harness(self.plugin, config.env.settings)
        config = config.having({"model.target.name": in_harness(config.model.target.name, chosen)})
        sources = {key: entry.source for key, entry in merged.items() if key in values}
        return config, {leaf.key: DEFAULT for leaf in keys_with(self.settings)} | sources

    def _merge(self, layers: list[Entries]) -> Entries:
        """The strongest entry of each key; one of an unknown key is checked and left out."""
        merged: Entries = {}
        for entry in (entry for layer in layers for entry in layer.values()):
            key, leaf, layer = entry.key, leaf_of(entry.key, self.settings), entry.source.layer
            if leaf is None:
                self.unknown.check(entry, self.problems, self.warnings)
                continue
            if leaf.secret and layer in ("flag", "cfg-options") and entry.value:
                self.warnings.append(
                    f"{entry.written}: a key on the command line can be read by other users; put it in the"
                    " environment"
                )
            # Public files carry blanks ("azure_openai_endpoint: ''") that mean "from the environment".
            says_nothing = entry.value == "" or (entry.value is None and key in declared().keys)
            is_set = key in merged and merged[key].source.layer in ("environment", ".env")
            if not (layer == "config" and says_nothing and is_set):
                url, old = merged.get(f"{key.removesuffix('name')}base_url"), merged.get(key)
                moves = url and old and is_elsewhere(str(entry.value), str(old.value))
                if url and moves and url.source.layer == "config" != layer:
                    del merged[url.key]
                merged[key] = entry
        return merged

    def _read(self, entry: ConfigEntry) -> ConfigEntry | None:
        """The entry with its value in the type of its key. A wrong value is a problem and left out; that of a
        provider's variable is one only to a role on it.
        """
        key, leaf = entry.key, leaf_of(entry.key, self.settings)
        assert leaf is not None
        try:
            return replace(entry, value=leaf.read(self._placed(entry, leaf), is_text=entry.is_text))
        except ConfigError as error:
            problem = f"{entry}: {error}"
        except ValidationError as error:
            problem = validation_messages(error, {key: entry}, {key: leaf}.get, key)[0]
        if key in declared().keys and entry.source.layer not in CHOSEN:
            return replace(entry, problem=problem)
        self.problems.append(problem)
        return None

    def _placed(self, entry: ConfigEntry, leaf: Leaf) -> Any:
        """The value; a written path, or the file that a text names, where it points."""
        text = entry.value
        if not isinstance(text, str) or not text or (entry.is_text and leaf.is_structure(text)):
            return text
        file, rest = (text, "") if leaf.path else file_in(entry.key, text)
        if not file:
            return text
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
        if value(top) is not None and value(top) < lowest and last[top] > last.get(end, -1):
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

    def _connected(self, merged: Entries) -> Entries:
        """What the roles' settings become once their providers are known."""
        connected: Entries = {}
        named = {".".join(key.split(".")[:2]) for key, entry in merged.items() if entry.value is not None}
        for role in (*ROLES, *(role for role in RARE_ROLES if f"model.{role}" in named)):
            try:
                connection = RoleConnection(role, merged, self.cwd, self.problems, self.warnings)
                connected |= connection.connect()
            except SkillOptError as error:
                message = str(error)
                self.problems.append(message if message.startswith("model.") else f"model.{role}: {message}")
                continue
            known = {**merged, **connected}
            where = f"of {provider_of(str(known[f'model.{role}.name'].value))}"
            for key, value in role_defaults(role, known).items():
                if key in tree() and (key not in known or known[key].value is None):
                    connected[key] = ConfigEntry.by_default(key, value, where)
        return connected

    def _tree(self, values: Mapping[str, Any], merged: Entries) -> Config | None:
        """The tree of values that were read one by one, with what benchmark, providers and trackers declare.
        None where they do not fit together.
        """
        whole = nested({key: value for key, value in values.items() if key in tree()})
        for role in (*ROLES, *RARE_ROLES):
            own_role = whole.get("model", {}).get(role, {})
            # A price of which every part is unset again is no price.
            if "price" in own_role and all(part is None for part in own_role["price"].values()):
                del own_role["price"]
            if "options" in own_role:
                own_role["options"] = {
                    name: str(value) if isinstance(value, Path) else value
                    for name, value in own_role["options"].items()
                    if value is not None
                }
        tracked = {}
        for name, kind in tracker_settings().items():
            given = whole.get("tracking", {}).pop(name, None)
            if given is not None and (found := self._valid(kind, given, merged, f"tracking.{name}")):
                tracked[name] = found
        config = self._valid(Config, whole, merged)
        for key, registry in _PLUGINS.items():
            named, names = values.get(key), registry.names()
            if named is not None and named not in names:
                wrong = f"no {registry.what} named {named!r}. {suggest(named, names)}"
                self.problems.append(f"{merged[key]}: {wrong}")
        own: dict[str, Any] = {"tracking.settings": tracked}
        if self.settings is not None:
            # Its own keys, and common ones that it also reads, such as `workers`.
            fields = self.settings.model_fields
            given = {name: values[f"env.{name}"] for name in fields if f"env.{name}" in values}
            own["env.settings"] = self._valid(self.settings, given, merged, "env")
        return config and config.having(own)

    def _valid(self, model: type[M], given: Any, merged: Entries, below: str = "") -> M | None:
        try:
            return model.model_validate(given)
        except ValidationError as error:
            leaf_at = partial(leaf_of, settings=self.settings)
            self.problems.extend(validation_messages(error, merged, leaf_at, below))
            return None


def _benchmark(
    layers: list[Entries], registry: Registry, problems: list[str]
) -> tuple[BenchmarkPlugin | None, str]:
    """The benchmark that is named, and its name; its settings decide which `env` keys exist."""
    entry = next((layer["env.name"] for layer in reversed(layers) if "env.name" in layer), None)
    if entry is None or not isinstance(entry.value, str) or not entry.value:
        return None, ""
    try:
        return registry.get(entry.value), entry.value
    except SkillOptError as error:
        problems.append(f"{entry}: {error}")
        return None, entry.value


def _ignored_variables(variables: Variables) -> list[str]:
    """A warning for every variable that somebody set and that changes nothing here."""
    values = {name: value for names in variables.values() for name, value in names.items() if value}
    return [
        f"The variable {name} has no effect here: {why}."
        for name, (why, harmless) in IGNORED_VARIABLES.items()
        if name in values and values[name] not in harmless
    ]


def _secrets(layers: list[Entries], variables: Variables) -> tuple[str, ...]:
    """Every credential in reach, whether it is used or not, also under a misspelt or unsupported key."""
    secrets: list[str] = []
    for entry in (entry for layer in layers for entry in layer.values()):
        if not isinstance(entry.value, str):
            continue
        leaf = leaf_of(entry.key, None)
        if (leaf is not None and leaf.secret) or looks_secret(entry.key):
            secrets.append(entry.value)
        else:
            secrets += passwords_in(entry.value)
    tables = declared()
    of_providers = [name for name, key in tables.variables.items() if tables.keys[key].leaf.secret]
    for names in variables.values():
        secrets += [*secret_variables(names), *(names.get(name, "") for name in of_providers)]
        urls = (url for name, url in names.items() if name.endswith(("BASE_URL", "ENDPOINT")))
        secrets += [password for url in urls for password in passwords_in(url)]
    return tuple(dict.fromkeys(secret for secret in secrets if secret and secret.lower() != "none"))
