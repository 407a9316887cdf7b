"""What each crawl status means for an operator and what helps, in English and Portuguese.

In both languages, side by side. A status of HTTP that has no words of its own has those of its hundred.
"""

from typing import NamedTuple

from tarrafa.model import Status
from tarrafa.server.page_texts.console_pages import Said


class Help(NamedTuple):
    """In one language. `helps` is empty where there is nothing to be done."""

    means: str
    helps: str


class Helping(NamedTuple):
    means: Said
    helps: Said = Said("", "")


WHOLE = Helping(
    Said("The server gave the page.", "O servidor entregou a página."),
    Said("", ""),
)
MOVED = Helping(
    Said("The server names another address, which is visited in its place.",
         "O servidor indica outro endereço, que é visitado no lugar deste."),
    Said("Usually nothing. If a whole site has moved, name its new address among the roots, and in [scope] hosts.",
         "Em geral, nada. Se um site inteiro mudou, ponha o novo endereço entre as raízes e em [scope] hosts."),
)  # fmt: skip
ASKED_WRONG = Helping(
    Said("The server does not give this page to us.", "O servidor não nos entrega esta página."),
    Said("Look at some samples in a browser. If they open there, the server treats crawlers otherwise: see that the "
         "user agent names a contact, and ask its webmaster.",
         "Veja alguns exemplos num navegador. Se lá abrem, o servidor trata coletores de outro modo: confira se o "
         "agente traz um contato, e fale com o responsável pelo site."),
)  # fmt: skip
BROKEN = Helping(
    Said("Something is broken at the server.", "Algo está quebrado no servidor."),
    Said("Mostly time: the URL is tried again, later each time. If one host has nearly all of them, give it a longer "
         "pause; when it is well again, retry.",
         "Quase sempre, tempo: a URL é tentada de novo, cada vez mais tarde. Se um só host tem quase todas, dê a ele "
         "uma pausa maior; quando estiver bem, tente de novo."),
)  # fmt: skip

