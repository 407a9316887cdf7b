"""English and Portuguese sentences of `explain` and the dry run (to become gettext messages).

`explain` and a dry run name what is the case, with its numbers; here is the one table of sentences that it is said
by, English and Portuguese side by side. Promises: numbers are written as each language writes them; what a value
holds is never read as part of a sentence. Knows nothing of URLs.
"""

import string
from typing import Any, NamedTuple


class Sentence(NamedTuple):
    en: str
    pt: str


Value = str | int | float

SENTENCES: dict[str, Sentence] = {
    # in or out: by the names of `ruling.Rule`
    "root": Sentence("it is a root", "é uma raiz"),
    "host": Sentence("[scope] hosts = {what!r} matches it", "[scope] hosts = {what!r} corresponde a ela"),
    "no host": Sentence(
        "no pattern of [scope] hosts matches {what}", "nenhum padrão de [scope] hosts corresponde a {what}"
    ),
    "exclude": Sentence("[scope] exclude = {what!r} matches it", "[scope] exclude = {what!r} corresponde a ela"),
    "include": Sentence(
        "no pattern of [scope] include matches it ({what})",
        "nenhum padrão de [scope] include corresponde a ela ({what})",
    ),
    "type": Sentence(
        "its extension says {what}, which [scope] types does not name",
        "sua extensão diz {what}, que [scope] types não nomeia",
    ),
    "trap": Sentence("it looks like a trap: {what}", "parece uma armadilha: {what}"),
    "taken down": Sentence(
        "it was taken down (`tarrafa takedown list`)", "foi retirada do ar aqui (`tarrafa takedown list`)"
    ),
    "too deep": Sentence(
        "its depth {depth} is beyond [scope] depth_max = {limit}",
        "sua profundidade {depth} passa de [scope] depth_max = {limit}",
    ),
    "beyond": Sentence(
        "{outside}; it is fetched if a kept page links to it, and kept if its language is wanted: {what}",
        "{outside}; é buscada se uma página guardada aponta para ela, e guardada se está em: {what}",
    ),
    "led beyond": Sentence(
        "{outside}; a kept page led to it, so it is fetched, and kept if its language is wanted: {what}",
        "{outside}; uma página guardada levou a ela, por isso é buscada, e guardada se está em: {what}",
    ),
    "no url": Sentence("it is no http(s) URL or host name", "não é uma URL http(s) nem um nome de servidor"),
    "and more": Sentence("{some} and {more} more", "{some} e mais {more}"),
    # why it looks endless
    "segments": Sentence("more than {most} path segments", "mais de {most} partes no caminho"),
    "parameters": Sentence("more than {most} parameters", "mais de {most} parâmetros"),
    "repeated": Sentence("/{stretch} is repeated more than {most} times", "/{stretch} se repete mais de {most} vezes"),
    "barren": Sentence(
        "URLs made like it had nothing new to say for long", "URLs feitas como ela nada de novo diziam havia muito"
    ),
    "copies": Sentence(
        "copies_max = {copies}, alike_max = {alike} others said it before",
        "copies_max = {copies}, alike_max = {alike}: outras já o tinham dito",
    ),
    # the pause between two requests
    "by robots": Sentence("its robots.txt", "seu robots.txt"),
    # when its turn comes
    "now": Sentence("now", "agora"),
    "from": Sentence("from {at} on", "a partir de {at}"),
    "with a worker": Sentence("now: a worker has it", "agora: está com um coletor"),
    "not running": Sentence(
        "when the collection runs again (it is {state}{reason})",
        "quando a coleção voltar a rodar (está {state}{reason})",
    ),
    "taken down for ever": Sentence("never: it was taken down", "nunca: foi retirada do ar aqui"),
    "lifted": Sentence(
        "when the collection is started again: it was taken down, and lifted since",
        "quando a coleção for iniciada de novo: foi retirada do ar aqui, e liberada depois",
    ),
    "refused unasked": Sentence(
        "never: it was refused without a request (a change of [scope] has it judged again)",
        "nunca: foi recusada sem pedido algum (uma mudança em [scope] a faz ser julgada de novo)",
    ),
    "not found": Sentence(
        "when a run of the collection finds a way to it again",
        "quando uma execução da coleção achar de novo um caminho até ela",
    ),
    "nobody kept links": Sentence("no page that was kept links to it", "nenhuma página guardada aponta para ela"),
    "nobody visited links": Sentence("no page that was visited links to it", "nenhuma página visitada aponta para ela"),
    "lies too deep": Sentence("never: it lies beyond depth_max", "nunca: fica além de depth_max"),
    "forbidden": Sentence("never: robots.txt forbids it", "nunca: o robots.txt a proíbe"),
    "failed": Sentence(
        "when the collection is started again: it failed after its retries",
        "quando a coleção for iniciada de novo: falhou após as tentativas",
    ),
    "not kept": Sentence(
        "never: it was visited and is not kept, or no longer", "nunca: foi visitada e não está guardada, ou já não está"
    ),
    "no revisits": Sentence(
        "not planned: it was visited, and this collection makes no revisits",
        "não prevista: foi visitada, e esta coleção não faz revisitas",
    ),
    "not planned": Sentence("not planned: {why}", "não prevista: {why}"),
    "again": Sentence("{when}: {why}", "{when}: {why}"),
    "again by budget": Sentence(
        "{when}, as far as the {rate:g} revisits a day reach: {why}",
        "{when}, até onde chegam as {rate:g} revisitas por dia: {why}",
    ),
    "soon": Sentence("as soon as a worker is free{before}", "assim que um coletor estiver livre{before}"),
    "later": Sentence("from {at} on ({why}){before}", "a partir de {at} ({why}){before}"),
    "host failed": Sentence(
        "its host failed {failures} times in a row", "seu servidor falhou {failures} vezes seguidas"
    ),
    "host's delay": Sentence("its host's delay", "a pausa do seu servidor"),
    "after others": Sentence(
        " after the {place} of its host's URLs that go before it", " depois das {place} URLs do servidor que vão antes"
    ),
    # a walk by breadth
    "over": Sentence(
        "not in this run: the walk through {site} is over: {why}",
        "não nesta execução: a caminhada por {site} terminou: {why}",
    ),
    "over by the only page": Sentence(
        "its only page had {links:link} to other sites, {needed} would lead on",
        "sua única página tinha {links:link} para outros sites, {needed} levariam adiante",
    ),
    "over by the last page": Sentence(
        "the last of its {walked} pages had {links:link} to other sites, {needed} would lead on",
        "a última de suas {walked} páginas tinha {links:link} para outros sites, {needed} levariam adiante",
    ),
    "over in vain": Sentence("{vain} visits brought no page", "{vain} visitas não trouxeram página"),
    "over before": Sentence(
        "it was visited before the order became breadth, or could not be",
        "foi visitado antes de a ordem ser breadth, ou não pôde ser",
    ),
    "over with nothing left": Sentence(
        "after {walked:page} nothing more of it waited", "depois de {walked:page} nada mais dele esperava"
    ),
    "listed": Sentence(
        "when its site is chosen: {mentioned} and waits in the table of {table:site}; {begins}",
        "quando seu site for escolhido: {mentioned} e espera na tabela de {table:site}; {begins}",
    ),
    "heard": Sentence(
        "when its site comes into the table of {table:site} and is chosen: {mentioned}; {begins}",
        "quando seu site entrar na tabela de {table:site} e for escolhido: {mentioned}; {begins}",
    ),
    "mentioned": Sentence("{site} was mentioned {mentions:time}", "{site} foi mencionado {mentions:time}"),
    "begins here": Sentence("the walk then begins with this URL", "a caminhada começa então por esta URL"),
    "begins with": Sentence("the walk then begins with {best}", "a caminhada começa então por {best}"),
    "next of the walk": Sentence(
        "{soon}: it is page {number} of the walk through {site}",
        "{soon}: é a página {number} da caminhada por {site}",
    ),
    "if the walk gets there": Sentence(
        "if the walk through {site} gets there: {walked:page} so far, the next is {best};"
        " it goes on after page i while 2^i links lead to other sites",
        "se a caminhada por {site} chegar lá: {walked:page} até agora, a próxima é {best};"
        " ela continua após a página i enquanto 2^i ligações levam a outros sites",
    ),
    # what is believed of its changes
    "dates believed": Sentence("{dates} of its host are believed", "acredita-se em {dates} do seu servidor"),
    "dates and dates": Sentence("{one} and {other}", "{one} e {other}"),
    "sitemap dates": Sentence("sitemap dates", "datas de sitemap"),
    "no dates believed": Sentence(
        "no dates of its host are believed yet", "ainda não se acredita em datas do seu servidor"
    ),
    "proportional": Sentence(
        "every {span}: the time observed by the changes seen",
        "a cada {span}: o tempo observado pelas mudanças vistas",
    ),
    "rateupdate": Sentence(
        "by its rate {rate:.3g}, computed anew every 24 h", "por sua taxa {rate:.3g}, calculada de novo a cada 24 h"
    ),
    "uniform": Sentence("every page equally often", "toda página com a mesma frequência"),
    "planned": Sentence("the {policy} plan for {span} says so", "assim diz o plano {policy} para {span}"),
    "a listing": Sentence(
        "a sitemap or feed: once a day, beside the plan", "um sitemap ou feed: uma vez por dia, fora do plano"
    ),
    "gives its place": Sentence(
        "it gives its place to a more important page", "cede o lugar a uma página mais importante"
    ),
    "grace": Sentence(
        "it was gone the last time: one grace visit", "da última vez não estava lá: mais uma visita por cautela"
    ),
    "last visit failed": Sentence("its last visit failed", "sua última visita falhou"),
    "announced": Sentence(
        "its sitemap or feed says that it changed since the last visit",
        "seu sitemap ou feed diz que mudou desde a última visita",
    ),
    "changes too often": Sentence(
        "it changes so often that no visit would keep it fresh for long: others are worth more",
        "muda tanto que nenhuma visita a manteria atual por muito tempo: outras valem mais",
    ),
    "worth it": Sentence(
        "a visit is worth it {span} after the last ({bar}), then the best of its host goes first",
        "uma visita vale a pena {span} depois da última ({bar}), e então a melhor do servidor vai primeiro",
    ),
    "price": Sentence("the price that the budget sets", "o preço que o orçamento impõe"),
    "days": Sentence("{count:.3g} days", "{count:.3g} dias"),
    "h": Sentence("{count:.3g} h", "{count:.3g} h"),
    "min": Sentence("{count:.3g} min", "{count:.3g} min"),
    "s": Sentence("{count:.3g} s", "{count:.3g} s"),
}
NOUNS: dict[str, tuple[Sentence, Sentence]] = {  # one, and more or none
    "link": (Sentence("link", "ligação"), Sentence("links", "ligações")),
    "page": (Sentence("page", "página"), Sentence("pages", "páginas")),
    "site": (Sentence("site", "site"), Sentence("sites", "sites")),
    "time": (Sentence("time", "vez"), Sentence("times", "vezes")),
}
STATES: dict[str, Sentence] = {
    "ready": Sentence("ready", "pronta"),
    "waiting": Sentence("waiting", "à espera"),
    "paused": Sentence("paused", "pausada"),
    "stopped": Sentence("stopped", "parada"),
    "finished": Sentence("finished", "terminada"),
    "deleting": Sentence("deleting", "sendo apagada"),
    "importing": Sentence("importing", "sendo importada"),
}
_point_and_comma = str.maketrans(",.", ".,")


class Tongue(string.Formatter):
    """Says the sentences in one language: `say("mentioned", site=name, mentions=7)`."""

    def __init__(self, code: str) -> None:
        self.code = code
        self._place = Sentence._fields.index(code)

    def __call__(self, sentence: str, **values: Value) -> str:
        return self.vformat(SENTENCES[sentence][self._place], (), values)

    def state(self, name: str) -> str:
        """Of a collection."""
        return STATES[name][self._place] if name in STATES else name

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, str):
            return value
        if format_spec in NOUNS:
            return f"{self._number(value, ',')} {NOUNS[format_spec][value != 1][self._place]}"
        return self._number(value, format_spec or ",")

    def _number(self, value: float, form: str) -> str:
        text = format(value, form)
        return text.translate(_point_and_comma) if self.code == "pt" else text


ENGLISH, PORTUGUESE = Tongue("en"), Tongue("pt")


def tongue(code: str) -> Tongue:
    return PORTUGUESE if code == "pt" else ENGLISH
