"""What a reproduction was, in words: how small a miniature is, and where and when its tables were measured."""

from enlcn.reproduce import paper
from enlcn.reproduce.material import BUILDINGS, HELD_OUT, SEEN
from enlcn.reproduce.store import Json

MINIATURE = "A miniature, not the paper's protocol."


def describe_plan(plan: Json) -> str:
    """How the rows of a reproduction were trained, one paragraph of facts."""
    preset, data = plan["preset"], plan["data"]
    if preset["network"] is None:
        device = f"{plan['device']}, PyTorch {plan['torch']}."
        return " ".join([f"The paper's protocol: {paper.TRAINING}.", *_kept_out(data), device])
    sentences = [
        MINIATURE,
        f"Network: {plan['network']}, {plan['parameters'] / 1e6:.2f} M parameters (the paper: "
        f"{paper.PARAMETERS / 1e6:.2f} M).",
        f"Every run: {plan['steps']:,} steps of {preset['batch_size']} crops of {preset['crop']}x{preset['crop']}, "
        f"Adam at {preset['learning_rate']:g} falling by a cosine, contrastive loss from 15 % of the run on, "
        f"{data['training_images']:,} of {data['training_images_found']:,} photographs "
        f"({data['training_megapixels']:,} megapixels).",
        *_kept_out(data),
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
    sets = ", ".join(f"{name} ({_images(count)})" for name, count in data["scored"].items())
    side = data["test_crop"]
    return f"{sets}, centres of {side}x{side} LR pixels" if side else sets


def _images(count: int) -> str:
    return f"{count} image{'' if count == 1 else 's'}"


def _kept_out(data: Json) -> list[str]:
    """What must be said where the data set sets no pictures apart."""
    if SEEN in data["scored"]:
        return ["No other pictures were at hand: rows are scored on, and figures show, the training pictures."]
    if data.get("kept_out"):
        return [f"No test set was at hand: {_images(data['kept_out'])} of the folder were kept out of training."]
    return []


def set_titles(data: Json) -> dict[str, str]:
    """Name -> name and part, of the sets that were not scored whole; `data` is a plan's."""
    titles = {}
    for name, count in data.get("scored", {}).items():
        whole = data.get("scored_of", {}).get(name, count)
        part = f"{count} of {_images(whole)}" if count < whole else _images(count)
        if data["test_crop"] is not None or name in (HELD_OUT, BUILDINGS, SEEN):  # of photographs always the centre
            titles[name] = f"{name}, centre{'' if count == 1 else 's'} of {part}"
        elif count < whole:
            titles[name] = f"{name}, {part}"
    return titles


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
    preset, names = plan["preset"], " ".join(plan.get("names", ["all"]))
    return (
        f"enlcn reproduce {names} --data DATA --out RESULTS --preset {preset['name']} --budget {plan['budget']:g} "
        f"--seeds {preset['seeds']} --sweep-seeds {preset['sweep_seeds']} --grid-seeds {preset['grid_seeds']} "
        f"--crop {preset['crop']} --batch {preset['batch_size']} --jobs {plan['jobs']}"
        + (f" --network {preset['network']}" if preset["network"] else "")
        + (f" --steps {plan['steps']}" if plan["steps_given"] else "")
    )
