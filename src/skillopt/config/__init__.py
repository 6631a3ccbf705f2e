"""Configuration: YAML with inheritance and the public key names, typed, with the source of every value."""

from __future__ import annotations

from skillopt.config.files import packaged_names
from skillopt.config.foreign import foreign_acts, refuse_foreign
from skillopt.config.load import Resolved, load
from skillopt.config.model_string import ModelString, parse_model_string
from skillopt.config.names import FLAT
from skillopt.config.roles import RoleSpec, resolve_role
from skillopt.config.schema import Config
from skillopt.config.sections import BudgetConfig, PriceConfig, RoleConfig, parse_budget
from skillopt.config.show import Flag, as_json, describe, flags, render
from skillopt.config.source import Source

__all__ = [
    "FLAT",
    "BudgetConfig",
    "Config",
    "Flag",
    "ModelString",
    "PriceConfig",
    "Resolved",
    "RoleConfig",
    "RoleSpec",
    "Source",
    "as_json",
    "describe",
    "flags",
    "foreign_acts",
    "load",
    "packaged_names",
    "parse_budget",
    "parse_model_string",
    "refuse_foreign",
    "render",
    "resolve_role",
]
