"""The cache folder: for weights that were fetched, graphs that were exported and training images that were decoded."""

import os
import sys
from pathlib import Path

CACHE_VARIABLE = "ENLCN_CACHE"


def cache_folder() -> Path:
    """What ENLCN_CACHE names, else the platform's place for such files."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "enlcn" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "enlcn"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "enlcn"
