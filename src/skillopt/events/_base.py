"""The common shape of everything that is written to a log: frozen, no unknown keys."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class Fact(BaseModel):
    """A frozen value of the log; a key that is not declared is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SparseFact(Fact):
    """A fact that leaves out the keys of `OPTIONAL` where they are None."""

    OPTIONAL: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = write(self)
        return {key: value for key, value in data.items() if value is not None or key not in self.OPTIONAL}
