"""What goes over the line between the service and a worker process: length, then one message in msgpack."""

from collections.abc import Iterator

import msgspec

LENGTH = 4


class RpcCall(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="c"):
    """Asks for an answer under `number`; the `argument` is that of the method, packed."""

    number: int
    method: str
    argument: bytes


class RpcNotice(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="t"):
    """Says something that needs no answer."""

    method: str
    argument: bytes


class RpcAnswer(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="a"):
    """The result of a call, packed."""

    number: int
    result: bytes


class RpcFailure(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="f"):
    """A call raised `error`, a name that both sides know; `text` is its message."""

    number: int
    error: str
    text: str


Frame = RpcCall | RpcNotice | RpcAnswer | RpcFailure

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Frame).decode


def write_frame(frame: Frame) -> bytes:
    """The bytes of a message."""
    content = _encode(frame)
    return len(content).to_bytes(LENGTH) + content


class FrameReader:
    """Cuts messages out of a stream of bytes."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The messages that are complete with `data`. Raises msgspec.DecodeError for what is none."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= LENGTH:
                end = start + LENGTH + int.from_bytes(buffer[start : start + LENGTH])
                if len(buffer) < end:
                    return
                content = bytes(buffer[start + LENGTH : end])
                start = end
                yield _decode(content)
        finally:
            del buffer[:start]
