"""Questions that a person or another agent answers by hand, as files."""
