"""QCoDeS' simulated instruments (pyvisa-sim) behind sockets: parties that nobody here wrote."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.drivers.peers import TcpPeer, cut_lines


class SimulatedInstrument:
    """The first instrument of one of QCoDeS' files; `instead` answers some questions, for these know no physics."""

    def __init__(self, file: str, end: bytes, instead: dict[bytes, Callable[[], str]] | None = None) -> None:
        from pyvisa_sim.parser import get_devices
        from qcodes.instrument import sims

        devices = get_devices(str(Path(sims.__file__).parent / file), False)
        self._device = devices[devices.list_resources()[0]]
        self._end = end
        self._instead = instead or {}

    def ask(self, question: bytes) -> bytes:
        """Return what it answers, with its end; nothing to a command."""
        own = self._instead.get(question)
        if own is not None:
            return own().encode() + self._end
        self._device.write(question + self._end)
        said = b""
        while byte := self._device.read()[0]:
            said += byte
        return said

    def number(self, question: bytes) -> float:
        return float(self.ask(question))

    def serve(self) -> TcpPeer:
        """Make it the other end of a socket."""

        def answer(request: bytes) -> list[bytes]:
            return [said] if (said := self.ask(request.rstrip(b"\r\n"))) else []

        return TcpPeer(cut_lines(self._end[-1:]), answer)


@contextmanager
def served(**instruments: SimulatedInstrument) -> Iterator[dict[str, str]]:
    """Serve instruments; yields the URL of each."""
    peers = {name: instrument.serve() for name, instrument in instruments.items()}
    try:
        yield {name: f"tcp://127.0.0.1:{peer.port}?quiet=0.1" for name, peer in peers.items()}
    finally:
        for peer in peers.values():
            peer.stop()
