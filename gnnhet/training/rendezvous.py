"""Where the ranks of one host meet: a key-value store on loopback, which the launcher hands to them.

torch's own rendezvous back ends listen on every interface. One host needs none of what they do: this handler binds the
store to 127.0.0.1 and tells the launcher that the group is complete.
"""

import os
import socket
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousInfo, RendezvousParameters
from torch.distributed.elastic.rendezvous.api import RendezvousStoreInfo, rendezvous_handler_registry

BACKEND = "gnnhet-loopback"
_LOOPBACK = "127.0.0.1"
_TIMEOUT = timedelta(seconds=60)


class LoopbackRendezvous(RendezvousHandler):
    """A rendezvous of one node."""

    def __init__(self, run_id: str) -> None:
        """Bind the store to a free port of loopback."""
        self._run_id, self._closed = run_id, False
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind((_LOOPBACK, 0))
        listener.listen()
        self._port = listener.getsockname()[1]
        # the store takes the descriptor over, and closes it
        self._store: Any = dist.TCPStore(  # type: ignore[attr-defined]
            _LOOPBACK,
            self._port,
            is_master=True,
            timeout=_TIMEOUT,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )

    def get_backend(self) -> str:
        """Name of this kind of rendezvous."""
        return BACKEND

    @property
    def use_agent_store(self) -> bool:
        """The ranks use the launcher's store: no second socket."""
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """The group of one node."""
        return RendezvousInfo(self._store, 0, 1, RendezvousStoreInfo(_LOOPBACK, self._port))

    def is_closed(self) -> bool:
        """Whether the group has ended."""
        return self._closed

    def set_closed(self) -> None:
        """End the group."""
        self._closed = True

    def num_nodes_waiting(self) -> int:
        """No other node ever joins."""
        return 0

    def get_run_id(self) -> str:
        """The launcher's name of the run."""
        return self._run_id

    def shutdown(self) -> bool:
        """Nothing else to release."""
        self._closed = True
        return True


def register() -> str:
    """Make the back end known to torch and keep gloo on loopback; its name."""

    def create(parameters: RendezvousParameters) -> RendezvousHandler:
        return LoopbackRendezvous(parameters.run_id)

    known: Any = rendezvous_handler_registry
    if BACKEND not in known._registry:
        known.register(BACKEND, create)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _loopback_interface())
    return BACKEND


def _loopback_interface() -> str:
    """Name of the loopback interface: lo on Linux, lo0 on BSD and macOS."""
    names = [name for _, name in socket.if_nameindex()]
    return "lo0" if "lo0" in names and "lo" not in names else "lo"
