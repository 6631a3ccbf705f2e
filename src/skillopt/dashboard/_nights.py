"""Where the nights of this person take place: decides, from the same settings file as the command line, what
the page Sleep may touch.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

from skillopt.changes.adoption import Adoption
from skillopt.dashboard._page import Surroundings
from skillopt.night import NightContext, NightHome, find_settings, read_settings
from skillopt.transcripts import Homes


def nights_of(around: Surroundings) -> NightContext:
    """The project of the working folder, or the one the settings name, with the person's home. Raises
    `UsageError` for bad settings.
    """
    home = Path.home()
    settings = read_settings(find_settings(home / ".skillopt-sleep"), {}).settings
    project = (settings.invoked_project or around.cwd).absolute()
    homes = Homes(home=home, env=dict(around.environ), places=settings.places())
    return NightContext(
        settings=settings,
        project=Path(os.path.realpath(project)),
        homes=homes,
        home=NightHome.of(settings, home),
    )


def adoption_of(nights: NightContext) -> Adoption:
    """Where the person decides: with the same limits as `skillopt sleep adopt`."""
    return Adoption(
        store=nights.home.store,
        roots=nights.roots(),
        now=lambda: datetime.now(timezone.utc),
        project=str(nights.project),
    )
