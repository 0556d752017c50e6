"""What a reproduction was, in words: how small a miniature is, and where and when its tables were measured."""

from enlcn.reproduce import paper
from enlcn.reproduce.store import Json


def describe_plan(plan: Json) -> str:
    """How the rows of a reproduction were trained, one paragraph of facts."""
    preset, data = plan["preset"], plan["data"]
    if preset["network"] is None:
        return f"The paper's protocol: {paper.TRAINING}. {plan['device']}, PyTorch {plan['torch']}."
    sentences = [
        "A miniature, not the paper's protocol.",
        f"Network: {plan['network']}, {plan['parameters'] / 1e6:.2f} M parameters (the paper: "
        f"{paper.PARAMETERS / 1e6:.2f} M).",
        f"Every run: {plan['steps']:,} steps of {preset['batch_size']} crops of {preset['crop']}x{preset['crop']}, "
        f"Adam at {preset['learning_rate']:g} falling by a cosine, contrastive loss from 15 % of the run on, "
        f"{data['training_images']:,} of {data['training_images_found']:,} photographs "
        f"({data['training_megapixels']:,} megapixels).",
        f"The paper: {paper.TRAINING}.",
        f"Seeds: {preset['seeds']} per row, {preset['sweep_seeds']} where k or m is swept, {preset['grid_seeds']} "
        f"per cell of the n1 n2 grid; {plan['runs']} runs planned, budget {plan['budget']:,.0f} s, {plan['jobs']} at a "
        "time.",
        f"Scored on {_scored(data)}.",
        f"{plan['device']}, PyTorch {plan['torch']}, enlcn {plan['enlcn']}.",
    ]
    if data["absent"]:
        sentences.insert(-1, f"Not at hand: {', '.join(data['absent'])}.")
    return " ".join(sentences)


def _scored(data: Json) -> str:
    sets = ", ".join(f"{name} ({count} images)" for name, count in data["scored"].items())
    side = data["test_crop"]
    return f"{sets}, centres of {side}x{side} LR pixels" if side else sets


def describe_result(about: Json) -> str:
    """Where and when a result was measured, and whether all its runs were there."""
    runs = ""
    if about["runs_needed"]:
        done = len(about["runs_used"])
        of = f" of {about['runs_needed']}" if done < about["runs_needed"] else ""
        runs = f" from {done}{of} trained runs"
    return f"Measured{runs} on {about['device']}, PyTorch {about['torch']}, {about['date']}."


def command_of(plan: Json) -> str:
    """The command that makes such a reproduction."""
    preset = plan["preset"]
    return (
        f"enlcn reproduce all --data DATA --out RESULTS --preset {preset['name']} --budget {plan['budget']:g} "
        f"--seeds {preset['seeds']} --sweep-seeds {preset['sweep_seeds']} --grid-seeds {preset['grid_seeds']} "
        f"--crop {preset['crop']} --batch {preset['batch_size']} --jobs {plan['jobs']}"
        + (f" --network {preset['network']}" if preset["network"] else "")
        + (f" --steps {plan['steps']}" if plan["steps_given"] else "")
    )
