"""Sessions that people had with agents: where they lie, how one is read, and the harvest of all of them."""

from __future__ import annotations

from skillopt.transcripts.harvesting import harvest
from skillopt.transcripts.port import Homes, TranscriptSource

__all__ = ["Homes", "TranscriptSource", "harvest"]
