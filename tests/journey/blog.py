"""A Portuguese blog about films with the faults of real ones, for `scripted_web`.

Its generator declares `lang="en-us"` on every page, puts the name of the blog before every title, dates posts in the
byline alone, repeats its menu and sidebar on every page, and has tag pages that are lists of links. Some posts are
short, one is English, two are mostly code. Every page has a refresh inside `noscript`; one post reloads itself by a
refresh; one page moves by a script; one post has a print view that names its canonical URL.
"""

from dataclasses import dataclass

from tests.journey.scripted_web import ScriptedResponse

HOST = "http://cinema.test"
NAME = "Cinema de Bolso"
MONTHS = (
    "janeiro", "fevereiro", "março", "abril", "maio", "junho",
    "julho", "agosto", "setembro", "outubro", "novembro", "dezembro",
)  # fmt: skip
MENU = ("Home", "About this blog", "Archive", "Search", "Subscribe by email", "Privacy policy", "Contact")
SIDEBAR = "Este espaço reúne resenhas semanais escritas por dois amigos que assistem a filmes no sofá de casa."


@dataclass(frozen=True)
class Post:
    """A post with its day (year, month, day), its tags and its paragraphs."""

    slug: str
    title: str
    day: tuple[int, int, int]
    tags: tuple[str, ...]
    paragraphs: tuple[str, ...]
    head: str = ""
    language: str = "pt"

    @property
    def url(self) -> str:
        return f"{HOST}/{self.slug}"

    @property
    def date(self) -> str:
        return "{:04}-{:02}-{:02}".format(*self.day)


POSTS = (
    Post("manhattan", "Manhattan em preto e branco", (2009, 3, 12), ("comedia", "diretores"), (
        "Woody Allen abre a cidade com Gershwin e não a larga mais. Cada esquina parece fotografada por alguém que "
        "voltou de uma longa viagem e encontrou tudo no lugar.",
        "O roteiro é amargo, mas a câmera perdoa todo mundo. Woody Allen nunca mais filmou tão perto do rio.",
    )),
    Post("noivo-neurotico", "Noivo neurótico, noiva nervosa", (2009, 4, 2), ("comedia", "diretores"), (
        "Antes de qualquer piada, Woody Allen já desistiu de contar a história em ordem. O namoro começa pelo fim e "
        "termina numa calçada.",
        "Diane Keaton canta numa boate vazia, e o filme para para escutar.",
    )),
    Post("casa-velha", "Um filme de terror numa casa velha", (2010, 10, 31), ("terror",), (
        "Nada assusta tanto quanto uma porta que range sem vento. Este filme de terror tem três atores, uma escada e "
        "nenhum efeito digital.",
        "O diretor deixa a luz do corredor acesa e, mesmo assim, ninguém na sala quer olhar para o fundo do quadro.",
    )),
    Post("sessao-da-tarde", "Lembranças da sessão da tarde", (2011, 1, 20), ("memoria",), (
        "A televisão ficava na cozinha, e o filme de cada dia era escolhido pelo canal. Ninguém reclamava de reprise.",
        "Hoje procuro as mesmas cópias dubladas, com as vozes de que a memória precisa para funcionar.",
    )),
    Post("montagem-em-cpp", "Um editor de vídeo escrito em C++", (2012, 6, 5), ("oficina",), (
        "Escrevi em C++ um pequeno programa que corta cenas pelo som. O código inteiro cabe em duas páginas.",
        "<pre><code>#include &lt;vector&gt;\nint main(int argc, char **argv) {\n  std::vector&lt;frame&gt; frames = "
        "read_all(argv[1]);\n  for (auto const &amp;current : frames) { if (current.is_silent()) cut(current); }\n"
        "  return write_file(frames, argv[2]);\n}</code></pre>",
        "Com C++ a exportação leva menos tempo do que assistir ao curta.",
    )),
    Post("legendas-em-csharp", "Legendas sincronizadas com C#", (2012, 7, 9), ("oficina",), (
        "A segunda oficina usa C# para acertar o tempo das legendas que chegam atrasadas. Bastam vinte linhas e "
        "paciência.",
        "Quem prefere outra linguagem pode repetir o exercício, mas C# já traz tudo de que precisamos.",
    )),
    Post("curta", "Sem palavras", (2013, 2, 3), ("curtas",), ("Cinco minutos. Sem falas. Vejam.",)),
    Post("nota", "Volto em março", (2013, 2, 27), ("memoria",), ("Férias até o carnaval acabar.",)),
    Post("interview", "An interview in English", (2014, 5, 8), ("diretores",), (
        "For once this page is written in English, because our guest asked for it. We talked about lenses, patience "
        "and the price of film stock in the seventies.",
        "She still edits on paper before she touches a computer, and she thinks that every scene is too long.",
    ), language="en"),
    Post("placar", "Bilheteria da semana, atualizada sozinha", (2015, 8, 15), ("memoria",), (
        "A tabela de bilheteria se atualiza sozinha a cada poucos segundos, para quem gosta de acompanhar a disputa "
        "dos estúdios como se fosse futebol.",
        "Nesta semana uma comédia brasileira de baixo orçamento passou na frente de dois heróis americanos.",
    ), head='<meta http-equiv="refresh" content="3; url=/manhattan">'),
    Post("restauracao", "A cópia restaurada de Limite", (2016, 9, 21), ("memoria",), (
        "Limite voltou ao cinema numa cópia restaurada que respeita os riscos do negativo. O mar de Mário Peixoto "
        "nunca pareceu tão cinzento.",
        "A sessão acabou em silêncio, e depois ninguém soube o que dizer na fila do café.",
    )),
    Post("trilha", "A trilha que ninguém ouviu", (2017, 11, 30), ("curtas",), (
        "O compositor gravou quarenta minutos de música para um documentário de trinta. O que sobrou virou disco.",
        "Ouvindo a trilha sem imagens, a gente imagina um filme melhor do que aquele que foi lançado.",
    )),
)  # fmt: skip
TAGS = ("comedia", "diretores", "terror", "memoria", "oficina", "curtas")
MOVED, PRINTED = f"{HOST}/antigo", f"{HOST}/restauracao?print=1"


