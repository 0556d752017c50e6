"""The studio: an HTTP API over the upscaler, and the page that uses it. Needs the `serve` extra."""

from enlcn.serve.config import ServeConfig

__all__ = ["ServeConfig"]
