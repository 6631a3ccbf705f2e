"""Trackers: where else the facts of a run may go. One file each; the folder is the registry."""

from skillopt.registry import Registry
from skillopt.trackers.port import Opening, Tracker, TrackerPlugin, TrackerSettings

__all__ = ["Opening", "Tracker", "TrackerPlugin", "TrackerSettings", "trackers"]

trackers = Registry("tracker", "skillopt.trackers")
