"""Model providers, one file each in the folder `providers`, and the stack every call passes."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import date as Date  # noqa: N812 - the parameter is a date
from datetime import datetime, timezone
from functools import partial

from skillopt.agents import agent, agents
from skillopt.config.service import AnyOptions
from skillopt.models.port import Model, ModelSpec, Provider
from skillopt.money import Price, per_million
from skillopt.registry import Offer, Registry

__all__ = ["PROVIDERS", "Model", "ModelSpec", "Price", "Provider", "per_million", "price_of", "provider"]


def _logins() -> dict[str, Offer]:
    """The models behind agents' own logins."""
    told = "with a key or token or with the login that the CLI keeps itself"
    return {
        one.login: Offer(load=partial(_login, one.name), says=f"Chat through {one.title}, {told}.")
        for one in agents()
        if one.is_provider
    }


def _login(name: str) -> Provider:
    account = replace(agent(name).account, Options=AnyOptions)
    known = {each.name: getattr(account, each.name) for each in fields(account)}
    # A program says in words of its own that an answer was cut off.
    return Provider(open=partial(_agent_chat, name), fixes_cap=lambda spec: True, **known)


def _agent_chat(name: str, spec: ModelSpec) -> Model:
    from skillopt.models.agent_chat import AgentChat

    return AgentChat(spec, name)


PROVIDERS = Registry("model provider", "skillopt.models.providers", group="skillopt.models", offers=_logins)


def provider(name: str) -> Provider:
    """The declaration of a provider; a plug-in that only builds a model declares nothing further."""
    found = PROVIDERS.get(name)
    return found if isinstance(found, Provider) else Provider(open=found)


def price_of(name: str, model: str, *, base_url: str | None = None, on: Date | None = None) -> Price | None:
    """What a provider says a model costs, today or on a day; None is unknown, and is not zero."""
    if name not in PROVIDERS.names():
        return None
    return provider(name).price(model, base_url, on or datetime.now(timezone.utc).date())
