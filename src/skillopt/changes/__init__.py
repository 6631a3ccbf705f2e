"""Changes of a person's files: proposed, applied with a backup, and taken back."""