HELP: dict[int, Helping] = {
    304: Helping(
        Said("The page is as it was at the last visit; the server did not send it again.",
             "A página está como na última visita; o servidor não a enviou de novo."),
    ),
    401: Helping(
        Said("The server wants to know who asks.", "O servidor quer saber quem pede."),
        Said("If you may enter, give the collection a user and password under Secrets, then retry; else exclude it.",
             "Se você pode entrar, dê à coleção um usuário e uma senha em Segredos e tente de novo; senão, exclua."),
    ),
    403: Helping(
        Said("The server forbids this page to us.", "O servidor nos proíbe esta página."),
        Said("A few are usual. If a host answers nothing else, it may have shut us out: lengthen its pause, and ask "
             "its webmaster before you retry.",
             "Alguns são normais. Se um host só responde isto, talvez nos tenha barrado: aumente a pausa e fale com o "
             "responsável antes de tentar de novo."),
    ),
    404: Helping(
        Said("There is no such page: the link that led there is dead.",
             "Não há tal página: a ligação até ela é morta."),
        Said("Nothing; every web has some. If a site was being rebuilt when we came, retry.",
             "Nada; toda web tem alguns. Se um site estava em obras quando passamos, tente de novo."),
    ),
    410: Helping(
        Said("The page is gone for good, says its server.", "A página não existe mais, diz o servidor."),
        Said("Nothing: it is right to leave it.", "Nada: o certo é deixá-la."),
    ),
    429: Helping(
        Said("The server says that we ask too often; its host rests.",
             "O servidor diz que pedimos demais; o host descansa."),
        Said("Give its hosts a longer pause (look one up, or set [politeness] delays). Do not retry before.",
             "Dê a esses hosts uma pausa maior (consulte um deles, ou ajuste [politeness] delays). Não tente antes."),
    ),
    503: Helping(
        Said("The server is busy or being repaired; its host rests for a while.",
             "O servidor está ocupado ou em manutenção; o host descansa um pouco."),
        Said("Time. If it does not pass, give those hosts a longer pause; retry when they are well again.",
             "Tempo. Se não passar, dê a esses hosts uma pausa maior; tente de novo quando estiverem bem."),
    ),
    Status.INVALID_RESPONSE: Helping(
        Said("What came back is no HTTP, or cannot be decoded.", "O que veio não é HTTP, ou não se decodifica."),
        Said("Look at the samples' errors: mostly a port that serves something else, or a broken compression. Exclude "
             "such a host, or tell its webmaster.",
             "Veja os erros dos exemplos: quase sempre uma porta que serve outra coisa, ou uma compressão estragada. "
             "Exclua tal host, ou avise o responsável."),
    ),
    Status.TYPE_NOT_WANTED: Helping(
        Said("The answer's type is not among those that the collection takes; it was cut at the header.",
             "O tipo da resposta não está entre os que a coleção aceita; foi cortada no cabeçalho."),
        Said("If you want such documents, name their type in [scope] types, then retry.",
             "Se você quer tais documentos, ponha o tipo em [scope] types e tente de novo."),
    ),
    Status.TOO_LARGE: Helping(
        Said("The document is larger than the collection takes.", "O documento é maior do que a coleção aceita."),
        Said("If you want it, raise [scope] size_max, then retry.",
             "Se você o quer, aumente [scope] size_max e tente de novo."),
    ),
    Status.ROBOTS: Helping(
        Said("The host's robots.txt asks us not to visit it, and we do not.",
             "O robots.txt do host pede que não a visitemos, e não visitamos."),
        Said("Only the webmaster can change that. Look a URL up to see the line that decides.",
             "Só o responsável pelo site pode mudar isso. Consulte uma URL para ver a linha que decide."),
    ),
    Status.TOO_SLOW: Helping(
        Said("The answer did not come in time.", "A resposta não veio a tempo."),
        Said("Time, and a longer pause for hosts that have most of them. If all hosts are slow, our own line may be "
             "full: look at the nodes.",
             "Tempo, e uma pausa maior para os hosts que têm mais delas. Se todos os hosts estão lentos, nossa própria "
             "linha pode estar cheia: veja os nós."),
    ),
    Status.SYSTEM_ERROR: Helping(
        Said("No connection: refused, reset, or the host cannot be reached.",
             "Sem conexão: recusada, interrompida, ou o host é inalcançável."),
        Said("If one host has them, it is down: retry when it is back. If all have them, look at our own network.",
             "Se um só host as tem, ele está fora do ar: tente quando voltar. Se todos as têm, veja a nossa rede."),
    ),
    Status.NAME_UNKNOWN: Helping(
        Said("The host's name leads nowhere.", "O nome do host não leva a lugar algum."),
        Said("Mostly links to sites that are gone: nothing to do. If names that exist fail, look at the name server of "
             "our machines, then retry.",
             "Quase sempre ligações para sites que acabaram: nada a fazer. Se nomes que existem falham, veja o "
             "servidor de nomes de nossas máquinas e tente de novo."),
    ),
    Status.HOST_GIVEN_UP: Helping(
        Said("Not asked for: its host had failed too often in a row.",
             "Não foi pedida: seu host tinha falhado vezes demais seguidas."),
        Said("Look up the hosts below for what went wrong; retry when they are well again.",
             "Consulte os hosts abaixo para ver o que houve; tente de novo quando estiverem bem."),
    ),
    Status.ADDRESS_REFUSED: Helping(
        Said("The name leads to an address that we never visit, such as one of a private network.",
             "O nome leva a um endereço que nunca visitamos, como o de uma rede privada."),
        Said("If you mean such a network, set [network] allow_private; else it is right so.",
             "Se você quer mesmo tal rede, ligue [network] allow_private; senão, está certo assim."),
    ),
    Status.TLS_ERROR: Helping(
        Said("No secure connection came about: mostly a certificate that is out of date or names another host.",
             "Não houve conexão segura: quase sempre um certificado vencido ou de outro host."),
        Said("Tell the webmaster. If you trust these sites all the same, change [network] tls, then retry.",
             "Avise o responsável. Se mesmo assim você confia nesses sites, mude [network] tls e tente de novo."),
    ),
    Status.REDIRECTS_EXCEEDED: Helping(
        Said("One address led to the next, and that to the next: too many times.",
             "Um endereço levou a outro, e este a outro: vezes demais."),
        Said("Mostly a circle, often one that wants a cookie. Look at a sample in a browser; retry if it was mended.",
             "Quase sempre um círculo, muitas vezes à espera de um cookie. Veja um exemplo num navegador; tente de "
             "novo se foi consertado."),
    ),
    Status.TRAP: Helping(
        Said("Not asked for: by its looks, or by what came of others like it, there is no end to such pages.",
             "Não foi pedida: por sua forma, ou pelo que deram outras como ela, tais páginas não têm fim."),
        Said("Look some up. If they are good pages, raise [scope] copies_max and alike_max: they are judged again.",
             "Consulte algumas. Se são boas páginas, aumente [scope] copies_max e alike_max: são julgadas de novo."),
    ),
    Status.HOST_FULL: Helping(
        Said("Not asked for: its host, or its site, has reached the collection's cap.",
             "Não foi pedida: seu host, ou seu site, chegou ao limite da coleção."),
        Said("If you want more of it, raise [scope] host_pages_max or site_hosts_max; they are then judged again.",
             "Se você quer mais, aumente [scope] host_pages_max ou site_hosts_max; são então julgadas de novo."),
    ),
    Status.LANGUAGE_NOT_WANTED: Helping(
        Said("Fetched, and in none of the collection's languages.", "Buscada, e em nenhum dos idiomas da coleção."),
        Said("If you want it, add its language to [scope] languages, then retry.",
             "Se você a quer, acrescente o idioma a [scope] languages e tente de novo."),
    ),
    Status.OUT_OF_SCOPE: Helping(
        Said("It waited, and the collection no longer wants it.", "Estava à espera, e a coleção não a quer mais."),
        Said("A change of [scope] has it judged again.", "Uma mudança em [scope] a faz ser julgada de novo."),
    ),
    Status.COPY: Helping(
        Said("Fetched: it says the same as many other URLs of its host.",
             "Buscada: diz o mesmo que muitas outras URLs do seu host."),
        Said("Mostly right: an error page that calls itself a page, or a session in the URL. To keep more of them "
             "raise [scope] copies_max, then retry.",
             "Quase sempre certo: uma página de erro que se diz página, ou uma sessão na URL. Para guardar mais delas, "
             "aumente [scope] copies_max e tente de novo."),
    ),
    Status.REPLACED: Helping(
        Said("It was kept, and gave its place to a more important page: the collection is full.",
             "Estava guardada, e cedeu o lugar a uma página mais importante: a coleção está cheia."),
        Said("Raise [scope] pages_max to keep more.", "Aumente [scope] pages_max para guardar mais."),
    ),
    Status.LANGUAGE_OUTSIDE: Helping(
        Said("Outside the scope; fetched because a kept page links to it, and in no wanted language.",
             "Fora do escopo; buscada porque uma página guardada aponta para ela, e em nenhum idioma desejado."),
        Said("Nothing: that is how such a collection finds its borders.",
             "Nada: é assim que tal coleção acha suas fronteiras."),
    ),
    Status.TAKEN_DOWN: Helping(
        Said("Those who run this engine have taken it down.", "Quem opera este sistema a retirou do ar aqui."),
        Said("`tarrafa takedown list` says who and why.", "`tarrafa takedown list` diz quem e por quê."),
    ),
    Status.NOT_STRUCTURED: Helping(
        Said("Fetched, and without data of the kind that the collection keeps.",
             "Buscada, e sem dados do tipo que a coleção guarda."),
        Said("Nothing; [scope] keep says what is kept.", "Nada; [scope] keep diz o que é guardado."),
    ),
    Status.NOT_FOUND_AGAIN: Helping(
        Said("An earlier run kept it, and the last one met no way to it: it left the search.",
             "Uma execução anterior a guardou, e a última não achou caminho até ela: saiu da busca."),
        Said("Nothing, if the site changed. If it is still there, name it among the roots.",
             "Nada, se o site mudou. Se ela ainda existe, ponha-a entre as raízes."),
    ),
    Status.HOSTILE: Helping(
        Said("Reading it cost more than one page may: it was put away.",
             "Lê-la custou mais do que uma página pode custar: foi deixada de lado."),
        Said("Look at a sample with care. Retry only if the page was mended.",
             "Veja um exemplo com cuidado. Só tente de novo se a página foi consertada."),
    ),
    Status.STARVED: Helping(
        Said("The time was over because our own machine could not keep up; nobody else is to blame.",
             "O tempo acabou porque a nossa própria máquina não deu conta; ninguém mais tem culpa."),
        Said("Look at the nodes: fewer hosts at once, or one more machine. It is tried again by itself.",
             "Veja os nós: menos hosts ao mesmo tempo, ou mais uma máquina. É tentada de novo por si."),
    ),
}  # fmt: skip
HUNDREDS = {2: WHOLE, 3: MOVED, 4: ASKED_WRONG, 5: BROKEN}
UNKNOWN = Helping(
    Said("An answer that no standard knows.", "Uma resposta que nenhum padrão conhece."),
    Said("Look at some samples.", "Veja alguns exemplos."),
)


def help_with(status: int, code: str) -> Help:
    """For people who speak `code`."""
    found = HELP.get(status) or HUNDREDS.get(status // 100, UNKNOWN)
    place = Said._fields.index(code) if code in Said._fields else 0
    return Help(found.means[place], found.helps[place])
