"""The API, asked over HTTP."""

import base64
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from enlcn.checkpoint import load
from enlcn.data.image import Image
from enlcn.data.image_io import encode_image, load_image, to_tensor
from enlcn.data.resize import imresize

from .conftest import PALACE, TINY, picture


def upscaled_by_cli(tmp_path, data, suffix, *options):
    source, target = tmp_path / f"in.{suffix}", tmp_path / "out.png"
    source.write_bytes(data)
    command = [sys.executable, "-m", "enlcn", "upscale", source, "-o", target, "-m", TINY, "--device", "cpu", *options]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return target.read_bytes()


def test_result_equals_the_command_line_byte_for_byte(server, photo, tmp_path):
    expected = upscaled_by_cli(tmp_path, photo, "png", "-s", "2")
    raw = server.client.post("/v1/upscale", params={"scale": 2}, content=photo)
    form = server.client.post("/v1/upscale", params={"scale": 2}, files={"file": ("../../etc/x.png", photo)})
    assert raw.status_code == form.status_code == 200
    assert raw.headers["content-type"] == "image/png"
    assert raw.content == form.content == expected


def test_other_formats_scales_and_alpha(server):
    rng = np.random.default_rng(0)
    image = Image(rng.integers(0, 256, (20, 30, 3), np.uint8), rng.integers(0, 256, (20, 30), np.uint8))
    answer = server.client.post(
        "/v1/upscale", params={"width": 75, "format": "webp"}, content=encode_image(image, "png")
    )
    assert answer.headers["content-type"] == "image/webp"
    result = load_image(answer.content)
    assert (result.width, result.height) == (75, 50)
    assert result.alpha is not None
    tiff = server.client.post("/v1/upscale", params={"scale": 2}, content=encode_image(image, "tiff"))
    assert tiff.headers["content-type"] == "image/tiff"
    refused = server.client.post(
        "/v1/upscale", params={"scale": 2, "format": "jpeg"}, content=encode_image(image, "png")
    )
    assert refused.status_code == 422
    assert "transparency" in refused.json()["detail"]


def test_transparent_pictures_on_a_colour(server, tmp_path):
    rng = np.random.default_rng(1)
    alpha = rng.integers(0, 256, (20, 30), np.uint8)
    alpha[:, :15] = 0
    data = encode_image(Image(rng.integers(0, 256, (20, 30, 3), np.uint8), alpha), "png")
    asked = {"scale": 2, "background": "ff8000", "compare": True, "respond": "job"}
    job = server.client.post("/v1/upscale", params=asked, content=data).json()
    assert follow(server, job)[-1]["state"] == "done"
    result, before = (server.client.get(f"/v1/jobs/{job['id']}/{name}").content for name in ("result", "before"))
    assert result == upscaled_by_cli(tmp_path, data, "png", "-s", "2", "--background", "#ff8000")
    for shown in map(load_image, (result, before)):
        assert shown.alpha is None
        assert (shown.pixels[:, :10] == (255, 128, 0)).all()
    jpeg = server.client.post("/v1/upscale", params={"format": "jpeg", "background": "white"}, content=data)
    assert jpeg.headers["content-type"] == "image/jpeg"
    refused = server.client.post("/v1/upscale", params={"background": "paper"}, content=data)
    assert refused.status_code == 422


def follow(server, job):
    with server.client.stream("GET", f"/v1/jobs/{job['id']}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        return [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: ")]


def test_job_events_result_and_before(server):
    data = picture(5, 90, 120)
    answer = server.client.post("/v1/upscale", params={"scale": 3, "respond": "job", "compare": True}, content=data)
    assert answer.status_code == 202
    job = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{job['id']}"
    assert job["input"] == {"width": 120, "height": 90}
    assert job["output"] == {"width": 360, "height": 270}
    events = follow(server, job)
    fractions = [event["progress"]["fraction"] for event in events]
    assert fractions == sorted(fractions)
    assert events[-1]["state"] == "done"
    assert fractions[-1] == 1
    steps = {event["progress"]["step"] for event in events}
    assert any(step.startswith(("block", "attention")) for step in steps), steps
    direct = server.client.post("/v1/upscale", params={"scale": 3}, content=data)
    assert server.client.get(events[-1]["files"]["result"]).content == direct.content
    before = load_image(server.client.get(events[-1]["files"]["before"]).content).pixels
    oracle = imresize(load_image(data).pixels.astype(np.float64), size=(270, 360)).clip(0, 255)
    assert np.abs(before - oracle).max() <= 0.501
    assert server.client.delete(f"/v1/jobs/{job['id']}").status_code == 204
    assert server.client.get(f"/v1/jobs/{job['id']}").status_code == 404


def test_what_a_picture_loses_is_among_the_facts(server):
    body = io.BytesIO()
    pages = [Pillow.new("CMYK", (8, 6), colour) for colour in ("red", "blue")]
    pages[0].save(body, "TIFF", save_all=True, append_images=pages[1:])
    asked = {"scale": 2, "respond": "job", "format": "png"}
    job = server.client.post("/v1/upscale", params=asked, content=body.getvalue()).json()
    notes = follow(server, job)[-1]["facts"]["notes"]
    assert any("only the first is read" in note for note in notes)
    assert any("CMYK" in note for note in notes)
    deep = encode_image(Image(np.full((6, 8, 3), 12345, np.uint16)), "png")
    job = server.client.post("/v1/upscale", params=asked | {"format": "jpeg"}, content=deep).json()
    assert any("8 bits" in note for note in follow(server, job)[-1]["facts"]["notes"])


