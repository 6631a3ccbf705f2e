"""What a run keeps: the database of everything paid, the log of everything decided, the public files."""
