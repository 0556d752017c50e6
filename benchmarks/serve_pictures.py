"""Pictures of the studio's page for the docs, taken in the system's Chromium.

python benchmarks/serve_pictures.py --out docs/pictures
"""

import argparse
import io
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))
from serve_process import Server

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
DESKTOP = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 844}}


@contextmanager
def page(browser: Any, url: str, scheme: str, **options: Any) -> Iterator[Any]:
    """The page in a window of its own."""
    context = browser.new_context(color_scheme=scheme, **options)
    opened = context.new_page()
    opened.goto(url)
    opened.wait_for_selector("#model option", state="attached")
    yield opened
    context.close()


def shoot(opened: Any, path: Path, *, whole: bool = False) -> None:
    """Write what is seen."""
    opened.mouse.move(5, 5)
    opened.wait_for_timeout(400)
    picture = Image.open(io.BytesIO(opened.screenshot(full_page=whole))).convert("RGB")
    picture.save(path, optimize=True)
    print(f"{path}: {path.stat().st_size >> 10} KiB")


def upscale_sample(opened: Any) -> None:
    """Press "Try a photo" and wait until all is still."""
    opened.click("#sample")
    opened.wait_for_selector(".item[data-state=done]", timeout=120_000)
    opened.wait_for_selector("#divider:not([hidden])")
    opened.wait_for_selector(".toast", state="detached", timeout=20_000)


def look(opened: Any, across: float, down: float) -> None:
    """Open the explorer and click a point."""
    opened.click("#tab-attention")
    opened.wait_for_timeout(300)
    box = opened.locator("#look-canvas").bounding_box()
    opened.mouse.click(box["x"] + box["width"] * across, box["y"] + box["height"] * down)
    opened.wait_for_selector("#maps canvas", timeout=120_000)


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    arguments = parser.parse_args()
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    with Server() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=arguments.chromium, args=list(FLAGS))
        with page(browser, server.url, "light", **DESKTOP) as opened:
            upscale_sample(opened)
            opened.click("#zoom-one")
            shoot(opened, out / "studio-light.png")
            look(opened, 0.195, 0.4)
            shoot(opened, out / "studio-attention.png", whole=True)
        with page(browser, server.url, "dark", **DESKTOP) as opened:
            shoot(opened, out / "studio-empty.png")
            upscale_sample(opened)
            opened.locator("#divider").press("ArrowLeft")
            shoot(opened, out / "studio-dark.png")
        with page(browser, server.url, "light", **PHONE) as opened:
            upscale_sample(opened)
            shoot(opened, out / "studio-phone.png")


if __name__ == "__main__":
    main()
