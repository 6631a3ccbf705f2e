"""Lists the licences of everything that an installation brings along, and refuses one that is not known to be
free to use. `make check` runs it; `python docs/licences.py --list` prints the list. Needs no network.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution

FREE = re.compile(
    r"\b(MIT|BSD|Apache|ISC|MPL|Mozilla Public|PSF|Python Software Foundation|Unlicense|CC0|0BSD|Zlib)\b",
    re.I,
)
_NAME = re.compile(r"[\w.-]+")


def brought(name: str) -> dict[str, Distribution]:
    """A distribution's dependencies and theirs, without extras."""
    found: dict[str, Distribution] = {}
    waiting = [name]
    while waiting:
        for line in distribution(waiting.pop()).requires or ():
            wanted, _, marker = line.partition(";")
            match = _NAME.match(wanted)
            key = re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""
            if match is None or "extra" in marker or key in found:
                continue
            try:
                found[key] = distribution(match[0])
            except PackageNotFoundError:  # for another system or another Python
                continue
            waiting.append(match[0])
    return found


def licence(of: Distribution) -> str:
    """What a distribution says of its licence: the expression, the classifiers, else the field."""
    told = of.metadata
    classified = [
        line.rpartition("::")[2].strip() for line in told.get_all("Classifier") or () if "License ::" in line
    ]
    return (
        told.get("License-Expression")
        or ", ".join(classified)
        or (told.get("License") or "unknown").split("\n")[0]
    )


def main() -> int:
    """Print what is asked for; 1 where a licence is not known to be free."""
    rows = {name: licence(one) for name, one in sorted(brought("skillopt-trainer").items())}
    refused = {name: said for name, said in rows.items() if not FREE.search(said)}
    for name, said in (rows if "--list" in sys.argv else refused).items():
        print(f"{name:<24} {said}")
    if refused:
        print(
            f"{len(refused)} licences are not known to be free. Look at them, then add them to docs/licences.py."
        )
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
