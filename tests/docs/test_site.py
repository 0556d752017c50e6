"""The site: it builds strictly, its links hold here and there, and no page loads anything from another host."""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

import enlcn

ROOT = Path(__file__).parents[2]
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
needs_mkdocs = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings")),
    reason="needs the docs extra: pip install 'enlcn[docs]'",
)
ELSEWHERE = re.compile(r"(?:\w+:)?//")
LOADING = ("src", "srcset", "poster", "data", "background")


class Elements(HTMLParser):
    """What a page loads, where it leads to, the names of its parts, and its words outside of code."""

    def __init__(self, path: Path):
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.names: set[str] = set()
        self.words: list[str] = []
        self.silent = 0
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        self.names |= {values[name] for name in ("id", "name") if name in values}
        self.loads += [values[name] for name in LOADING if name in values]
        self.loads += re.findall(r"url\(([^)]+)\)", values.get("style", ""))
        if tag == "link":
            self.loads.append(values["href"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        self.silent += tag in ("code", "script", "style")

    def handle_endtag(self, tag):
        self.silent -= tag in ("code", "script", "style")

    def handle_data(self, data):
        if not self.silent:
            self.words.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", out],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Elements]:
    found = {path: Elements(path) for path in site.rglob("*.html")}
    assert len(found) > 25
    return found


@needs_mkdocs
def test_nothing_comes_from_another_host(site, pages):
    for path, page in pages.items():
        assert page.loads
        assert not [each for each in page.loads if ELSEWHERE.match(each)], path
    for path in site.rglob("*.css"):
        asked = re.findall(r"(?:url\(|@import\s+)['\"]?([^'\")\s]+)", path.read_text())
        assert not [each for each in asked if ELSEWHERE.match(each)], path


def test_what_a_page_loads_is_seen(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        '<link rel="preconnect" href="https://fonts.example"><script src="//cdn.example/x.js"></script>'
        '<div style="background:url(http://a.example/b.png)"><a href="https://paper.example">a link loads nothing</a>'
        '<img src="here.png"></div>'
    )
    foreign = [each for each in Elements(page).loads if ELSEWHERE.match(each)]
    assert foreign == ["https://fonts.example", "//cdn.example/x.js", "http://a.example/b.png"]


@needs_mkdocs
def test_links_lead_somewhere(site, pages):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            target, _, part = link.partition("#")
            if re.match(r"\w+:", link) or path.name == "404.html":
                continue
            goal = (path.parent / unquote(target)).resolve() if target else path
            if goal.is_dir():
                goal = goal / "index.html"
            if not goal.is_file() or (part and goal.suffix == ".html" and unquote(part) not in pages[goal].names):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


@needs_mkdocs
def test_the_reference_is_written_from_docstrings(site, pages):
    names = {name for page in pages.values() for name in page.names}
    for public in set(enlcn.__all__) - {"__version__", "UserError"}:
        assert f"enlcn.{public}" in names
    for path, page in pages.items():
        if path.parent.name == "api":
            text = "".join(page.words)
            assert not re.search(r"\b(Args|Returns|Yields|Attributes):\s*\n\s*\w+:|>>> |^```", text, re.M), path
    reference = "".join(pages[site / "api" / "ops.html"].words)
    assert "queries and keys (B, N, D)." in reference
    assert "Parameters:" in reference


@needs_mkdocs
@pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: install it, or set CHROMIUM to its path")
def test_in_a_browser(site):
    """Scripts may load what the HTML does not show: here every request counts. The search finds something."""
    playwright_api = pytest.importorskip("playwright.sync_api", reason="needs the dev extra (playwright)")
    handler = functools.partial(QuietHandler, directory=site)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, playwright_api.sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 390, "height": 800})
        page.set_default_timeout(60_000)
        asked, wrong = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        for name in ("index.html", "cookbook.html", "performance.html", "reproduction.html", "api/networks.html"):
            page.goto(address + name, wait_until="load")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} scrolls sideways"
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.reload(wait_until="load")
            text, ground = (
                page.evaluate(f"getComputedStyle(document.querySelector('{part}')).{colour}")
                for part, colour in ((".md-copyright__highlight", "color"), (".md-footer", "backgroundColor"))
            )
            assert contrast(text, ground) >= 4.5, f"{scheme}: {text} on {ground} cannot be read"
        page.set_viewport_size({"width": 1300, "height": 900})
        page.click("input[name=query]")
        page.keyboard.type("linear_attention")
        page.wait_for_selector(".md-search-result__item a[href*='api/ops.html']")
        browser.close()
        server.shutdown()
    assert len(asked) > 20
    assert not [url for url in asked if not url.startswith((address, "data:", "blob:"))]
    assert not wrong


def contrast(text: str, ground: str) -> float:
    """The contrast ratio of WCAG 2 between CSS colours, the first one blended over the second."""
    (*over, alpha), under = ([float(v) for v in re.findall(r"[\d.]+", colour)] for colour in (text, ground))
    if "rgba" not in text:
        over, alpha = [*over, alpha], 1.0
    seen = [alpha * a + (1 - alpha) * b for a, b in zip(over, under, strict=False)]

    def luminance(colour: list[float]) -> float:
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (c / 255 for c in colour)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(seen), luminance(under)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves without a line per request."""

    def log_message(self, *args):
        pass


def repository_pages() -> list[Path]:
    return [
        path
        for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("integrations/**/*.md")]
        if path.name != "template.md"
    ]


@pytest.mark.parametrize("path", repository_pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_hold_in_the_repository(path):
    text = re.sub(r"^```.*?^```$|`[^`]+`", "", path.read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s#]+)", text):
        if not re.match(r"\w+:", target):
            assert (path.parent / target).exists(), f"{path.name} links to {target}, which is not there"
