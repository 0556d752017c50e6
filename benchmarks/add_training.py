"""What one network learned in its last stage, added to another: weights of BASE + (AFTER - BEFORE).

    python benchmarks/add_training.py enlcn-light-x3 --after enlcn-photo-x4 --before enlcn-light-x4 --out x3.safetensors

BASE and BEFORE must have a common past, as networks of one family have at different scales. Weights whose shapes
differ, those of the upsampler, and random matrices stay as they are in BASE. What comes out is a place to begin from
(`enlcn train --init`).
"""

import argparse
import sys
from pathlib import Path

from enlcn.checkpoint import load, save
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork


def with_training(base: SRNetwork, after: SRNetwork, before: SRNetwork) -> SRNetwork:
    """`base`, changed by what lies between the other two."""
    parameters, learned, known = (dict(network.named_parameters()) for network in (base, after, before))
    if learned.keys() != known.keys() or any(learned[name].shape != known[name].shape for name in known):
        raise UserError("--after and --before are networks of different kinds; give two stages of one")
    common = [name for name in parameters if name in known and parameters[name].shape == known[name].shape]
    if len(common) < len(parameters) / 2:
        raise UserError("BASE has little in common with --before; give networks of one family")
    for name in common:
        parameters[name].data += learned[name].data - known[name].data
    return base


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE")
    parser.add_argument("--after", required=True)
    parser.add_argument("--before", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")
    options = parser.parse_args()
    try:
        networks = [load(source) for source in (options.base, options.after, options.before)]
        save(with_training(*networks), options.out, overwrite=options.overwrite)
    except UserError as error:
        sys.exit(f"error: {error}")
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()
