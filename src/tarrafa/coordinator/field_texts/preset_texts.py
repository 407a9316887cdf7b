"""Titles and reasons of the presets, in English and Portuguese.

Titles by preset; reasons by key (`scope.hosts`), or by preset and key where a preset has a reason of its own.
"""

LANGUAGES = ("en", "pt")


def _said(english: str, portuguese: str) -> dict[str, str]:
    return {"en": english, "pt": portuguese}


TITLES = {
    "page": _said(
        "One page: the page itself, and nothing that it links to.",
        "Uma página: ela mesma e nada do que ela aponta.",
    ),
    "directory": _said(
        "One directory: everything below one path of a host.",
        "Um diretório: tudo abaixo de um caminho de um servidor.",
    ),
    "site": _said(
        "One site: everything on one host.",
        "Um sítio: tudo em um servidor.",
    ),
    "subdomains": _said(
        "A site with its subdomains: everything below a registered domain.",
        "Um sítio com seus subdomínios: tudo abaixo de um domínio registrado.",
    ),
    "country": _said(
        "A country's domain: everything below a top-level domain, within limits for each host.",
        "O domínio de um país: tudo abaixo de um domínio de topo, com limites para cada servidor.",
    ),
    "rdfa": _said(
        "Structured data: only pages of a site that carry RDFa, JSON-LD or microdata are kept.",
        "Dados estruturados: de um sítio só se guardam páginas com RDFa, JSON-LD ou microdata.",
    ),
    "legal-deposit": _said(
        "Legal deposit: a publisher's site with its documents, again every month, old versions kept.",
        "Depósito legal: o sítio de um editor com seus documentos, de novo a cada mês, guardando versões antigas.",
    ),
    "breadth": _said(
        "Discovery in breadth: which sites does a country have? A few pages of each, the most mentioned first.",
        "Descoberta em largura: que sítios tem um país? Poucas páginas de cada um, os mais citados primeiro.",
    ),
}

