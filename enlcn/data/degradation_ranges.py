"""How noisy and how compressed inputs may be asked to be. No torch here."""

from enlcn.errors import UserError

MOST_NOISE = 255
QUALITIES = range(1, 101)


def check_noise(noise: float, name: str) -> None:
    """An error that calls it `name` where it is no deviation in grey levels."""
    if not 0 <= noise <= MOST_NOISE:
        raise UserError(f"{name} is {noise:g}; it must lie in 0 to {MOST_NOISE}, in grey levels")


def check_jpeg_quality(quality: int | None, name: str) -> None:
    """An error that calls it `name` where it is neither a quality of JPEG files nor left out."""
    if quality is not None and quality not in QUALITIES:
        raise UserError(f"{name} is {quality}; it must be a whole number from 1 to 100, or left out")
