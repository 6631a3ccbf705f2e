"""What every model call passes on its way to a provider, one concern a file."""
