"""Our own programs as children: by this interpreter, and with nothing imported from the working directory.

`python -m` looks for modules in the working directory before anywhere else. That is somebody's project: a
file `typer.py` in it would run in place of the library. `-P` forbids it, but only from Python 3.11 on.
"""

from __future__ import annotations

import sys

_START = (
    "import sys; sys.path[:] = [path for path in sys.path if path]; sys.argv[0] = {name!r}; from {module}"
    " import main; main()"
)


def own_program(module: str = "skillopt.cli", *, name: str = "skillopt") -> list[str]:
    """The words that start `main` of a module of ours; its arguments follow them."""
    return [sys.executable, "-c", _START.format(module=module, name=name)]