def _page(title: str, content: str, head: str = "") -> ScriptedResponse:
    menu = "".join(f'<li><a href="/pages/{name.split()[0].lower()}">{name}</a></li>' for name in MENU)
    html = (
        f'<!doctype html><html lang="en-us"><head><title>{NAME} » {title}</title>'
        '<noscript><meta http-equiv="refresh" content="0; url=/pages/noscript"></noscript>'
        f'{head}</head><body><ul class="top">{menu}</ul><div id="wrap">{content}</div>'
        f'<div id="side"><p>{SIDEBAR}</p><p>Filmes e discos. Powered by a theme called Pocket Theater.</p></div>'
        "</body></html>"
    )
    return ScriptedResponse(html.encode(), headers={"Content-Type": "text/html; charset=utf-8"})


def _post(post: Post, head: str = "") -> ScriptedResponse:
    year, month, day = post.day
    byline = f"Publicado por Ana em {day} de {MONTHS[month - 1]} de {year}"
    if post.language == "en":
        byline = f"Published by Ana on May {day}, {year}"
    body = "".join(text if text.startswith("<pre") else f"<p>{text}</p>" for text in post.paragraphs)
    return _page(post.title, f"<h2>{post.title}</h2><div>{byline}</div>{body}", post.head + head)


def _list(title: str, posts: tuple[Post, ...], more: str = "") -> ScriptedResponse:
    entries = "".join(f'<li><a href="/{post.slug}">{post.title}</a></li>' for post in posts)
    return _page(title, f"<h2>{title}</h2><ul>{entries}</ul>{more}")


def answer(url: str, _: int = 0) -> ScriptedResponse | None:
    """What the blog says, for `scripted_web`."""
    path = url.removeprefix(f"{HOST}/")
    by_slug = {post.slug: post for post in POSTS}
    if not path:
        tags = "".join(f'<li><a href="/tag/{tag}">{tag}</a></li>' for tag in TAGS)
        more = '<a href="/antigo">antigo</a><a href="/restauracao?print=1">imprimir</a>'
        return _list("Início", POSTS, f"<ul>{tags}</ul>{more}")
    if path.startswith("tag/") and path[4:] in TAGS:
        return _list(f"Arquivo de {path[4:]}", tuple(post for post in POSTS if path[4:] in post.tags))
    if url == MOVED:
        script = b'<html><body><script>window.location.href = "/escondido";</script></body></html>'
        return ScriptedResponse(script, headers={"Content-Type": "text/html"})
    if path == "escondido":
        return _page("Escondido", "<h2>Escondido</h2><p>Esta página só existe para quem segue o script.</p>")
    if url == PRINTED:
        return _post(by_slug["restauracao"], f'<link rel="canonical" href="{HOST}/restauracao">')
    return _post(by_slug[path]) if path in by_slug else None
