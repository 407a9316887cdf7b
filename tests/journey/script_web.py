"""Two real applications on loopback, made by their scripts: a Vue one built with Vite, and a docsify site whose script
comes from another host."""

import json
from pathlib import Path

from tests.journey.scripted_web import ScriptedResponse

SITES = Path(__file__).parent / "script_sites"
ITEMS = 4
CHAPTERS = ("guia", "redes")
ROBOTS = b"User-agent: *\nDisallow: /private/\n"
TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html; charset=utf-8", "json": "application/json"}
DOCSIFY = """<!DOCTYPE html>
<html lang="pt-BR"><head><meta charset="utf-8"><title>Manual</title></head>
<body><div id="app">Carregando…</div>
<script>window.$docsify = { name: "Manual", routerMode: "history", loadSidebar: true, basePath: "/" };</script>
<script src="http://cdn.test/docsify.min.js"></script></body></html>"""

VUE_PAGES = {"http://vue.test/", *(f"http://vue.test/item/{number}" for number in range(1, ITEMS + 1))}
DOCSIFY_PAGES = {"http://docs.test/", *(f"http://docs.test/{name}" for name in CHAPTERS)}


def file_of(path: Path) -> ScriptedResponse:
    kind = TYPES[path.suffix.removeprefix(".")]
    return ScriptedResponse(path.read_bytes(), headers={"Content-Type": kind, "ETag": '"1"'})


def data(content: object) -> ScriptedResponse:
    return ScriptedResponse(json.dumps(content).encode(), headers={"Content-Type": TYPES["json"]})


def markdown(text: str) -> ScriptedResponse:
    return ScriptedResponse(text.encode(), headers={"Content-Type": "text/markdown; charset=utf-8"})


def vue(path: str) -> ScriptedResponse | None:
    if path == "api/catalogue.json":
        return data([{"id": number, "name": f"Mapa {number}"} for number in range(1, ITEMS)])  # without the last
    if path.startswith("api/item/"):
        number = int(path.split("/")[2].removesuffix(".json"))
        text = f"O mapa número {number} mostra o litoral como os navegantes o viram, com rumos e sondagens. " * 3
        following = number + 1 if number < ITEMS else None
        return data({"name": f"Mapa {number}", "text": text, "next": following})
    if path.startswith("assets/"):
        return file_of(SITES / "vue" / "dist" / path)
    if path.startswith("private/"):
        return data([])
    return file_of(SITES / "vue" / "dist" / "index.html")  # any path: history routing


def docsify(path: str) -> ScriptedResponse | None:
    if path == "README.md":
        return markdown("# Manual\n\nComo se faz e se lança uma tarrafa, do primeiro nó ao último lance.")
    if path == "_sidebar.md":
        return markdown("".join(f"* [{name.title()}](/{name})\n" for name in CHAPTERS))
    if path.endswith(".md"):
        name = path.removesuffix(".md")
        return markdown(f"# {name.title()}\n\nO capítulo sobre {name}: " + "a malha, o fio e o chumbo. " * 10)
    return ScriptedResponse(DOCSIFY.encode(), headers={"Content-Type": TYPES["html"]})


def answer(url: str, before: int) -> ScriptedResponse | None:
    host, path = url.split("/", 3)[2:]
    if path == "robots.txt":
        return ScriptedResponse(ROBOTS, headers={"Content-Type": "text/plain"})
    if host == "vue.test":
        return vue(path)
    if host == "docs.test":
        return docsify(path)
    return file_of(SITES / "docsify" / path) if path == "docsify.min.js" else None
