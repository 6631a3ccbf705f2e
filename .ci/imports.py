"""Import every module of src that is no program."""

import importlib
import pkgutil
from pathlib import Path

SRC = Path(__file__).resolve().parent.parent / "src"

names = [found.name for found in pkgutil.walk_packages([str(SRC)]) if not found.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
print(f"{len(names)} modules imported")
