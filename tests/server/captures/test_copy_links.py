"""Each result and each page leads to its archived copy."""

from tests.server.conftest import RunningSite, links


def test_each_result_and_each_page_leads_to_its_archived_copy(site: RunningSite) -> None:
    _, text = site.get("/?q=rede&hl=en")
    copies = [link for link in links(text) if link.startswith("/copy?url=")]
    assert copies and len(copies) == text.count("<article")
    _, text = site.get("/page?url=http://h0.br.test/")
    assert "/copy?url=http%3A%2F%2Fh0.br.test%2F" in links(text)
