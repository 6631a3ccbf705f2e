"""Changes of a person's files: proposed, applied with a backup, and taken back."""

from pydantic import BaseModel, ConfigDict


class StoredRecord(BaseModel):
    """What is written down of a change and read back: it does not change, and holds nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")
