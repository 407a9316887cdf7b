"""A visitor suggests a site in a browser without JavaScript, an admin takes it in; on a phone, in the dark, and as
assistive technology sees it."""

from typing import Any

import pytest

from tests.server.auth.test_login_in_browser import browser, page_of, sign_in  # noqa: F401 (fixtures)
from tests.server.console.coordinator_site import NAME
from tests.server.console.example_console import ADMIN
from tests.server.test_search_in_browser import CHROMIUM, PHONE, fits, picture, violations

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}: install Debian's chromium"),
]


def test_a_site_is_suggested_and_taken_in_without_a_script(page_of: Any, furnished: Any) -> None:  # noqa: F811
    admin = page_of(furnished, java_script_enabled=False)
    admin.goto("/console/suggestions")
    sign_in(admin, *ADMIN)
    admin.get_by_role("button", name="Let visitors suggest").click()
    visitor = page_of(furnished, java_script_enabled=False, viewport=PHONE, locale="pt-BR")
    visitor.goto("/")
    visitor.get_by_role("link", name="Sugerir um site").click()
    box = visitor.locator("input[name=website]").bounding_box()
    assert box["x"] + box["width"] <= 0, "no person sees the field that only machines fill in"
    visitor.get_by_label("Endereço do site").fill("nenhum endereço")
    visitor.get_by_role("button", name="Sugerir").click()
    assert "Isto não é endereço de site" in visitor.get_by_role("alert").inner_text()
    assert visitor.get_by_label("Endereço do site").input_value() == "nenhum endereço"
    visitor.get_by_label("Endereço do site").fill("http://www.site.test/b")
    visitor.get_by_role("button", name="Sugerir").click()
    assert visitor.get_by_role("status").inner_text() == "Obrigado. Alguém vai olhar."
    admin.reload()
    admin.get_by_label("http://www.site.test/b").check()
    picture(admin, "suggestions-chosen")
    admin.get_by_role("combobox").select_option(NAME)
    admin.get_by_role("button", name="Add to the collection").click()
    assert admin.get_by_text("Nothing waits for a decision.").is_visible()
    admin.goto(f"/console/c/{NAME}/versions")
    assert admin.get_by_text("+ http://www.site.test/b").is_visible()
    table = furnished.program().get(f"/api/v1/collections/{NAME}/config").json["table"]
    assert table["roots"] == ["http://www.site.test/", "http://www.site.test/b"]
    admin.goto("/console/suggestions")
    admin.get_by_role("button", name="Close the form").click()
    before = {"table": table | {"roots": table["roots"][:1]}}
    assert furnished.program().send("PUT", f"/api/v1/collections/{NAME}/config", before).code == 200


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault_with_suggestions(page_of: Any, furnished: Any, scheme: str) -> None:  # noqa: F811
    program = furnished.program()
    program.send("PUT", "/api/v1/suggestions", {"is_on": True})
    page = page_of(furnished, color_scheme=scheme, **({"viewport": PHONE} if scheme == "dark" else {}))
    url = f"http://www.{scheme}.test/a-long-way-to-go/{'x' * 200}"
    try:
        page.goto("/suggest-site?hl=en")
        page.get_by_label("Address of the site").fill(url)
        picture(page, f"suggest-{scheme}")
        page.get_by_role("button", name="Suggest it").click()
        page.get_by_role("status").wait_for()
        assert violations(page) == []
        assert fits(page)
        page.goto("/console/suggestions?hl=en")
        sign_in(page, *ADMIN)
        page.get_by_label(url).wait_for()
        assert violations(page) == []
        assert fits(page)
        picture(page, f"suggestions-{scheme}")
        page.goto("/api")
        assert violations(page) == []
        assert fits(page)
        picture(page, f"api-{scheme}")
        assert page.complaints == []
    finally:
        program.send("POST", "/api/v1/suggestions/decisions", {"decision": "reject", "urls": [url]})
        program.send("PUT", "/api/v1/suggestions", {"is_on": False})
