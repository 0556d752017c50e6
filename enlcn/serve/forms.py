"""The file in a multipart form, handed on while it arrives: nothing of the body is kept on the way."""

from collections.abc import Callable

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

_LONGEST_HEADERS = 2**14
_LONGEST_NAME = 40  # of a field, as an error tells it


class FormError(Exception):
    """The form cannot be read; the text says why."""


class FormFile:
    """Is given a form's body piece by piece, and hands on those of its one file.

    Args:
        content_type: the request's header, with the boundary between the parts.
        field: the name of the part that holds the file; any other part is an error, since it would have no effect.
        take: is given the file's bytes; what it raises passes through.
    """

    def __init__(self, content_type: str, field: str, take: Callable[[bytes], object]):
        boundary = parse_options_header(content_type)[1].get(b"boundary")
        if not boundary:
            raise FormError("its Content-Type names no boundary")
        self.is_complete = False
        self._field, self._take = field, take
        self._has_file = False
        self._header_bytes = 0
        self._name, self._value, self._disposition = bytearray(), bytearray(), b""
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin_part,
                    "on_header_field": self._add_to_name,
                    "on_header_value": self._add_to_value,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._begin_data,
                    "on_part_data": self._hand_on,
                    "on_part_end": self._end_part,
                },
            )
        except FormParserError:
            raise FormError("its boundary is too long") from None

    def write(self, body: bytes) -> None:
        """Go on with the next piece of the body."""
        try:
            self._parser.write(body)
        except FormParserError:
            raise FormError("its parts cannot be told apart") from None

    def _begin_part(self) -> None:
        self._disposition = b""

    def _add_to_name(self, data: bytes, start: int, end: int) -> None:
        self._count_header(end - start)
        self._name += data[start:end]

    def _add_to_value(self, data: bytes, start: int, end: int) -> None:
        self._count_header(end - start)
        self._value += data[start:end]

    def _count_header(self, nbytes: int) -> None:
        self._header_bytes += nbytes
        if self._header_bytes > _LONGEST_HEADERS:
            raise FormError("its parts have too long headers")

    def _end_header(self) -> None:
        if self._name.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._name.clear()
        self._value.clear()

    def _begin_data(self) -> None:
        options = parse_options_header(self._disposition)[1]
        if b"name" not in options:
            raise FormError("one of its parts has no name")
        name = options[b"name"].decode(errors="replace")[:_LONGEST_NAME]
        if name != self._field:
            raise FormError(f"it has a part named '{name}'; options go into the address, as in ?scale=2")
        if b"filename" not in options:
            raise FormError(f"its part '{name}' is no file")
        if self._has_file:
            raise FormError("it has more than one file")
        self._has_file = True

    def _hand_on(self, data: bytes, start: int, end: int) -> None:
        self._take(data[start:end])

    def _end_part(self) -> None:
        self.is_complete = True
