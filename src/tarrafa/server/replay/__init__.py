"""Replay of archived pages in the browser, on a host name of its own: its routes, its policy, and wabac.js."""