@pytest.mark.parametrize("offered", [True, False])
def test_the_model_for_jpeg_files_is_named_where_it_is_offered(start, offered):
    server = start(*(["--model", "enlcn-photo"] if offered else []), model="enlcn-light")
    body = io.BytesIO()
    Pillow.open(PALACE).convert("RGB").crop((0, 0, 24, 16)).save(body, "JPEG", quality=60)

    def notes(model):
        asked = {"scale": 2, "respond": "job", "model": model}
        job = server.client.post("/v1/upscale", params=asked, content=body.getvalue()).json()
        return follow(server, job)[-1]["facts"]["notes"]

    told = "a JPEG of quality about 60; the model enlcn-photo removes the artefacts that this one sharpens"
    assert notes("enlcn-light") == ([told] if offered else [])
    if offered:
        assert notes("enlcn-photo") == []


def test_streamed_pictures_report_tiles(start):
    server = start("--memory-limit", "512M", model="untrained:enlcn-small-x2")
    answer = server.client.post("/v1/upscale", params={"respond": "job"}, content=picture(1, 320, 320))
    job = answer.json()
    with server.client.stream("GET", f"/v1/jobs/{job['id']}/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("data: ") and "tile" in json.loads(line[6:])["progress"]["step"]:
                break
        else:
            pytest.fail("no event told of a tile")
    assert server.client.delete(f"/v1/jobs/{job['id']}").status_code == 204


def test_attention_maps_are_those_of_the_command(server, photo):
    answer = server.client.post("/v1/attention", params={"x": 20, "y": 11, "model": TINY}, content=photo)
    assert answer.status_code == 200
    told = answer.json()
    assert told["checkpoint"]["attention"] == {"kind": "enlca", "modules": 3, "k": 6, "m": 128, "contrast": False}
    assert told["point"] == {"x": 20, "y": 11}
    assert [m["module"] for m in told["modules"]] == [1, 2, 3]

    from enlcn.attention_map import attention_maps

    network = load(TINY + "-x4")
    for drawn in attention_maps(network, to_tensor(load_image(photo)), (20, 11), weighings=["exact", "hashed"]):
        maps = {m["weighing"]: m for m in told["modules"][drawn.module - 1]["maps"]}
        levels = np.frombuffer(base64.b64decode(maps[drawn.weighing]["levels"]), np.uint8).reshape(40, 56)
        expected = np.sqrt(drawn.weights.numpy() / drawn.weights.max().item()) * 255
        assert np.abs(levels - expected).max() <= 0.6
        assert maps[drawn.weighing]["focus"] == pytest.approx(drawn.focus, rel=1e-3)


def test_more_features_estimate_better_and_k_sharpens(server, photo):
    def ask(**parameters):
        given = {"x": 20, "y": 11, "modules": 2, "weighings": ["exact", "features"], **parameters}
        answer = server.client.post("/v1/attention", params=given, content=photo)
        assert answer.status_code == 200, answer.text
        return answer.json()["modules"][0]

    errors = [np.mean([ask(k=1, m=m, seed=s)["relative_error"] for s in range(4)]) for m in (16, 2048)]
    assert errors[1] < errors[0] / 3
    focus = [ask(k=k)["maps"][0]["focus"] for k in (0.5, 16)]
    assert focus[1] > focus[0]
    assert ask()["relative_error"] == ask(k=6, m=128)["relative_error"]  # the checkpoint's own F
    assert ask()["relative_error"] != ask(seed=1)["relative_error"]


PROBLEMS = [
    ("/v1/upscale", {"scale": 9}, b"x", 422, "invalid-parameters"),
    ("/v1/upscale", {"scale": 2, "width": 5}, b"x", 422, "invalid-parameters"),
    ("/v1/upscale", {"model": "/etc/passwd"}, b"x", 422, "invalid-parameters"),
    ("/v1/upscale", {"nonsense": 1}, b"x", 422, "invalid-parameters"),
    ("/v1/upscale", {}, b"", 400, "bad-request"),
    ("/v1/upscale", {}, b"no picture at all", 415, "not-an-image"),
    ("/v1/upscale", {}, b"\x89PNG\r\n\x1a\n", 422, "damaged-image"),
    ("/v1/attention", {"x": 1}, b"x", 422, "invalid-parameters"),
]


@pytest.mark.parametrize(("path", "parameters", "body", "status", "kind"), PROBLEMS)
def test_problems(server, path, parameters, body, status, kind):
    answer = server.client.post(path, params=parameters, content=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["type"] == f"/v1/problems#{kind}"
    assert told["status"] == status
    assert told["detail"]
    assert kind in server.client.get("/v1/problems").json()


@pytest.mark.parametrize(
    ("made", "parameters", "kind", "told"),
    [
        (
            Pillow.new("RGBA", (8, 6)),
            {"format": "jpeg"},
            "unsuitable-format",
            "give it a background (background=white)",
        ),
        (Pillow.new("F", (8, 6)), {}, "unsupported-image", "convert it to 8 or 16 bits a channel"),
        (
            Pillow.new("LAB", (8, 6)),
            {},
            "unsupported-image",
            "Lab colours are not read in this form; convert it to RGB",
        ),
    ],
)
def test_a_sound_picture_is_not_called_damaged(server, made, parameters, kind, told):
    body = io.BytesIO()
    made.save(body, "TIFF")
    answer = server.client.post("/v1/upscale", params=parameters, content=body.getvalue())
    assert answer.status_code == 422
    assert answer.json()["type"] == f"/v1/problems#{kind}"
    assert told in answer.json()["detail"]


def test_a_damaged_body_is_a_problem_of_the_client(server, photo):
    answer = server.client.post("/v1/upscale", content=photo[: len(photo) // 2])
    assert answer.status_code == 422
    assert answer.json()["type"].endswith("#damaged-image")
    job = server.client.post("/v1/upscale", params={"respond": "job"}, content=photo[: len(photo) // 2]).json()
    last = follow(server, job)[-1]
    assert last["state"] == "failed"
    assert last["problem"]["status"] == 422
    assert server.client.get(f"/v1/jobs/{job['id']}/result").status_code == 422


def test_models_limits_metrics_and_health(server):
    (model,) = server.client.get("/v1/models").json()["models"]
    assert model["name"] == TINY
    assert model["scales"] == [2, 3, 4]
    limits = server.client.get("/v1/limits").json()
    assert (limits["queue_length"], limits["direct_pixels"]) == (200, 4096 * 4096)
    assert server.client.get("/healthz").json() == {"status": "ok"}
    assert server.client.post("/v1/upscale", content=picture(2)).status_code == 200
    text = server.client.get("/metrics").text
    assert 'route="/v1/models"' in text
    for name in (
        "enlcn_requests_total",
        "enlcn_job_seconds_bucket",
        "enlcn_queue_length",
        "process_resident_memory_bytes",
    ):
        assert name in text
    for line in text.splitlines():
        assert line.startswith("#") or float(line.rpartition(" ")[2]) >= 0


def test_metrics_are_what_prometheus_reads(server):
    parser = pytest.importorskip("prometheus_client.parser", reason="needs prometheus_client as an oracle")
    families = {f.name: f for f in parser.text_string_to_metric_families(server.client.get("/metrics").text)}
    assert families["enlcn_request_seconds"].type == "histogram"


def test_metrics_keep_all_digits():
    from enlcn.serve.metrics import Metrics

    metrics = Metrics()
    for amount in (123_456_789, 1):
        metrics.count("enlcn_pixels_total", amount)
    metrics.observe("enlcn_job_seconds", 0.1 + 0.2, kind="upscale")
    lines = metrics.render({"process_resident_memory_bytes": 12_345_678_901}).splitlines()
    assert "enlcn_pixels_total 123456790" in lines
    assert 'enlcn_job_seconds_sum{kind="upscale"} 0.30000000000000004' in lines
    assert 'enlcn_job_seconds_count{kind="upscale"} 1' in lines
    assert "process_resident_memory_bytes 12345678901" in lines


def test_options_in_a_form_are_not_lost_silently(server, photo):
    for path in ("/v1/upscale", "/v1/attention?x=1&y=1"):
        answer = server.client.post(path, data={"scale": "2"}, files={"file": photo})
        assert (answer.status_code, answer.json()["type"]) == (400, "/v1/problems#bad-request")
        assert "'scale'; options go into the address, as in ?scale=2" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/healthz", "/readyz"])
def test_head_is_get_without_the_body(server, path):
    head, got = server.client.head(path), server.client.get(path)
    assert head.status_code == got.status_code == 200
    assert head.content == b""
    for name in ("content-length", "content-type", "content-security-policy"):
        assert head.headers[name] == got.headers[name]


def test_head_of_unknown_paths_and_methods(server):
    assert server.client.get("/nothing").json()["type"].endswith("#not-found")
    wrong = server.client.put("/v1/upscale", content=b"")
    assert wrong.status_code == 405
    assert wrong.headers["allow"] == "POST"
    assert server.client.put("/v1/jobs/abc").headers["allow"] == "DELETE, GET"
    assert wrong.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("page", ["README.md", "docs/studio.md", "docs/guide/engineer.md"])
def test_examples_save_pictures_and_nothing_else(page):
    """A job's JSON or an error must not end up in photo_x4.png, whatever the size of the photo."""
    lines = (Path(__file__).parents[2] / page).read_text().splitlines()
    saving = [line for line in lines if "curl " in line and "/v1/upscale?" in line and ("-o " in line or ">" in line)]
    assert saving
    for line in saving:
        assert "curl --fail " in line
        assert "respond=image" in line


def test_the_error_of_a_missing_server_is_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "enlcn", "serve", "--model", "nowhere"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "nowhere" in done.stderr
