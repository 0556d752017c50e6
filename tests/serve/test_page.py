"""The page in a real browser: the system's Chromium, driven by Playwright."""

import base64
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from enlcn.data.image import Image
from enlcn.data.image_io import encode_image, load_image

from .conftest import PALACE, Server

playwright_api = pytest.importorskip("playwright.sync_api", reason="needs the dev extra (playwright)")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: install it, or set CHROMIUM to its path")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
LONG = 60_000  # milliseconds that a busy machine may need


@pytest.fixture(scope="module")
def studio():
    started = Server(model="enlcn-light")
    yield started
    started.close()


@pytest.fixture(scope="module")
def browser():
    with playwright_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser, studio, request):
    options = getattr(request, "param", {})
    context = browser.new_context(accept_downloads=True, **options)
    opened = context.new_page()
    wrong, hosts = [], set()
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    opened.on("request", lambda asked: hosts.add(asked.url.split("/")[2] if "//" in asked.url else ""))
    opened.goto(studio.url)
    opened.wait_for_selector("#model option", state="attached")
    yield opened
    opened.wait_for_timeout(50)
    expected = getattr(request.node, "expected_errors", ())
    assert [text for text in wrong if not any(part in text for part in expected)] == []
    assert hosts - {""} == {studio.url.removeprefix("http://")}, "the page asked another host"
    context.close()


@pytest.fixture(scope="module")
def photo_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("photos") / "corner.png"
    path.write_bytes(encode_image(Image(load_image(PALACE).pixels[60:120, 40:130]), "png"))
    return path


def pixels_of(page, selector):
    """What a canvas shows, as (H, W, 4)."""
    address = page.eval_on_selector(selector, "canvas => canvas.toDataURL('image/png')")
    return load_image(base64.b64decode(address.partition(",")[2])).planes()


def test_upload_progress_slider_download(page, photo_file, tmp_path):
    # Every state that the queue shows is recorded, so that a fast machine cannot hide the progress.
    page.evaluate(
        """() => { window.seen = []; new MutationObserver(() => {
            const row = document.querySelector(".item"); if (!row) return;
            const words = row.querySelector(".item-state").textContent;
            window.seen.push([row.dataset.state, row.querySelector("progress").value, words]);
        }).observe(document.getElementById("queue"),
            { subtree: true, childList: true, attributes: true, characterData: true }); }"""
    )
    page.set_input_files("#files", photo_file)
    page.wait_for_selector(".item[data-state=done]", timeout=LONG)
    seen = page.evaluate("() => window.seen")
    fractions = [value for state, value, _ in seen if state == "running"]
    assert fractions == sorted(fractions)
    assert len(set(fractions)) > 3, "progress moved in steps"
    assert any("block" in text or "attention" in text for _, _, text in seen)
    assert page.locator(".item .thumb canvas").count() == 1

    # Before left of the divider, after right of it, both in the same place.
    page.wait_for_selector("#divider:not([hidden])")
    page.locator("#zoom-one").click()
    divider = page.locator("#divider")
    shown = {}
    for key, name in (("End", "before"), ("Home", "after")):
        divider.press(key)
        page.wait_for_timeout(150)
        shown[name] = pixels_of(page, "#canvas")
    assert divider.get_attribute("aria-valuenow") == "0"
    height, width = shown["after"].shape[:2]
    from_cli = tmp_path / "cli.png"
    subprocess.run(
        [sys.executable, "-m", "enlcn", "upscale", str(photo_file), "-o", str(from_cli), "--device", "cpu"],
        check=True,
        capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    result = load_image(from_cli).pixels  # (240, 360, 3)
    top, left = round(height / 2 - 120), round(width / 2 - 180)
    on_screen = shown["after"][top : top + 240, left : left + 360, :3]
    assert np.abs(on_screen.astype(int) - result).max() <= 1, "1 : 1 shows the result pixel by pixel"
    assert (shown["before"] != shown["after"]).any(axis=2).mean() > 0.02

    with page.expect_download() as download:
        page.locator("#save").click()
    assert download.value.suggested_filename == "corner_x4.png"
    saved = tmp_path / "saved.png"
    download.value.save_as(saved)
    assert saved.read_bytes() == from_cli.read_bytes(), "the download equals `enlcn upscale` byte for byte"


def test_divider_and_pan_follow_the_pointer(page, photo_file):
    page.set_input_files("#files", photo_file)
    page.wait_for_selector(".item[data-state=done]", timeout=LONG)
    page.wait_for_selector("#divider:not([hidden])")
    box = page.locator("#viewer").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4, middle)
    page.mouse.up()
    assert page.locator("#divider").get_attribute("aria-valuenow") == "25"
    page.locator("#zoom-one").click()
    page.wait_for_timeout(100)
    before = pixels_of(page, "#canvas")
    page.mouse.move(box["x"] + box["width"] * 0.6, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6 + 30, middle + 20)
    page.mouse.up()
    page.wait_for_timeout(100)
    after = pixels_of(page, "#canvas")
    right = before.shape[1] // 2
    assert np.array_equal(after[20:, right + 30 :], before[:-20, right:-30]), "panned by exactly 30 and 20 pixels"
    page.mouse.wheel(0, -400)
    page.wait_for_timeout(100)
    assert page.locator("#zoom").inner_text() != "100 %"
    page.locator("#canvas").press("0")


