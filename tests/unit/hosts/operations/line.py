"""A time line for operations, on which nobody waits."""


class Line:
    """A time line that moves when somebody sleeps or works; it knows how long nobody worked."""

    def __init__(self) -> None:
        self.now = 0.0
        self.idle = 0.0

    def tell(self) -> float:
        """The present, in seconds."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Returns at once, so much later."""
        self.now += seconds
        self.idle += seconds

    def work(self, seconds: float) -> None:
        """So much is done."""
        self.now += seconds
