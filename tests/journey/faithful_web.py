"""A small site whose pages need much to be shown, on its own host and on others."""

import json

from tests.journey.scripted_web import ScriptedResponse
from tests.server.replay.browser_site import drawing

HTML, CSS, JS, PNG, FONT = "text/html; charset=utf-8", "text/css", "text/javascript", "image/png", "font/woff2"
SITE, CDN, OTHER, SHY = "http://site.test/", "http://cdn.test/", "http://other.test/", "http://shy.test/"
PAGES = {SITE, f"{SITE}second", f"{SITE}framed.html"}
ROOM_OF_TEXT = "The archive keeps what the page shows, and the page shows what the archive keeps. " * 4
FIRST = f"""<!doctype html><title>first</title><base href="/">
<link rel="stylesheet" href="style.css"><link rel="icon" href="icon.png"><link rel="manifest" href="app.webmanifest">
<link rel="stylesheet" href="{CDN}far.css"><link rel="alternate" href="second">
<style>@import "inline.css"; h1 {{ background: url("inline.png") }}</style>
<h1>First page</h1><p>{ROOM_OF_TEXT}</p><a href="second">second</a>
<img id="picture" src="picture.png" srcset="picture.png 1x, {CDN}picture@2x.png 2x, large.png?crop=(1,2) 480w">
<img id="moved" src="moved.png"><img id="twin" src="{CDN}twin.png"><img id="gone" src="gone.png">
<img id="inline" src="data:image/png;base64,AAAA"><img id="forbidden" src="{SHY}private/secret.png">
<picture><source srcset="other.png"><img id="chosen" src="other.png" loading="lazy"></picture>
<div id="box" style="background: url(box.png); width: 20px; height: 20px">x</div>
<iframe id="framed" src="framed.html"></iframe><iframe id="widget" src="{OTHER}widget"></iframe>
<video poster="poster.png" src="film.webm"></video>
<script type="module" src="app.js"></script>"""
SECOND = f"""<!doctype html><title>second</title><link rel="stylesheet" href="/style.css">
<h1>Second page</h1><p>Another text. {ROOM_OF_TEXT}</p><img id="picture" src="/picture.png"><a href="/">first</a>"""
FRAMED = f"""<!doctype html><title>framed</title><link rel="stylesheet" href="/style.css">
<h1>Framed page</h1><p>A third text. {ROOM_OF_TEXT}</p><img src="/framed.png">"""
WIDGET = f"""<!doctype html><title>widget</title><link rel="stylesheet" href="widget.css">
<p id="words">A widget of another site</p><img id="inner" src="inner.png"><a href="{OTHER}deeper">deeper</a>"""
MANIFEST = json.dumps({"name": "site", "icons": [{"src": "large-icon.png"}]})

_PICTURES = {
    f"{SITE}{name}.png": number
    for number, name in enumerate(
        ["icon", "inline", "picture", "other", "box", "poster", "framed", "imported", "large-icon", "moved-here"], 1
    )
}
_PICTURES |= {f"{CDN}picture@2x.png": 21, f"{OTHER}inner.png": 22, f"{SITE}large.png?crop=(1,2)": 23}
TEXTS = {
    SITE: (FIRST, HTML),
    f"{SITE}second": (SECOND, HTML),
    f"{SITE}framed.html": (FRAMED, HTML),
    f"{SITE}style.css": (
        '/* url(comment.png) */ @import url("imported.css"); @font-face { font-family: far; src: url('
        f"{CDN}far.woff2) }} h1 {{ color: rgb(1, 2, 3); font-family: far }}",
        CSS,
    ),
    f"{SITE}imported.css": ('@import "style.css"; p { background: url(imported.png) }', CSS),
    f"{SITE}inline.css": ("#box { border: 3px solid rgb(4, 5, 6) }", CSS),
    f"{CDN}far.css": ("h1 { margin-left: 7px }", CSS),
    f"{SITE}app.js": ('import { say } from "./part.js"; say();', JS),
    f"{SITE}part.js": ("export function say() { document.body.dataset.ran = 'all of it'; }", JS),
    f"{SITE}app.webmanifest": (MANIFEST, "application/manifest+json"),
    f"{OTHER}widget": (WIDGET, HTML),
    f"{OTHER}widget.css": ("#words { color: rgb(7, 8, 9) }", CSS),
}
BODIES: dict[str, tuple[bytes, str]] = {
    **{url: (text.encode(), kind) for url, (text, kind) in TEXTS.items()},
    **{url: (drawing((number, 100, 200)), PNG) for url, number in _PICTURES.items()},
    f"{CDN}twin.png": (drawing((3, 100, 200)), PNG),  # the same bytes as picture.png
    f"{CDN}far.woff2": (b"wOF2" + bytes(400), FONT),
    f"{SITE}film.webm": (b"\x1a\x45\xdf\xa3" + bytes(50_000), "video/webm"),
}
MOVED, GONE, FORBIDDEN, LARGE = f"{SITE}moved.png", f"{SITE}gone.png", f"{SHY}private/secret.png", f"{SITE}film.webm"
REQUISITES = set(BODIES) - PAGES | {MOVED, GONE}  # what is asked for, beside the pages


def answer(url: str, before: int) -> ScriptedResponse | None:
    if url.endswith("/robots.txt"):
        return ScriptedResponse(b"User-agent: *\nDisallow: /private/\n", headers={"Content-Type": "text/plain"})
    if url == MOVED:
        return ScriptedResponse(code=302, headers={"Location": "/moved-here.png"})
    body, kind = BODIES.get(url, (b"", ""))
    return ScriptedResponse(body, headers={"Content-Type": kind, "ETag": '"1"'}) if kind else None