REASONS = {
    "how to start": _said(
        "tarrafa check {file} URL   says which URLs are in or out\n"
        "tarrafa estimate {file}    how long it will take\n"
        "tarrafa crawl {file}       starts it, and goes on after a stop",
        "tarrafa check {file} URL   diz quais URLs ficam dentro ou fora\n"
        "tarrafa estimate {file}    quanto vai durar\n"
        "tarrafa crawl {file}       começa, e continua depois de uma parada",
    ),
    "roots": _said(
        "Where to begin: URLs or host names. They are visited whatever the scope says.",
        "Onde começar: URLs ou nomes de servidores. São visitados, diga o escopo o que disser.",
    ),
    "scope.hosts": _said(
        "With and without www., where there are both: many sites redirect from one to the other.",
        "Com e sem www., onde há os dois: muitos sítios redirecionam de um para o outro.",
    ),
    "subdomains scope.hosts": _said(
        "The registered domain and everything below it, at any depth.",
        "O domínio registrado e tudo abaixo dele, em qualquer nível.",
    ),
    "rdfa scope.hosts": _said(
        "The registered domain and everything below it, at any depth.",
        "O domínio registrado e tudo abaixo dele, em qualquer nível.",
    ),
    "legal-deposit scope.hosts": _said(
        "The publisher's registered domain and everything below it.",
        "O domínio registrado do editor e tudo abaixo dele.",
    ),
    "country scope.hosts": _said(
        "Everything below the country's domain. Add the country's sites elsewhere by name.",
        "Tudo abaixo do domínio do país. Acrescente pelo nome os sítios do país que estão em outros domínios.",
    ),
    "breadth scope.hosts": _said(
        "Sites of the country. Links to others are counted, not followed.",
        "Sítios do país. Links para outros são contados, não seguidos.",
    ),
    "scope.include": _said(
        "Only URLs that match one of these belong, over http or https.\n"
        "Pages outside are not fetched, so what is linked from there only is not found.",
        "Só fazem parte URLs que correspondam a um destes, por http ou https.\n"
        "Páginas de fora não são buscadas; o que só elas apontam não é achado.",
    ),
    "scope.exclude": _said(
        "Pages without content of their own, often without end.",
        "Páginas sem conteúdo próprio, muitas vezes sem fim.",
    ),
    "page scope.depth_max": _said(
        "No links are followed; redirects are, they cost no depth.",
        "Nenhum link é seguido; redirecionamentos são, pois não custam profundidade.",
    ),
    "country scope.depth_max": _said(
        "What lies deeper than this is mostly made by machines.",
        "O que está mais fundo que isto é, na maior parte, feito por máquinas.",
    ),
    "scope.host_pages_max": _said(
        "No host may take the whole crawl; at one request every two seconds this is six hours.",
        "Nenhum servidor pode ocupar a coleta inteira; a um pedido a cada dois segundos são seis horas.",
    ),
    "legal-deposit scope.host_pages_max": _said(
        "A deposit wants all of it.",
        "Um depósito quer tudo.",
    ),
    "scope.site_hosts_max": _said(
        "Domains with a wildcard have hosts without end.",
        "Domínios com curinga têm servidores sem fim.",
    ),
    "scope.keep": _said(
        "All links are followed; only pages that state something are kept.",
        "Todos os links são seguidos; só se guardam páginas que declaram algo.",
    ),
    "scope.types": _said(
        "Publications are not only pages.",
        "Publicações não são só páginas.",
    ),
    "legal-deposit scope.size_max": _said(
        "A book in PDF is large.",
        "Um livro em PDF é grande.",
    ),
    "breadth scope.size_max": _said(
        "A first page larger than this says little more.",
        "Uma primeira página maior que isto pouco diz a mais.",
    ),
    "scope.copies_max": _said(
        "The same text under several addresses was published under several addresses.",
        "O mesmo texto em vários endereços foi publicado em vários endereços.",
    ),
    "politeness.delay": _said(
        "Between the end of an answer and the next request to the same host.",
        "Entre o fim de uma resposta e o próximo pedido ao mesmo servidor.",
    ),
    "politeness.contact": _said(
        "A page or address where webmasters reach you; sent with every request.",
        "Uma página ou endereço onde encontrar você; vai em cada pedido.",
    ),
    "fetch.sitemaps": _said(
        "Sitemaps and feeds would lead to other pages.",
        "Sitemaps e feeds levariam a outras páginas.",
    ),
    "breadth fetch.sitemaps": _said(
        "They lead deeper into a site; this looks for others.",
        "Levam mais fundo em um sítio; aqui se procuram outros.",
    ),
    "fetch.time_max": _said("Large documents take their time.", "Documentos grandes demoram."),
    "fetch.retries": _said(
        "What is missing in a deposit is missing for ever.",
        "O que falta em um depósito falta para sempre.",
    ),
    "strategy.order": _said(
        "What most pages link to comes first: whenever it ends, the important pages are there.",
        "Primeiro o que mais páginas apontam: quando quer que termine, as páginas importantes estão lá.",
    ),
    "breadth strategy.order": _said(
        "Sites that were not visited yet come first.",
        "Primeiro os sítios ainda não visitados.",
    ),
    "strategy.favour": _said(
        "Matters once hosts of other domains are added above.",
        "Importa quando servidores de outros domínios forem acrescentados acima.",
    ),
    "strategy.penalise": _said(
        "A poor choice for a site's first page.",
        "Uma má escolha para primeira página de um sítio.",
    ),
    "schedule.every": _said(
        "At two in the morning of each month's first day (UTC; timezone = names another), from the roots again.\n"
        "`tarrafa node` keeps to it; `tarrafa crawl` makes one run.",
        "Às duas da manhã do primeiro dia de cada mês (UTC; timezone = diz outro fuso), de novo desde as raízes.\n"
        "`tarrafa node` cuida disso; `tarrafa crawl` faz uma coleta só.",
    ),
}
