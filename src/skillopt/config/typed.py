"""Values by dotted key become the typed tree, each part checked by whoever declares it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from skillopt.config import complain
from skillopt.config.fields import nested
from skillopt.config.layers import tracker_settings, tree
from skillopt.config.model_string import provider_of
from skillopt.config.schema import Config
from skillopt.config.sections import RARE_ROLES, ROLES
from skillopt.config.services import declared
from skillopt.config.source import ConfigEntry
from skillopt.errors import suggest
from skillopt.gate.policies import POLICIES
from skillopt.optimizer.proposers import PROPOSERS
from skillopt.train.strategies import STRATEGIES

_PLUGINS = {"gate.policy": POLICIES, "train.strategy": STRATEGIES, "train.proposer": PROPOSERS}
"""Keys whose value is the name of a plug-in."""


def typed(
    values: Mapping[str, Any],
    merged: Mapping[str, ConfigEntry],
    settings: type[BaseModel] | None,
    problems: list[str],
) -> Config | None:
    """The tree of these values, with what benchmark, providers and trackers declare in it. What is wrong is
    added to `problems`; None where there is no tree.
    """
    whole = nested({key: value for key, value in values.items() if key in tree()})
    for role in (*ROLES, *RARE_ROLES):
        own_role = whole.get("model", {}).get(role, {})
        # A price of which every part is unset again is no price.
        if "price" in own_role and all(part is None for part in own_role["price"].values()):
            del own_role["price"]
        if "options" in own_role:
            own_role["options"] = _declared_options(f"model.{role}.options", own_role, merged, problems)
    tracking = whole.get("tracking", {})
    trackers = {name: tracking.pop(name) for name in tracker_settings() if name in tracking}
    config: Config | None = None
    own: BaseModel | None = None
    try:
        config = Config.model_validate(whole)
    except ValidationError as error:
        problems += complain.about(error, merged)
    made_settings = _tracker_models(trackers, merged, problems)
    if config is not None and made_settings:
        config = config.having({"tracking.settings": made_settings})
    for key, registry in _PLUGINS.items():
        name, names = values.get(key), registry.names()
        if isinstance(name, str) and name not in names:
            problems.append(f"{merged[key]}: no {registry.what} named {name!r}. {suggest(name, names)}")
    if settings is not None:
        mine = {key.removeprefix("env."): value for key, value in values.items() if key not in tree()}
        try:
            # A benchmark may also read a common key such as `workers`.
            shared = {key: values[f"env.{key}"] for key in settings.model_fields if f"env.{key}" in values}
            own = settings.model_validate({**mine, **shared})
        except ValidationError as error:
            problems += complain.about(error, merged, settings, below="env")
    return config if config is None or own is None else config.having({"env.settings": own})


def _declared_options(
    section: str, role: Mapping[str, Any], merged: Mapping[str, ConfigEntry], problems: list[str]
) -> dict[str, Any]:
    """The options that are set, as the role's provider declares them; paths as text."""
    given = {name: value for name, value in role["options"].items() if value is not None}
    model = declared().service(provider_of(str(role.get("name", "")))).Options
    try:
        made = model.model_validate(given)
    except ValidationError as error:
        problems += complain.about(error, merged, below=section)
        return {}
    return {name: str(value) if isinstance(value := getattr(made, name), Path) else value for name in given}


def _tracker_models(
    given: Mapping[str, Mapping[str, Any]], merged: Mapping[str, ConfigEntry], problems: list[str]
) -> dict[str, BaseModel]:
    made: dict[str, BaseModel] = {}
    for name, values in given.items():
        try:
            made[name] = tracker_settings()[name].model_validate(dict(values))
        except ValidationError as error:
            problems += complain.about(error, merged, below=f"tracking.{name}")
    return made
