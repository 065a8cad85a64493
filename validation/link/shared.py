"""What the devices of a server share: the versions of its target, passes, keys, limits, and the caches of cut texts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from hlmtheory.codec.envelope import AuthenticationError
from validation.errors import UserError, nearest
from validation.link.engine import Engine, ServedText, Version
from validation.link.passes import Limits, Metrics, SharedPasses
from validation.link.wire import ENDED_KEY, LONGEST_OPENING, VERSION_NAME, Pipe, WithdrawnError

TARGET = "target"
"""The name of the first version."""


class Shared:
    """The models of a server, and what its devices share.

    Parameters
    ----------
    engine : Engine
    tokenizer, target : str
        Fingerprints of the tokenizer and of the target's weights.
    keys : tuple of bytes, optional
        The secrets of which a device must have one; no secret is needed without them.
    limits : Limits
    versions : mapping of str to (Engine, str), optional
        Further versions of the target with the fingerprints of their weights, by name. The first is called ``target``.

    Attributes
    ----------
    version : Version
        The version in use.
    passes : SharedPasses
        They run while the server serves.
    connections : set
        The devices that are connected: :class:`validation.link.connection.Connection`.
    parked : dict
        The caches of texts that were cut, by session and version.

    Raises
    ------
    UserError
        A version's name that is taken, or is not of letters, digits, dots, dashes and underscores.
    """

    version: Version
    passes: SharedPasses

    def __init__(
        self,
        engine: Engine,
        *,
        tokenizer: str,
        target: str,
        keys: tuple[bytes, ...] | None = None,
        limits: Limits | None = None,
        versions: Mapping[str, tuple[Engine, str]] | None = None,
    ) -> None:
        self.keys, self.limits, self.tokenizer = keys, limits or Limits(), tokenizer
        self.versions = {TARGET: Version(TARGET, engine, target)}
        for name, (other, mark) in (versions or {}).items():
            if name in self.versions or not VERSION_NAME.fullmatch(name):
                raise UserError(
                    f"A version cannot be called {name!r}; give it a name of its own, of letters, digits, dots, dashes "
                    f"and underscores; {TARGET} is the model of --target."
                )
            self.versions[name] = Version(name, other, mark)
        self.withdrawn: tuple[bytes, ...] = ()  # keys that were taken back, the newest first
        self.connections: set[Any] = set()
        self.metrics = Metrics(lambda: len(self.connections))
        self.parked: OrderedDict[tuple[str, str], ServedText] = OrderedDict()  # by session and version
        self.switch(TARGET)

    @property
    def engine(self) -> Engine:
        """The engine of the version in use."""
        return self.version.engine

    def switch(self, name: str) -> None:
        """Use another version from the next round of every text on; call it within the event loop.

        Raises
        ------
        UserError
            If there is no version of this name.
        """
        if name not in self.versions:
            near = nearest(name, self.versions) or list(self.versions)
            raise UserError(f"There is no version {name!r} of the target; the server has {', '.join(near)}.")
        self.version = self.versions[name]
        for other in self.versions:
            self.metrics.versions.labels(other).set(other == name)

    def pipe(self, nonce: str, data: bytes | str) -> Pipe:
        """Return a pipe with the key that sealed a device's first frame."""
        if self.keys is None:
            return Pipe(nonce, None, server=True)
        for key in (*self.keys, *self.withdrawn):
            try:
                Pipe(nonce, key, server=True).unseal(data, LONGEST_OPENING)
            except AuthenticationError:
                continue
            if key in self.withdrawn:
                raise WithdrawnError(ENDED_KEY)
            return Pipe(nonce, key, server=True)
        raise AuthenticationError(
            "the HMAC does not fit; the device has none of the server's keys, or its frame was changed"
        )

    def park(self, text: ServedText, version: Version) -> None:
        """Keep the cache of a text whose device left, for its return; forget the oldest beyond the limit."""
        place = (text.opening.session, version.name)
        self.parked[place] = text
        self.parked.move_to_end(place)
        while len(self.parked) > self.limits.parked:
            self.parked.popitem(last=False)
