"""Trackers: where else the facts of a run may go. One file each; the folder is the registry."""

from __future__ import annotations

from skillopt.registry import Registry

trackers = Registry("tracker", "skillopt.trackers")
