"""Forms: the file comes out as it went in, however the body is cut; what is no form is told so."""

import pytest

from enlcn.serve.forms import FormError, FormFile

TYPE = "multipart/form-data; boundary=BOUND"
DATA = b"\x89PNG\r\n--BOUN\r\n\r\n--" + bytes(range(256))


def part(disposition, data=b"1"):
    return b"--BOUND\r\nContent-Disposition: form-data; " + disposition + b"\r\n\r\n" + data + b"\r\n"


def form(*parts):
    return b"".join(parts) + b"--BOUND--\r\n"


FIELD = part(b'name="field"')
FILE = part(b'name="file"; filename="a.png"', DATA)


def parsed(body, size=None, content_type=TYPE):
    """(the file's bytes, whether all of it came), the body given in pieces of `size`."""
    taken = []
    reader = FormFile(content_type, "file", taken.append)
    for start in range(0, len(body), size or len(body)):
        reader.write(body[start : start + (size or len(body))])
    return b"".join(taken), reader.is_complete


@pytest.mark.parametrize("size", [1, 2, 7, 64, None])
def test_the_file_comes_out_as_it_went_in(size):
    assert parsed(form(FILE), size) == (DATA, True)


def test_bytes_are_handed_on_as_they_arrive():
    taken = []
    reader = FormFile(TYPE, "file", taken.append)
    reader.write(part(b'name="file"; filename="a.png"', b"x" * 1000)[:-500])
    assert len(b"".join(taken)) > 400
    assert not reader.is_complete


@pytest.mark.parametrize("body", [form(), FILE[:-20]])
def test_forms_without_the_file(body):
    assert not parsed(body)[1]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (form(FILE, FILE), "more than one file"),
        (form(FIELD, FILE), "a part named 'field'; options go into the address"),
        (form(FILE, FIELD), "a part named 'field'; options go into the address"),
        (form(part(b'name="other"; filename="a.png"', DATA)), "a part named 'other'"),
        (form(part(b'name="file"', DATA)), "its part 'file' is no file"),
        (form(part(b'filename="a.png"')), "no name"),
        (form(part(b'name="' + b"n" * 3000 + b'"')), "a part named 'n{40}'"),
        (form(part(b'name="file"' + b"".join(b"\r\nX-%d: " % n + b"n" * 3000 for n in range(6)))), "too long headers"),
        (b"no form at all", "told apart"),
    ],
)
def test_what_is_refused(body, reason):
    with pytest.raises(FormError, match=reason):
        parsed(body)


def test_a_boundary_is_needed():
    with pytest.raises(FormError, match="boundary"):
        parsed(form(FILE), content_type="multipart/form-data")


def test_errors_of_the_taker_pass_through():
    def refuse(data):
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        FormFile(TYPE, "file", refuse).write(form(FILE))
