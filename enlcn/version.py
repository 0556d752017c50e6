"""The version, read from the installed package so that it is written in one place (pyproject.toml)."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("enlcn")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+source"
