"""State dicts in the authors' layout, written down from the description of their files, not from our code."""

import torch


def authors_state(scale=4, channels=16, num_blocks=8, every=4, features=24, width=4, attention="enlca"):
    """Random weights under the authors' keys: an attention first, then one after each `every` blocks."""

    def conv(name, c_in, c_out, size=3):
        state[f"{name}.weight"] = torch.randn(c_out, c_in, size, size)
        state[f"{name}.bias"] = torch.randn(c_out)

    state: dict[str, torch.Tensor] = {}
    mean = torch.tensor([0.4488, 0.4371, 0.4040])
    for name, sign in (("sub_mean", -1), ("add_mean", 1)):
        state[f"{name}.weight"] = torch.eye(3).view(3, 3, 1, 1)
        state[f"{name}.bias"] = sign * mean
    conv("head.0", 3, channels)
    index = 0

    def put_attention():
        nonlocal index
        if attention == "enlca":
            conv(f"body.{index}.conv_match1.0", channels, width, 1)
            conv(f"body.{index}.conv_match2.0", channels, width, 1)
            conv(f"body.{index}.conv_assembly.0", channels, channels, 1)
            state[f"body.{index}.attn_fn.projection_matrix"] = torch.randn(features, width)
        elif attention == "nlsa":
            conv(f"body.{index}.conv_match.0", channels, width, 3)
            conv(f"body.{index}.conv_assembly.0", channels, channels, 1)
        else:
            return
        index += 1

    put_attention()
    for block in range(num_blocks):
        conv(f"body.{index}.body.0", channels, channels)
        conv(f"body.{index}.body.2", channels, channels)
        index += 1
        if (block + 1) % every == 0:
            put_attention()
    conv(f"body.{index}", channels, channels)
    if scale == 4:
        conv("tail.0.0", channels, 4 * channels)
        conv("tail.0.2", channels, 4 * channels)
    else:
        conv("tail.0.0", channels, scale**2 * channels)
    conv("tail.1", channels, 3)
    return state
