"""The night shift: transcripts become tasks, tasks a small training run, and its result a proposal that a
person adopts.
"""
