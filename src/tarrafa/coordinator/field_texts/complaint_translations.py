"""Translations of the complaints about a collection into Portuguese.

By the shape of the sentence, as on the search page: {} stands for whatever the sentence speaks of, places and values
stay as they are. A sentence that nobody has translated is said in English.
tests/coordinator/field_texts/test_complaint_translations.py holds that none of those that a form can cause is left
out.
"""

import re
from functools import cache

PORTUGUESE = {
    "name is missing": "falta o nome (name)",
    "name: {} may hold a-z, 0-9, '.', '_' and '-' only": "name: {} só pode ter a-z, 0-9, '.', '_' e '-'",
    "name: it was {} and stays so; copy the collection to have another":
        "name: era {} e assim fica; copie a coleção para ter outra",
    "{} is fixed when a collection is created ({}); copy it to change that":
        "{} é fixado quando a coleção é criada ({}); copie-a para mudar isso",
    "roots: at least one URL or host name is needed (or roots_file)":
        "roots: é preciso ao menos uma URL ou um nome de servidor",
    "roots: {} are more than the {} allowed": "roots: {} são mais que as {} permitidas",
    "{}: not an http(s) URL or a host name: {}": "{}: não é uma URL http(s) nem um nome de servidor: {}",
    "roots_file: only a collection file can name another file; give the roots themselves":
        "roots_file: só um arquivo de coleção pode nomear outro arquivo; escreva as próprias raízes",
    "[network] ca_file: only a collection file on the crawler's own machine can name it (`tarrafa crawl FILE`)":
        "[network] ca_file: só um arquivo de coleção na máquina do coletor pode nomeá-lo (`tarrafa crawl FILE`)",
    "{}unknown key {} (allowed: {})": "{}chave desconhecida {} (permitidas: {})",
    "unknown field {}": "campo desconhecido {}",
    "the form holds more than the {} million characters allowed":
        "o formulário tem mais que os {} milhões de caracteres permitidos",
    "the text holds more than the {} million characters allowed":
        "o texto tem mais que os {} milhões de caracteres permitidos",
    "not valid TOML: {}": "não é TOML válido: {}",
    "{}: {} lines are more than the {} allowed": "{}: {} linhas são mais que as {} permitidas",
    "{}: line {} has more than the {} characters allowed": "{}: a linha {} tem mais que os {} caracteres permitidos",
    "{}: {} patterns are more than the {} allowed": "{}: {} padrões são mais que os {} permitidos",
    "{}: {}: what begins with a quotation mark must end with one, as in JSON":
        "{}: {}: o que começa com aspas deve terminar com aspas, como em JSON",
    "{}: {}: write a host pattern and its value in each line, such as {}":
        "{}: {}: escreva em cada linha um padrão de servidor e seu valor, como {}",
    "{}: {} stands there twice": "{}: {} aparece duas vezes",
    "{}: expected a whole number such as {}, got {}": "{}: esperava-se um número inteiro como {}, não {}",
    "{}: expected a number such as {}, got {}": "{}: esperava-se um número como {}, não {}",
    '{}: expected a list such as ["a", "b"], got {}': '{}: esperava-se uma lista como ["a", "b"], não {}',
    "{}: expected a table, got {}": "{}: esperava-se uma tabela, não {}",
    "{}: expected true or false, got {}": "{}: esperava-se true ou false (sim ou não), não {}",
    "{}: expected a text in quotation marks, got {}": "{}: esperava-se um texto entre aspas, não {}",
    "{}: invalid enum value {} (allowed: {})": "{}: valor desconhecido {} (permitidos: {})",
    "{}: not a size: {} (write for example 200 KB, 2 MB, 1 GiB)":
        "{}: não é um tamanho: {} (escreva por exemplo 200 KB, 2 MB, 1 GiB)",
    "{}: not a duration: {} (write for example 500ms, 1.5s, 10 min, 24h, 7 days)":
        "{}: não é uma duração: {} (escreva por exemplo 500ms, 1.5s, 10 min, 24h, 7 days)",
    "{}: not a date: {} (write for example 2026-12-01 or 2026-12-01T03:00)":
        "{}: não é uma data: {} (escreva por exemplo 2026-12-01 ou 2026-12-01T03:00)",
    "{}: write the time as the clock on the wall shows it, and its zone as timezone":
        "{}: escreva a hora como o relógio na parede a mostra, e o fuso em timezone",
    "{}: expected {}": "{}: esperava-se outra coisa: {}",
    "[revisit] share must be more than 0 and at most 1, got {}":
        "[revisit] share deve ser mais de 0 e no máximo 1, não {}",
    "{} must be {} or more, got {}": "{} deve ser {} ou mais, não {}",
    "{} must be {} at most, got {}": "{} deve ser no máximo {}, não {}",
    "[scope] types must name at least one MIME type, such as text/html":
        "[scope] types deve nomear ao menos um tipo MIME, como text/html",
    "[scope] types: {} is no MIME type such as text/html": "[scope] types: {} não é um tipo MIME como text/html",
    "{} is no pattern such as {}": "{} não é um padrão como {}",
    '[scope] vocabularies are those of keep = "structured": add it, or leave them out':
        '[scope] vocabularies valem com keep = "structured": acrescente-o, ou deixe-os fora',
    "[scope] vocabularies: {} is neither the address of a vocabulary, such as {}, nor one of the short names {}":
        "[scope] vocabularies: {} não é o endereço de um vocabulário, como {}, nem um dos nomes curtos {}",
    "[politeness] user_agent: {} must begin with one word that robots.txt can name, such as {}":
        "[politeness] user_agent: {} deve começar com uma palavra que o robots.txt possa nomear, como {}",
    "[politeness] contact must be one line of printable text": "[politeness] contact deve ser uma linha de texto",
    "[politeness] contact: {} names neither a page nor an address where webmasters reach you, such as {} or {}":
        "[politeness] contact: {} não diz nem uma página nem um endereço onde achar você, como {} ou {}",
    "[politeness] email: {} is no address such as {}": "[politeness] email: {} não é um endereço como {}",
    "[scope] languages: {} is no language that can be told; write the two letters of its code, such as {}":
        "[scope] languages: {} não é uma língua que se possa reconhecer; escreva as duas letras do código, como {}",
    "[politeness] email must be one address, such as {}": "[politeness] email deve ser um endereço, como {}",
    "[fetch] bandwidth and host_bandwidth must let a document of size_max pass within time_max":
        "[fetch] bandwidth e host_bandwidth devem deixar passar um documento de size_max dentro de time_max",
    "[schedule] timezone: {} is no time zone such as {}": "[schedule] timezone: {} não é um fuso horário como {}",
    "[schedule] every: {} is no period such as daily, 7 days, 6 hours, or five fields as cron has them, such as {}":
        "[schedule] every: {} não é um período como daily, 7 days, 6 hours, ou cinco campos como no cron, como {}",
    "[schedule] every: what was found in breadth cannot be found again from the roots; use another order in [strategy]":
        "[schedule] every: o que se achou em largura não se acha de novo a partir das raízes; "
        "use outra ordem em [strategy]",
    "[schedule] every and [revisit] exclude each other: a collection is visited again as a whole, or page by page; "
    "leave one of them out":
        "[schedule] every e [revisit] se excluem: visita-se de novo a coleção inteira, ou página por página; "
        "deixe um deles fora",
    "[schedule] deadline must be after start": "[schedule] deadline deve vir depois de start",
    "[notify] webhook: {} must be an http or https address": "[notify] webhook: {} deve ser um endereço http ou https",
    "[notify] email: {} is no address such as {}": "[notify] email: {} não é um endereço como {}",
    "[network] connect_to: {} is no address:port such as {}":
        "[network] connect_to: {} não é um endereço:porta como {}",
    "[network] dns: {} name servers are more than the {} allowed":
        "[network] dns: {} servidores de nomes são mais que os {} permitidos",
    "[network] dns: {} is no address such as {}": "[network] dns: {} não é um endereço como {}",
    "[network] proxy: a password does not belong here: the configuration is archived and shown. "
    "Let the proxy know this machine by its address":
        "[network] proxy: uma senha não cabe aqui: a configuração é arquivada e mostrada. "
        "Faça o proxy conhecer esta máquina pelo endereço",
    "[network] proxy: {} is no address such as {}": "[network] proxy: {} não é um endereço como {}",
    "[network] proxy and dns exclude each other: the proxy asks for names; leave one of them out":
        "[network] proxy e dns se excluem: é o proxy que pergunta pelos nomes; deixe um deles fora",
    "[network] proxy: only the proxy knows which hosts share an address; add [politeness] per_ip = false":
        "[network] proxy: só o proxy sabe que servidores têm o mesmo endereço; acrescente [politeness] per_ip = false",
    "[network] proxy: nobody here sees which addresses it connects to, so none can be refused. See that it keeps "
    "away from private ones, and say that you know: allow_private = true":
        "[network] proxy: ninguém aqui vê a que endereços ele se liga, e nenhum pode ser recusado. Cuide para que ele "
        "evite os privados, e diga que sabe disso: allow_private = true",
    '[network] suffixes: {} is no domain suffix; write it like "br.test"':
        '[network] suffixes: {} não é um sufixo de domínio; escreva como "br.test"',
}  # fmt: skip
SENTENCES = {"pt": PORTUGUESE}


def translated(message: str, code: str) -> str:
    """The sentence in that language, or as it is."""
    for pattern, template in _patterns(code):
        if match := pattern.fullmatch(message):
            return template.format(*match.groups()[: template.count("{}")])
    return message


@cache
def _patterns(code: str) -> list[tuple[re.Pattern[str], str]]:
    return [
        (re.compile("(.*?)".join(map(re.escape, english.split("{}"))), re.DOTALL), template)
        for english, template in SENTENCES.get(code, {}).items()
    ]
