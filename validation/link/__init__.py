"""A device and a server over a socket: the wire, the server, the device, and a relay that repeats a link."""
