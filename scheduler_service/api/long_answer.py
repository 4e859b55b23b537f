"""An answer with one long member, which is sent piece by piece and nowhere copied as a whole."""

from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from scheduler_service.api.responses import ENCODER, Flaw, write_flaw
from scheduler_service.pacing.slices import Slices

PIECE_BYTES = 65_536


class LongAnswer(Response):
    """`data`, which is not empty, and the member `name`, `text` in JSON, in the envelope of `succeed`.

    The loop does other things between two pieces, however fast the caller reads. `owner` is kept until the
    answer has been sent.
    """

    def __init__(
        self,
        data: Mapping[str, object],
        name: str,
        text: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        owner: object = None,
        status: HTTPStatus = HTTPStatus.OK,
        warnings: Iterable[Flaw] = (),
    ) -> None:
        begin = b'{"resp_code":200,"resp_msg":null,"data":' + ENCODER.encode(data)[:-1]
        begin += b"," + ENCODER.encode(name) + b":"
        end = b'},"warnings":' + ENCODER.encode([write_flaw(one) for one in warnings]) + b"}"
        self._parts = (begin, text, end)
        self._owner = owner
        length = {"content-length": str(sum(map(len, self._parts)))}
        super().__init__(None, status, {**(headers or {}), **length}, "application/json")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it (ASGI)."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        slices = Slices()
        for piece in self._pieces():
            await slices.pause(len(piece))
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _pieces(self) -> Iterator[bytes]:
        for part in self._parts:
            for start in range(0, len(part), PIECE_BYTES):
                yield part[start : start + PIECE_BYTES]