def test_click_draws_attention_maps(page, photo_file):
    page.set_input_files("#files", photo_file)
    page.locator("#tab-attention").click()
    photo = page.locator("#look-canvas")
    box = photo.bounding_box()
    photo.click(position={"x": box["width"] * 0.25, "y": box["height"] * 0.75})
    page.wait_for_selector("#maps canvas", timeout=LONG)
    assert page.locator("#maps h3").count() == 3
    assert page.locator("#maps canvas").count() == 12
    facts = page.locator("#look-facts").inner_text()
    assert "k = 6" in facts
    assert "m = 128" in facts
    assert "with contrastive loss" in facts
    style = page.locator("#maps .point").first.evaluate(
        "dot => [parseFloat(dot.style.left), parseFloat(dot.style.top)]"
    )
    assert style == pytest.approx([25, 75], abs=2)
    drawn = pixels_of(page, "#maps canvas")
    assert drawn.shape == (60, 90, 4)
    assert drawn[..., :3].std() > 5
    captions = page.locator("#maps figcaption").all_inner_texts()
    for name in ("ENLCA", "Exact non-local", "Hashed", "Criss-cross"):
        assert sum(name in caption for caption in captions) == 3

    error = page.locator("#lab-error")
    first = error.inner_text()
    assert first.endswith("%")
    page.locator("#lab-m").fill("11")
    page.locator("#lab-k").fill("1")
    playwright_api.expect(error).not_to_have_text(first, timeout=LONG)
    playwright_api.expect(page.locator("#lab")).to_have_attribute("aria-busy", "false", timeout=LONG)
    assert float(error.inner_text().split()[0]) < float(first.split()[0])  # k = 1 and 2048 features: nearly exact


def test_an_error_is_shown_for_what_is_no_picture(page, request, tmp_path):
    request.node.expected_errors = ("415",)
    path = tmp_path / "letter.png"
    path.write_text("Dear reader, this is no picture.")
    page.set_input_files("#files", path)
    page.wait_for_selector(".item[data-state=failed]", timeout=LONG)
    alert = page.locator("#failed")
    assert alert.is_visible()
    assert alert.get_attribute("role") == "alert"
    assert "Not a picture" in alert.inner_text()
    assert page.locator("#save").is_disabled()


