"""Turns scored rollouts into a few bounded edits, one file a stage, prompts as Markdown."""
