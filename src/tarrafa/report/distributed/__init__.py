"""Report parts of several machines: gathering, wire format, requests and merge."""