def test_paste_drop_several_and_cancel(page, photo_file):
    data = list(Path(photo_file).read_bytes())
    page.evaluate(
        """data => {
            const files = new DataTransfer();
            const make = name => new File([new Uint8Array(data)], name, {type: "image/png"});
            for (const name of ["one.png", "two.png", "three.png"]) files.items.add(make(name));
            document.body.dispatchEvent(new DragEvent("dragenter", {dataTransfer: files, bubbles: true}));
            window.wasDragging = document.body.classList.contains("dragging");
            document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: files, bubbles: true, cancelable: true}));
            const pasted = new DataTransfer();
            pasted.items.add(make("pasted.png"));
            window.dispatchEvent(new ClipboardEvent("paste", {clipboardData: pasted}));
        }""",
        data,
    )
    assert page.evaluate("() => window.wasDragging")
    assert not page.evaluate("() => document.body.classList.contains('dragging')")
    assert page.locator(".item").count() == 4
    page.get_by_label("Cancel pasted.png").click()
    page.wait_for_selector(".item[data-state=cancelled]")
    page.get_by_label("Remove pasted.png").click()
    assert page.locator(".item").count() == 3
    for place in range(3):
        page.wait_for_selector(f".item[data-state=done] >> nth={place}", timeout=LONG)
    assert page.locator("#save-all").is_visible()


@pytest.mark.parametrize("page", [{"viewport": {"width": 390, "height": 844}, "has_touch": True}], indirect=True)
def test_works_on_a_phone(page, photo_file):
    def has_no_sideways_scroll():
        return page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")

    assert has_no_sideways_scroll()
    page.set_input_files("#files", photo_file)
    page.wait_for_selector(".item[data-state=done]", timeout=LONG)
    page.wait_for_selector("#divider:not([hidden])")
    assert has_no_sideways_scroll()
    page.locator("#tab-attention").tap()
    page.locator("#look-canvas").tap()
    page.wait_for_selector("#maps canvas", timeout=LONG)
    assert has_no_sideways_scroll()
    small = page.evaluate(
        """() => [...document.querySelectorAll("button, select")]
            .filter(e => e.offsetParent && !e.matches(".visually-hidden, .skip"))
            .filter(e => e.getBoundingClientRect().height < 32).map(e => e.id || e.className)"""
    )
    assert small == [], "large enough for a finger"


