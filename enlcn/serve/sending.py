"""A kept file on its way to a client: held until it is sent, given up where the client takes nothing of it."""

import asyncio
from contextlib import ExitStack, closing

from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from enlcn.serve.storage import Blob

STALLED_SECONDS = 60.0  # for a client to take one piece; its connection is closed then, and the room is free


class KeptFile(StreamingResponse):
    """The answer with a blob's bytes; BlobGoneError where they were given back before.

    From here on the bytes stay until they are sent, though the result be forgotten meanwhile, and count as stored.
    """

    def __init__(self, blob: Blob, media_type: str):
        self._held = ExitStack()
        self._held.enter_context(blob.held())
        pieces = self._held.enter_context(closing(blob.chunks()))
        extension = media_type.rpartition("/")[2].replace("jpeg", "jpg")
        headers = {
            "Content-Length": str(blob.size),
            "Content-Disposition": f'inline; filename="upscaled.{extension}"',
        }
        super().__init__(pieces, media_type=media_type, headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; whatever happens, the blob is let go."""
        with self._held:
            await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        """Send piece by piece, as fast as the client takes them."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(STALLED_SECONDS):
                await send(message)

        try:
            await super().stream_response(send_in_time)
        except TimeoutError:
            return  # an answer that ends early closes the connection
