"""Where transcripts come from, one file a source. The folder is the registry."""
