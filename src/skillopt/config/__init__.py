"""Configuration: the schema, which the engine reads, and loading it from flags, files and variables."""
