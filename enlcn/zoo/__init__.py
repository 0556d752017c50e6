"""Trained weights by name: what is shipped, where it lies, and which is taken where none is named. No torch here.

`manifest` is what is known of a model, `registry` which there are, `locate` leads from a name, address or path to a
checked file, `choose` from a scale to a name; `remote`, `download` and `cache` bring files here and keep them.
"""

from enlcn.zoo.choose import (
    DEFAULT_FAMILY,
    UNTRAINED_PREFIX,
    beyond_advice,
    is_path,
    native_scale,
    refuse_absent_model,
    refuse_scale,
    refuse_unknown,
    resolve,
    trained_scale,
)
from enlcn.zoo.compressed import PHOTO_FAMILY, photo_family_helps
from enlcn.zoo.locate import fetch_remote, is_remote, locate
from enlcn.zoo.registry import bundled, here, known

__all__ = [
    "DEFAULT_FAMILY",
    "PHOTO_FAMILY",
    "UNTRAINED_PREFIX",
    "beyond_advice",
    "bundled",
    "fetch_remote",
    "here",
    "is_path",
    "is_remote",
    "known",
    "locate",
    "native_scale",
    "photo_family_helps",
    "refuse_absent_model",
    "refuse_scale",
    "refuse_unknown",
    "resolve",
    "trained_scale",
]
