"""The frontier over a socket: codec, client, server and handshake."""
