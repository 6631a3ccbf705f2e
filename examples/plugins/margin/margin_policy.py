"""Margin: a gate policy that wants a candidate to be better by at least one whole row."""

from skillopt.gate.policies import Strict


class Margin(Strict):
    """Better by a row or more; a difference that one lucky answer can make is none."""

    def objection(self):
        """Further rows only lower `upper`, so an objection stands once it is made."""
        if self.upper - self.bar < 1:
            return "score", f"better by at most {float(self.upper - self.bar):.2f} rows, and one is wanted"
        return super().objection()
