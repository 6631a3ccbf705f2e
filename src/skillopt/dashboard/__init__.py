"""The dashboard: runs, nights and settings in a browser; work is started through the command line alone."""
