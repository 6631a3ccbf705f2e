"""`size_capped`: strictly better, and no longer than the cap."""

from __future__ import annotations

from skillopt.gate.decision import Clause
from skillopt.gate.strict import Strict


class SizeCapped(Strict):
    """Strictly better, and no longer than the cap.

    Too long is rejected before the first rollout. A candidate shorter than the incumbent always passes: it
    brings the skill nearer.
    """

    clause: Clause = "length"

    def objection(self) -> tuple[Clause, str] | None:
        """Too long, or not better."""
        chars, cap = self.case.chars, self.case.limits.cap
        if chars <= cap or chars < self.case.incumbent_chars:
            return super().objection()
        return (
            "length",
            (
                f"too long: {chars:,} characters, at most {cap:,} are allowed (gate.max_chars); nothing was"
                " measured"
            ),
        )

    def praise(self) -> str:
        """Better, and how long it is."""
        return f"{super().praise()}, with {self.case.chars:,} characters (at most {self.case.limits.cap:,})"
