"""Programs that are asked to stop: one that closes what it has open, and one that does not listen."""

POLITE = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: (open(sys.argv[1], "w").write("closed"), sys.exit(130)))
print("ready", file=sys.stderr, flush=True)
time.sleep(60)
"""
DEAF = (
    "import signal, sys, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('ready', file=sys.stderr,"
    " flush=True); time.sleep(60)"
)
