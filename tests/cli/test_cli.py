"""The program as a user runs it: a process, its output, its exit code."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from enlcn import recipes
from enlcn.checkpoint import save
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from tests.authors_weights import authors_state

PHOTO = Path(__file__).parents[2] / "enlcn" / "assets" / "palace.png"


def enlcn(*arguments, **options):
    command = [sys.executable, "-m", "enlcn", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


@pytest.fixture
def small_photo(tmp_path):
    path = tmp_path / "photo.png"
    Image.open(PHOTO).crop((100, 60, 148, 92)).save(path)
    return path


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "tiny.safetensors"
    save(SRNetwork(recipes.TINY), path)
    return path


def test_version_and_help():
    version = enlcn("--version")
    assert version.stdout.startswith("enlcn ")
    assert version.returncode == 0
    shown = enlcn("--help").stdout
    for command in ("attention", "convert", "info"):
        assert command in shown


def test_help_does_not_import_torch():
    probe = (
        "import sys; from enlcn.cli import main; sys.argv = ['enlcn', 'attention', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True).returncode == 0


def test_import_takes_under_two_seconds_beyond_torch():
    probe = (
        "import torch, time; start = time.perf_counter(); import enlcn\n"
        "for name in enlcn.__all__: getattr(enlcn, name)\n"
        "print(time.perf_counter() - start)"
    )
    taken = [
        float(subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(taken) < 2


def test_info(weights):
    shown = enlcn("info", weights)
    assert shown.returncode == 0
    for text in ("x4", "4 residual blocks of 16 channels", "29,512", "3 x enlca", "amplification", "MFLOPs"):
        assert text in shown.stdout
    facts = json.loads(enlcn("info", weights, "--json").stdout)
    assert facts["parameters"] == 29512
    assert facts["layout"] == "enlcn"
    assert facts["config"]["attention"]["num_features"] == 128
    quiet = enlcn("-q", "info", weights)
    assert quiet.stdout == ""


def test_convert(tmp_path):
    torch.save({"params": authors_state()}, tmp_path / "authors.pt")
    target = tmp_path / "ours.safetensors"
    done = enlcn("convert", tmp_path / "authors.pt", target, "--dtype", "fp16", "--amplification", 5)
    assert done.returncode == 0, done.stderr
    facts = json.loads(enlcn("info", target, "--json").stdout)
    assert facts["config"]["attention"]["feature_eps"] == 1e-4
    assert facts["config"]["attention"]["amplification"] == 5
    again = enlcn("convert", tmp_path / "authors.pt", target)
    assert again.returncode == 2
    assert "--overwrite" in again.stderr


def test_attention_draws_the_map(tmp_path, small_photo, weights):
    out = tmp_path / "maps" / "map.png"
    done = enlcn("attention", small_photo, "--at", "20,10", "--at", "3,4", "-o", out, "-m", weights, "--module", 2,
                 "--weights", "exact", "--weights", "features")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "pixel 20,10, attention 2 (exact)" in done.stdout
    assert str(out) in done.stdout
    picture = np.asarray(Image.open(out).convert("RGB")).astype(int)
    zoom = 7  # 48 pixels wide, panels of at least 320
    assert picture.shape[1] == 3 * (48 * zoom + 12) + 12
    # The marked pixel is ringed in red in every panel of the first row.
    for panel in range(3):
        x, y = 12 + panel * (48 * zoom + 12) + int(20.5 * zoom), 12 + int(10.5 * zoom)
        ring = picture[y - 8 : y + 9, x - 8 : x + 9]
        assert ((ring - (230, 30, 30)) ** 2).sum(-1).min() == 0


def test_attention_takes_the_bundled_model(tmp_path, small_photo):
    done = enlcn("attention", small_photo, "--at", "1,1", "-o", tmp_path / "m.png", "--module", 1)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("enlcn-light-x4, pixel 1,1, attention 1")


def test_attention_says_when_weights_are_random(tmp_path, small_photo):
    out = tmp_path / "[bold]m.webp"
    done = enlcn("attention", small_photo, "--at", "1,1", "-o", out, "-m", "untrained:enlcn-tiny")
    assert "random weights" in done.stdout
    assert f"drawn: {out}" in done.stdout
    with Image.open(out) as picture:
        assert picture.format == "WEBP"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "absent.safetensors"], "absent.safetensors: no such file"),
        (["info", "untrained:unet"], "unknown network 'unet'"),
        (["info", "untrained:enlcn", "--size", "big"], "WxH"),
        (["convert", "a.pt", "b.pt"], "a.pt: no such file"),
        (["convert", "a.pt", "b.safetensors", "--dtype", "int8"], "choose from fp32, fp16, bf16"),
        (["attention", "none.png", "--at", "1,1", "-o", "m.png", "-m", "untrained:enlcn-tiny"], "none.png"),
        (["attention", PHOTO, "--at", "one", "-o", "m.png", "-m", "untrained:enlcn-tiny"], "X,Y"),
        (["attention", PHOTO, "--at", "9999,1", "-o", "m.png", "-m", "untrained:enlcn-tiny"], "outside the image"),
        (["attention", "none.png", "--at", "1,1", "-o", "m.xyz", "-m", "absent"], "cannot write '.xyz' files"),
        (
            ["attention", PHOTO, "--at", "1,1", "-o", "m.png", "-m", "untrained:enlcn-tiny", "--device", "warp"],
            "device 'warp' cannot be used",
        ),
        (["attention", PHOTO, "--at", "1,1", "-o", ".", "-m", "untrained:enlcn-tiny"], ".: is a folder; give a file"),
        (
            ["attention", PHOTO, "--at", "1,1", "-o", "m.png", "-m", "untrained:edsr"],
            "untrained:edsr: this network has no",
        ),
        (["frobnicate"], "no such command"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(tmp_path, arguments, message):
    done = enlcn(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_system_without_ipv6_says_so(monkeypatch):
    from enlcn.cli import serve

    def refuse(*arguments):
        raise OSError(97, "Address family not supported by protocol")

    monkeypatch.setattr(serve.socket, "socket", refuse)
    with pytest.raises(UserError, match=r"cannot listen on ::1 \(Address family not supported by protocol\); choose"):
        serve._listen("::1", None)


@pytest.mark.parametrize("port", [[], ["--port", "0"]])
def test_a_host_that_is_not_there_is_named_without_a_port(port):
    done = enlcn("serve", "--host", "999.1.1.1", *port)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot listen on 999.1.1.1 (")
    assert done.stderr.endswith("); choose another --host\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["upscale", "photo.jpg", "-s", "x2"], "'x2'"),
        (["upscale", "photo.jpg", "-s"], "-s' requires an argument; see `"),
        (["upscale"], "missing argument"),
        (["upscale", "--scal", "2", "photo.jpg"], "no such option: --scal"),
        (["upscail"], "no such command"),
    ],
)
def test_wrong_usage_is_one_line(arguments, said):
    run = enlcn(*arguments)
    assert run.returncode == 2
    assert run.stderr.startswith("error: ")
    assert said in run.stderr
    assert run.stderr.count("\n") == 1
    assert ("enlcn upscale --help`" if arguments[0] == "upscale" else "enlcn --help`") in run.stderr


@pytest.mark.parametrize("option", ["-q", "--quiet", "-v", "--verbose"])
def test_options_of_the_program_go_before_the_command(option):
    run = enlcn("upscale", "photo.jpg", option)
    assert run.returncode == 2
    assert run.stderr.startswith(f"error: {option} goes before the command: `")
    assert run.stderr.endswith(f"enlcn {option} upscale …`\n")


def test_no_arguments_show_the_help():
    run = enlcn()
    assert run.returncode == 2
    assert "upscale" in run.stdout + run.stderr