def test_keyboard_alone(page, photo_file):
    page.set_input_files("#files", photo_file)
    page.wait_for_selector(".item[data-state=done]", timeout=LONG)
    page.locator("#tab-compare").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tab-attention").get_attribute("aria-selected") == "true"
    page.locator("#look").focus()
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector("#maps canvas", timeout=LONG)
    names = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, [role=slider], [tabindex='0']")]
            .filter(e => e.offsetParent)
            .filter(e => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length))
            .map(e => e.outerHTML)"""
    )
    assert names == [], "everything that takes the focus has a name"


@pytest.mark.parametrize("page", [{"color_scheme": "dark"}], indirect=True)
def test_dark_as_the_system_and_by_choice(page):
    def background():
        return page.evaluate("() => getComputedStyle(document.body).backgroundColor")

    dark = background()
    assert max(map(int, dark.removeprefix("rgb(").rstrip(")").split(","))) < 60
    page.locator("#theme").click()  # as the system -> light
    assert background() != dark
    page.reload()
    assert background() != dark, "the choice is kept"


def test_token_is_asked_for_once(browser, start, photo_file):
    guarded = start("--token", "sesame", model="untrained:enlcn-tiny")
    context = browser.new_context()
    page = context.new_page()
    page.goto(guarded.url)
    page.locator("#token").fill("sesame")
    page.keyboard.press("Enter")
    page.wait_for_selector("#model option", state="attached")
    page.set_input_files("#files", photo_file)
    page.wait_for_selector(".item[data-state=done]", timeout=LONG)
    page.wait_for_selector("#divider:not([hidden])")
    context.close()


def open_page(browser, url):
    """A page of another server; what goes wrong on it is raised when it is looked at next."""
    opened = browser.new_page()
    opened.goto(url)
    opened.wait_for_selector("#model option", state="attached")
    return opened


def test_a_scale_out_of_range_is_told_and_the_page_goes_on(page, photo_file):
    for typed, taken in (("9", "4"), ("0", "1"), ("-3", "1")):
        page.locator("#other-scale").fill(typed)
        assert f"{taken} will be taken" in page.locator("#other-scale-note").inner_text()
        assert page.locator("#other-scale").get_attribute("aria-invalid") == "true"
        page.locator("#other-scale").press("Enter")
        assert page.locator("#other-scale").input_value() == taken
        assert not page.locator("#other-scale-note").is_visible()
    page.locator("#other-scale").fill("9")
    page.set_input_files("#files", photo_file)
    page.wait_for_selector(".item[data-state=done]", timeout=LONG)
    assert page.locator(".item-state").inner_text().startswith("360 × 240")
    page.locator("#other-scale").fill("")
    assert page.locator("[name=scale][value='4']").is_checked()


def test_scales_are_those_of_the_model(browser, start, photo_file):
    page = open_page(browser, start(model="enlcn-light-x2").url)
    assert page.locator("[name=scale]:checked").input_value() == "2"
    assert [page.locator(f"[name=scale][value='{scale}']").is_visible() for scale in (2, 3, 4)] == [True, False, False]
    page.locator("#other-scale").fill("3")
    assert "1 to 2" in page.locator("#other-scale-note").inner_text()
    page.locator("#other-scale").fill("")
    page.set_input_files("#files", photo_file)
    page.wait_for_selector(".item[data-state=done]", timeout=LONG)
    assert page.locator(".item-state").inner_text().startswith("180 × 120")
    page.close()


def test_transparent_pictures_become_jpeg_on_a_colour(page, tmp_path):
    source, saved = tmp_path / "logo.png", tmp_path / "logo.jpg"
    pixels = np.zeros((40, 60, 3), np.uint8)
    source.write_bytes(encode_image(Image(pixels, np.zeros((40, 60), np.uint8)), "png"))
    assert not page.locator("#quality").is_visible()
    page.locator("#format").select_option("webp")
    assert page.locator("#quality").is_visible()
    assert not page.locator("#background").is_visible()
    page.locator("#format").select_option("jpeg")
    page.locator("#quality").fill("400")
    assert "100 will be taken" in page.locator("#quality-note").inner_text()
    page.locator("#background").fill("#ff8000")
    page.set_input_files("#files", source)
    page.wait_for_selector(".item[data-state=done]", timeout=LONG)
    with page.expect_download() as download:
        page.locator("#save").click()
    assert download.value.suggested_filename == "logo_x4.jpg"
    download.value.save_as(saved)
    assert np.abs(load_image(saved).pixels.astype(int) - (255, 128, 0)).max() <= 3


def test_results_outlive_their_time_on_the_server(browser, start, photo_file, tmp_path):
    server = start("--result-seconds", "1", model="untrained:enlcn-tiny")
    page = open_page(browser, server.url)
    page.set_input_files("#files", [photo_file, photo_file])
    for place in range(2):
        page.wait_for_selector(f".item[data-state=done] >> nth={place}", timeout=LONG)
    page.wait_for_timeout(4000)
    assert "enlcn_jobs_kept 0" in server.client.get("/metrics").text
    page.locator(".item-open").nth(1).click()  # never looked at before
    page.wait_for_selector("#divider:not([hidden])")
    with page.expect_download() as download:
        page.locator("#save").click()
    download.value.save_as(tmp_path / "late.png")
    assert load_image(tmp_path / "late.png").width == 360
    assert page.locator(".toast.bad").count() == 0
    page.close()


@pytest.mark.parametrize("page", [{}, {"viewport": {"width": 390, "height": 844}}], indirect=True)
def test_messages_stand_in_no_way(page, photo_file):
    page.locator("#sample").click()
    page.wait_for_selector(".toast")
    page.wait_for_selector(".item[data-state=done]", timeout=LONG)
    page.evaluate(
        """() => { const note = document.createElement("div"); note.className = "toast"; note.style.height = "3000px";
            document.getElementById("toasts").append(note); }"""
    )
    page.locator("#again").click(timeout=5000)
    page.locator("#theme").click(timeout=5000)


def test_notes_about_a_picture_are_shown(page, tmp_path):
    from PIL import Image as Pillow

    path = tmp_path / "pages.tif"
    pages = [Pillow.new("RGB", (20, 16), colour) for colour in ("red", "blue")]
    pages[0].save(path, save_all=True, append_images=pages[1:])
    page.set_input_files("#files", path)
    page.wait_for_selector(".item[data-state=done]", timeout=LONG)
    playwright_api.expect(page.locator("#notes")).to_contain_text("only the first is read")
