"""Decides what a CLI can see: folders of its own outside the run folder, and an environment with nothing of
ours in it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from skillopt.files import caches_folder, temporary_folder
from skillopt.process import minimal_env
from skillopt.programs.port import Access, AgentPlace

CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_OUTSIDE = (*CERTIFICATES, *_PROXIES, *map(str.lower, _PROXIES))
"""What it takes to reach a provider through a company's network; not passed where the provider is on this
machine.
"""
_PREFIX = "skillopt-agent-"
UNPACKED = "COPILOT_PKG_CACHE_HOME"
"""The variable that says where Copilot unpacks its 235 MB; unset, in the home of every run anew."""
_LOOPBACK = ("http://127.", "http://localhost", "http://[::1]")


@contextlib.contextmanager
def fresh_place() -> Iterator[AgentPlace]:
    """Folders for one run of a CLI, private and empty, gone afterwards."""
    with temporary_folder(_PREFIX) as root:
        place = AgentPlace(root=root, home=root / "home", workspace=root / "workspace", temp=root / "tmp")
        for folder in (place.home, place.workspace, place.temp):
            folder.mkdir()
        yield place


def environment(
    place: AgentPlace, access: Access, extra: Mapping[str, str], *, own_home: bool = False
) -> dict[str, str]:
    """The whole environment of a CLI: what a program needs to start, a home of its own, and what is passed on
    purpose.
    """
    env = minimal_env()
    if not own_home:
        env |= {"HOME": str(place.home), "TMPDIR": str(place.temp)}
        if sys.platform == "win32":
            env |= {name: str(place.home) for name in ("USERPROFILE", "APPDATA", "LOCALAPPDATA")}
            env |= {"TEMP": str(place.temp), "TMP": str(place.temp)}
    if not (access.base_url or "").startswith(_LOOPBACK):
        env |= {name: os.environ[name] for name in _OUTSIDE if name in os.environ}
    return env | dict(extra)


def unpacked() -> Path:
    """The user's folder where a CLI that unpacks itself leaves that for all its runs: asking its version does
    it, and a run behind a wall only reads it.
    """
    return caches_folder() / "programs"


def bare_env(place: AgentPlace) -> dict[str, str]:
    """An environment to ask a CLI its version in, so that even that touches nothing of the user's."""
    nobody = Access(provider="", model="", base_url=_LOOPBACK[0])
    return environment(place, nobody, {UNPACKED: str(unpacked())})
