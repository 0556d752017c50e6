"""ENLCN in ComfyUI: its files load in "Load Upscale Model", and a node upscales without tiles.

Put this folder into ComfyUI/custom_nodes and install `enlcn` into ComfyUI's Python; see README.md.
"""

from enlcn.export.spandrel import register

from .nodes import NODE_CLASS_MAPPINGS, NODE_DISPLAY_NAME_MAPPINGS

register()

__all__ = ["NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS"]
