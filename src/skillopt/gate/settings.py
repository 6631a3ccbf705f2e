"""How the gate decides, as the configuration says it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skillopt.events.state import Metric
from skillopt.gate.constraints import Constraints, Unknown
from skillopt.gate.decision import GateLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings(GateLimits):
    """How the gate decides, by the names of the configuration (sections `evaluation` and `gate`)."""

    gate_metric: Metric | None = None
    """None is settled by the baseline's rows."""
    gate_mixed_weight: float = 0.5
    use_gate: bool = True
    policy: str = "strict"
    max_tokens_increase: float | None = None
    max_latency_increase: float | None = None
    unknown_effort: Unknown = "reject"
    check_baseline: bool = True
    compared_targets: int = 1
    """Targets of which none may get worse; 1 where only their mean counts."""
    rule: Callable[[str], str] | None = None
    """Says why a text may be no candidate at all, or nothing."""

    @property
    def ruling_policy(self) -> str:
        """The policy whose ruling is told: while the gate is off, what `strict` would have done."""
        return self.policy if self.use_gate else "strict"

    @property
    def constraints(self) -> Constraints:
        """What a better candidate may take more than the incumbent; while the gate is off, anything."""
        if not self.use_gate:
            return Constraints()
        return Constraints(
            tokens=self.max_tokens_increase,
            latency=self.max_latency_increase,
            unknown=self.unknown_effort,
            targets=self.compared_targets,
        )
