"""Whose request it is: for sharing the device fairly, and for the log."""

from starlette.requests import HTTPConnection


def client_of(connection: HTTPConnection, header: str | None) -> str:
    """What the header of a trusted proxy says, else the address."""
    lines = connection.headers.getlist(header) if header is not None else []
    # The last entry of the last line is what the proxy itself has added; those before it anyone can send.
    if lines and (client := lines[-1].rpartition(",")[2].strip()):
        return client
    return connection.client.host if connection.client is not None else "unknown"
