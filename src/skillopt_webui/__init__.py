"""Pages in a browser: a run (live, report, replay), home, comparison, nights, and starting a run."""
