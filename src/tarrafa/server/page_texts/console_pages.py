"""Texts of the console pages in English and Portuguese, side by side.

As `texts`, for those who run the crawl: English and Portuguese stand side by side here, because most are single
words.
"""

from typing import NamedTuple

import msgspec


class Said(NamedTuple):
    en: str
    pt: str


WORDS: dict[str, Said] = {
    # every page
    "console": Said("Console", "Console"),
    "collections": Said("Collections", "Coleções"),
    "nodes": Said("Nodes", "Nós"),
    "look_up": Said("Look up", "Consultar"),
    "audit": Said("Actions", "Ações"),
    "suggestions": Said("Suggestions", "Sugestões"),
    "viewer": Said("may only look", "só pode olhar"),
    "sign_out": Said("Sign out", "Sair"),
    "stale": Said(
        "The connection is lost: these are the last numbers that came. It is tried again.",
        "A ligação caiu: estes são os últimos números que chegaram. Nova tentativa em andamento.",
    ),
    "frontier_away": Said("Waiting: the URL server does not answer.", "À espera: o servidor de URLs não responde."),
    "save": Said("Save", "Salvar"),
    "cancel": Said("Cancel", "Cancelar"),
    "apply": Said("Apply", "Aplicar"),
    "yes": Said("yes", "sim"),
    "no": Said("no", "não"),
    "when": Said("When", "Quando"),
    "who": Said("Who", "Quem"),
    # collections
    "collection": Said("Collection", "Coleção"),
    "state": Said("State", "Estado"),
    "pages": Said("Pages", "Páginas"),
    "pages_per_s": Said("Pages/s", "Páginas/s"),
    "bytes_per_s": Said("Bytes/s", "Bytes/s"),
    "queue": Said("Queue", "Fila"),
    "known": Said("Known URLs", "URLs conhecidas"),
    "failed": Said("Failed", "Com falha"),
    "hosts": Said("Hosts", "Hosts"),
    "time_left": Said("Time left", "Tempo restante"),
    "no_collections": Said(
        "There is no collection yet. Describe what to crawl, and start it.",
        "Ainda não há coleções. Descreva o que coletar e inicie.",
    ),
    "new_collection": Said("New collection", "Nova coleção"),
    "edit": Said("Edit", "Editar"),
    "copy": Said("Copy", "Copiar"),
    "dry_run": Said("Dry run and estimate", "Ensaio e estimativa"),
    "versions": Said("Versions", "Versões"),
    "report": Said("Report", "Relatório"),
    "search_it": Said("Search it", "Pesquisar nela"),
    "span": Said("Period of the curves", "Período das curvas"),
    "curve_speed": Said("Pages per second", "Páginas por segundo"),
    "curve_bytes": Said("Bytes per second", "Bytes por segundo"),
    "curve_pages": Said("Pages, queue and failures", "Páginas, fila e falhas"),
    "curve_hosts": Said("Hosts", "Hosts"),
    "curve_fresh": Said("Share of pages that are as we have them", "Parte das páginas que está como a temos"),
    "active": Said("active", "ativos"),
    "waiting": Said("waiting", "à espera"),
    "backed_off": Said("resting after failures", "em descanso após falhas"),
    "fresh": Said("Fresh", "Atuais"),
    "no_script": Said(
        "The curves are drawn by a script; their numbers are also there as JSON.",
        "As curvas são desenhadas por um script; seus números também existem em JSON.",
    ),
    "next_run": Said("next run", "próxima execução"),
    "progress": Said("Progress", "Progresso"),
    "of": Said("of", "de"),
    "in_all": Said("in all", "ao todo"),
    "under_way": Said("under way", "em andamento"),
    "excluded": Said("excluded by robots.txt", "excluídas por robots.txt"),
    "visits": Said("Visits", "Visitas"),
    "requests": Said("requests", "pedidos"),
    "revisits": Said("Revisits", "Revisitas"),
    "changed": Said("had changed", "tinham mudado"),
    "run": Said("Run", "Execução"),
    "runs": Said("Runs", "Execuções"),
    "since": Said("since", "desde"),
    "responses": Said("Responses", "Respostas"),
    "status": Said("Status", "Estado"),
    "share": Said("Share", "Parte"),
    "nothing_yet": Said("Nothing yet.", "Nada ainda."),
    "newest": Said("Newest pages", "Páginas mais novas"),
    "errors": Said("Errors, with samples", "Erros, com exemplos"),
    "slowest": Said("Slowest hosts of the last minutes", "Hosts mais lentos dos últimos minutos"),
    "began": Said("Began", "Início"),
    "ended": Said("Ended", "Fim"),
    "nearly_done": Said("nearly done", "quase no fim"),
    "no_end": Said("keeps fresh until stopped", "mantém atual até ser parada"),
    "about": Said("about {time}", "cerca de {time}"),
    # what is to be crawled
    "edit_of": Said("Edit {name}", "Editar {name}"),
    "presets_intro": Said(
        "Begin with one of these and change what you like, or fill in the form below.",
        "Comece por um destes e mude o que quiser, ou preencha o formulário abaixo.",
    ),
    "wish_root": Said("Where to begin (URL)", "Onde começar (URL)"),
    "wish_country": Said("Country (top-level domain), if another", "País (domínio de topo), se for outro"),
    "wish_contact": Said("Contact: a page or address", "Contato: uma página ou endereço"),
    "fill_in": Said("Fill in the form", "Preencher o formulário"),
    "complaints": Said("{count} things are wrong; nothing was changed.", "{count} coisas estão erradas; nada mudou."),
    "complaints_one": Said("One thing is wrong; nothing was changed.", "Uma coisa está errada; nada mudou."),
    "more_settings": Said("{count} more settings", "Mais {count} ajustes"),
    "settings_of": Said("{count} settings", "{count} ajustes"),
    "list_kept": Said(
        "{count} entries are too many for a form: they stay as they are unless you write others here.",
        "{count} entradas são demais para um formulário: ficam como estão, a não ser que você escreva outras aqui.",
    ),
    "list_more": Said("… and {count} more", "… e mais {count}"),
    "list_replace": Said("Write here what takes the place of all of them", "Escreva aqui o que substitui todas elas"),
    "create_and_start": Said("Create and start", "Criar e iniciar"),
    "create_only": Said("Create only", "Só criar"),
    "as_toml": Said("As a file (TOML)", "Como arquivo (TOML)"),
    "version": Said("Version", "Versão"),
    "what_changed": Said("What changed", "O que mudou"),
    "created": Said("created", "criada"),
    "nothing_visible": Said("nothing that a form shows", "nada que um formulário mostre"),
    "estimate": Said("Estimate", "Estimativa"),
    "hosts_met": Said("{count} of them met before", "{count} deles já conhecidos"),
    "duration": Said("Duration", "Duração"),
    "transferred": Said("Transferred", "Transferidos"),
    "on_disk": Said("On disk", "Em disco"),
    "bandwidth": Said("Bandwidth", "Banda"),
    "open_end": Said("nobody knows", "ninguém sabe"),
    "assumptions": Said("What this rests on", "Em que isto se baseia"),
    "in_or_out": Said("In or out?", "Dentro ou fora?"),
    "paste_urls": Said("URLs, one per line", "URLs, uma por linha"),
    "judge": Said("Judge them", "Avaliar"),
    "try_first": Said("Try it before it is saved", "Experimente antes de salvar"),
    "try_help": Said(
        "With what stands in the form now. Nothing is saved or started, nobody is visited, and what you typed stays.",
        "Com o que está no formulário agora. Nada é salvo nem iniciado, ninguém é visitado, e o que foi digitado fica.",
    ),
    "try_wrong": Said(
        "It could not be tried: the form must be right first.",
        "Não foi possível experimentar: antes, o formulário precisa estar certo.",
    ),
    "try_no_urls": Said("Paste some URLs first.", "Primeiro cole algumas URLs."),
    "estimate_it": Said("Estimate how much it will be", "Estimar quanto será"),
    "verdict": Said("Verdict", "Veredito"),
    "rule": Said("By which rule", "Por qual regra"),
    "inside": Said("in", "dentro"),
    "outside": Said("out", "fora"),
    "delete_question": Said("Delete the collection {name}?", "Apagar a coleção {name}?"),
    "delete_means": Said(
        "Its {pages} pages leave the search, the link graph and the triple store, and everything known of its URLs is "
        "forgotten. The archive keeps what was fetched.",
        "Suas {pages} páginas saem da busca, do grafo de ligações e do repositório de triplas, e tudo o que se sabe de "
        "suas URLs é esquecido. O arquivo guarda o que foi coletado.",
    ),
    # secrets
    "secrets": Said("Secrets", "Segredos"),
    "secrets_intro": Said(
        "Headers, cookies and passwords for sites that one may enter: sent to these hosts only, "
        "never archived, never shown again.",
        "Cabeçalhos, cookies e senhas para sites em que se pode entrar: enviados só a estes hosts, "
        "nunca arquivados, nunca mostrados de novo.",
    ),
    "kind": Said("Kind", "Tipo"),
    "name": Said("Name", "Nome"),
    "remove": Said("Remove", "Remover"),
    "add_secret": Said("Add a secret", "Acrescentar um segredo"),
    "secret_name": Said("Name of the header, or user", "Nome do cabeçalho, ou usuário"),
    "secret_value": Said("Value, cookie or password", "Valor, cookie ou senha"),
    "without_tls": Said("also without TLS", "também sem TLS"),
    # what ended alike
    "means": Said("What it means", "O que significa"),
    "helps": Said("What usually helps", "O que costuma ajudar"),
    "urls": Said("URLs", "URLs"),
    "urls_again": Said("are tried again", "serão tentadas de novo"),
    "urls_failed": Said("given up", "abandonadas"),
    "of_visits": Said("of all visits", "de todas as visitas"),
    "lately": Said("In the last hour", "Na última hora"),
    "last_day": Said("in the last day", "no último dia"),
    "last_week": Said("in the last week", "na última semana"),
    "first_so": Said("The oldest", "A mais antiga"),
    "last_so": Said("The newest", "A mais nova"),
    "most_hosts": Said("Hosts with most of them", "Hosts que têm mais"),
    "not_whole": Said(
        "Counted on the first {count} URLs of the collection: there are more than are looked at here.",
        "Contado nas primeiras {count} URLs da coleção: há mais do que se olha aqui.",
    ),
    "no_urls_so": Said(
        "No URL stands so now: visits ended like this, and the same URLs were visited again since.",
        "Nenhuma URL está assim agora: visitas terminaram assim, e as mesmas URLs foram visitadas de novo depois.",
    ),
    "retry_alike": Said("Try all of them again now", "Tentar todas de novo agora"),
    "retried": Said(
        "{count} URLs wait again; each host is asked as soon as politeness allows.",
        "{count} URLs esperam de novo; cada host é consultado assim que a cortesia permitir.",
    ),
    "retried_one": Said(
        "One URL waits again; its host is asked as soon as politeness allows.",
        "Uma URL espera de novo; seu host é consultado assim que a cortesia permitir.",
    ),
    "retried_none": Said(
        "None of them had to be put in the queue: they wait already, or have been visited since. Their hosts may be "
        "asked at once.",
        "Nenhuma teve de entrar na fila: já esperam, ou foram visitadas depois. Seus hosts podem ser consultados já.",
    ),
    "retried_more": Said(
        "There are more than one wish reaches: try once more.", "Há mais do que um pedido alcança: tente mais uma vez."
    ),
    "only_when_running": Said(
        "They are visited when the collection runs.", "Serão visitadas quando a coleção estiver em execução."
    ),
    "last_visits": Said("Last visits", "Últimas visitas"),
    "no_samples": Said("No sample of it was seen lately.", "Nenhum exemplo foi visto ultimamente."),
    "samples": Said("The newest", "As mais novas"),
    # reports
    "report_of": Said("Of", "De"),
    "all_runs": Said("all runs together", "todas as execuções juntas"),
    "make_report": Said("Make a report now", "Fazer um relatório agora"),
    "making_report": Said("The report is being made:", "O relatório está sendo feito:"),
    "no_report": Said("No report was made of it yet.", "Ainda não foi feito nenhum relatório dela."),
    "compare_with": Said("compared with", "comparado com"),
    # looking up
    "look_intro": Said(
        "A URL or a host: why it is in or out, what robots.txt says, what became of it, and when its turn comes.",
        "Uma URL ou um host: por que está dentro ou fora, o que diz o robots.txt, o que houve e quando será a sua vez.",
    ),
    "look_label": Said("URL or host", "URL ou host"),
    "host": Said("Host", "Host"),
    "site": Said("Site", "Site"),
    "delay": Said("Delay", "Pausa"),
    "last_answer": Said("Last answer", "Última resposta"),
    "may_be_visited": Said("May be visited", "Pode ser visitado"),
    "failures_in_a_row": Said("Failures in a row", "Falhas seguidas"),
    "held_by": Said("With worker", "Com o coletor"),
    "urls_wait": Said("URLs that wait", "URLs à espera"),
    "visits_made": Said("Visits made", "Visitas feitas"),
    "trouble": Said("Trouble", "Problema"),
    "retry_now": Said("Retry now", "Tentar agora"),
    "block": Said("Block in", "Bloquear em"),
    "slow_down": Said("Pause of at least", "Pausa de pelo menos"),
    "in_collections": Said("in", "em"),
    "forget_host": Said("Forget the host", "Esquecer o host"),
    "forget_question": Said("Forget the host {host}?", "Esquecer o host {host}?"),
    "forget_means": Said(
        "Everything that is known of its URLs is lost, in all of these collections: what waits, what was visited and "
        "when, its robots.txt and delays. Their numbers shrink by it; one that has finished stays finished.",
        "Perde-se tudo o que se sabe de suas URLs, em todas estas coleções: o que espera, o que foi visitado e "
        "quando, seu robots.txt e suas pausas. Os números delas diminuem; a que terminou continua terminada.",
    ),
    "forget_keeps": Said(
        "Its pages that were fetched stay in the archive and in the search; `tarrafa takedown` takes them out there.",
        "Suas páginas já coletadas continuam no arquivo e na busca; `tarrafa takedown` as tira de lá.",
    ),
    "met_again": Said(
        "The host is met again, as a new one, when a page that links to it is visited again: at the latest in a "
        "collection's next run, because until then a worker does not repeat links that it has just handed in.",
        "O host volta a ser encontrado, como novo, quando uma página que aponta para ele for visitada de novo: o mais "
        "tardar na próxima execução de uma coleção, pois até lá um coletor não repete ligações que acabou de entregar.",
    ),
    "when_met_again": Said(
        "when a page that links to it is visited again", "quando uma página que aponta para ela for visitada de novo"
    ),
    "forget_held": Said(
        "It is with worker {worker} now, and can be forgotten when it comes back: block it first, or pause the "
        "collection.",
        "Está agora com o coletor {worker}, e pode ser esquecido quando voltar: bloqueie-o antes, ou pause a coleção.",
    ),
    "host_forgotten": Said(
        "Forgotten by {who} at {at}, with all that was known of its URLs.",
        "Esquecido por {who} em {at}, com tudo o que se sabia de suas URLs.",
    ),
    "host_never_met": Said("Nobody ever pointed to this host.", "Ninguém jamais apontou para este host."),
    "in_scope": Said("In scope", "No escopo"),
    "out_of_scope": Said("Out of scope", "Fora do escopo"),
    "robots": Said("robots.txt", "robots.txt"),
    "robots_unknown": Said("not asked for yet", "ainda não pedido"),
    "allowed": Said("allowed", "permitida"),
    "forbidden": Said("forbidden", "proibida"),
    "not_known": Said("not known here", "não conhecida aqui"),
    "known_since": Said("Known since", "Conhecida desde"),
    "depth": Said("Depth", "Profundidade"),
    "in_links": Said("In-links", "Ligações de entrada"),
    "next_visit": Said("Next visit", "Próxima visita"),
    "delay_by": Said("{seconds} s by {rule}", "{seconds} s por {rule}"),
    "same_text": Said("Same text as", "Mesmo texto que"),
    "announced": Said("Its author says that it changed", "Seu autor diz que mudou em"),
    "site_walk": Said(
        "{name}: {stage}, mentioned {mentions} times, {walked} pages walked",
        "{name}: {stage}, mencionado {mentions} vezes, {walked} páginas percorridas",
    ),
    "look_wrong": Said(
        "This is no URL and no host: write for example https://www.example.br/page or www.example.br.",
        "Isto não é URL nem host: escreva, por exemplo, https://www.example.br/pagina ou www.example.br.",
    ),
    "robots_answered": Said("answered {status}, holds until {until}", "resposta {status}, vale até {until}"),
    "robots_none": Said("could not be had", "não pôde ser obtido"),
    "no_line": Said("no line speaks of it", "nenhuma linha fala dela"),
    "changes_per_day": Said("Changes a day", "Mudanças por dia"),
    "history": Said("Visits", "Visitas"),
    "visit": Said("Visit", "Visita"),
    "text_changed": Said("Other text", "Outro texto"),
    "done": Said("Done.", "Feito."),
    # suggestions
    "suggest_title": Said("Suggest a site", "Sugerir um site"),
    "suggest_intro": Said(
        "Is a site missing here? Tell us where it begins. Somebody will look at it and decide whether it is collected.",
        "Falta algum site aqui? Diga onde ele começa. Alguém vai olhar e decidir se ele será coletado.",
    ),
    "suggest_label": Said("Address of the site", "Endereço do site"),
    "suggest_button": Said("Suggest it", "Sugerir"),
    "suggest_trap": Said("Leave this empty", "Deixe isto vazio"),
    "suggest_thanks": Said("Thank you. Somebody will look at it.", "Obrigado. Alguém vai olhar."),
    "suggest_private": Said(
        "Only the address of the site is kept, and the day; nothing about you.",
        "Guarda-se só o endereço do site e o dia; nada sobre você.",
    ),
    "suggest_wrong": Said(
        "This is no address of a site: write for example https://www.example.br/ or www.example.br.",
        "Isto não é endereço de site: escreva, por exemplo, https://www.example.br/ ou www.example.br.",
    ),
    "suggest_too_many": Said(
        "Too many suggestions came from your address: wait a minute and send it again.",
        "Vieram sugestões demais do seu endereço: espere um minuto e envie de novo.",
    ),
    "suggest_full": Said(
        "Too many suggestions wait to be read: come again in a few days.",
        "Há sugestões demais à espera de leitura: volte daqui a alguns dias.",
    ),
    "suggestions_intro": Said(
        "What visitors suggest. Accepted, a site is a root of the collection, with a version that can be taken back; "
        "rejected, it does not come back.",
        "O que os visitantes sugerem. Aceito, um site vira raiz da coleção, com uma versão que pode ser desfeita; "
        "recusado, ele não volta.",
    ),
    "suggestions_none": Said("Nothing waits for a decision.", "Nada espera por decisão."),
    "suggest_is_on": Said("Visitors can suggest sites at", "Visitantes podem sugerir sites em"),
    "suggest_is_off": Said("Visitors cannot suggest sites.", "Visitantes não podem sugerir sites."),
    "suggest_on": Said("Let visitors suggest", "Deixar visitantes sugerirem"),
    "suggest_off": Said("Close the form", "Fechar o formulário"),
    "suggest_choose": Said("Choose", "Escolher"),
    "suggest_times": Said("Times", "Vezes"),
    "suggest_accept": Said("Add to the collection", "Incluir na coleção"),
    "suggest_reject": Said("Reject", "Recusar"),
    "suggest_first": Said("From the beginning", "Do começo"),
    "suggest_more": Said("{count} more", "Mais {count}"),
    # nodes
    "orders": Said("Limits and roles", "Limites e papéis"),
    "roles": Said("Roles", "Papéis"),
    "workers": Said("Workers", "Coletores"),
    "hosts_at_once": Said("Hosts at once, of all workers", "Hosts ao mesmo tempo, de todos os coletores"),
    "cpu_limit": Said("Processor, % of all cores", "Processador, % de todos os núcleos"),
    "as_started": Said("as it was started", "como foi iniciado"),
    "pause_node": Said("Pause this node", "Pausar este nó"),
    "log_lines": Said("Latest log lines", "Últimas linhas do registro"),
    "obeys": Said("obeys order {number}", "obedece à ordem {number}"),
    "forget_node": Said("Forget this node", "Esquecer este nó"),
    "join_how": Said(
        "Another machine joins with `tarrafa node --join URL` and the token.",
        "Outra máquina participa com `tarrafa node --join URL` e o token.",
    ),
    "node": Said("Node", "Nó"),
    "worker_role": Said("worker", "coletor"),
    "cpu": Said("Processor", "Processador"),
    "load": Said("Load", "Carga"),
    "memory": Said("Memory", "Memória"),
    "disk_free": Said("Disk free", "Disco livre"),
    "processes": Said("Processes", "Processos"),
    "connections": Said("Connections", "Conexões"),
    "loop_lag": Said("Loop lag", "Atraso do laço"),
    "behind": Said("Behind the archive", "Atrás do arquivo"),
    "silent_for": Said("silent for {seconds} s", "em silêncio há {seconds} s"),
    "last_heard": Said("last heard: {state}", "última notícia: {state}"),
    "hosts_free": Said(
        "it holds no hosts: what it had, others take", "não retém nenhum host: o que tinha, outros assumem"
    ),
    "hosts_held": Said(
        "{hosts} hosts are held until {until}; others take them from {after} on",
        "{hosts} hosts ficam retidos até {until}; outros os assumem a partir das {after}",
    ),
    "clock_ahead": Said(
        "its clock is {time} ahead; its times are shown by ours",
        "seu relógio está {time} adiantado; seus horários são mostrados pelo nosso",
    ),
    "clock_behind": Said(
        "its clock is {time} behind; its times are shown by ours",
        "seu relógio está {time} atrasado; seus horários são mostrados pelo nosso",
    ),
    "died_ago": Said("died {time} ago", "morreu há {time}"),
    "nodes_alive": Said("{alive} of {all} alive", "{alive} de {all} vivos"),
    "no_nodes": Said("No node has been heard of.", "Nenhum nó deu sinal."),
}


class BoardTexts(msgspec.Struct, frozen=True):
    """The texts in one language; `of` is how templates see them: by their names."""

    code: str
    words: dict[str, str]
    states: dict[str, str]
    actions: dict[str, str]
    spans: dict[str, str]
    role_names: dict[str, str]
    secret_kinds: dict[str, str]
    fates: dict[str, str]
    url_states: dict[str, str]
    stages: dict[str, str]

    def __getattr__(self, name: str) -> str:
        try:
            return self.words[name]
        except KeyError:
            raise AttributeError(name) from None


STATES = {
    "ready": Said("ready", "pronta"),
    "waiting": Said("waiting", "à espera"),
    "running": Said("running", "em execução"),
    "paused": Said("paused", "pausada"),
    "stopped": Said("stopped", "parada"),
    "finished": Said("finished", "terminada"),
    "deleting": Said("being deleted", "sendo apagada"),
    "importing": Said("being imported", "sendo importada"),
    "failed": Said("failed", "falhou"),
    "starting": Said("starting", "iniciando"),
    "leaving": Said("leaving", "saindo"),
    "dead": Said("dead", "morto"),
    "silent": Said("silent", "em silêncio"),
}
URL_STATES = {
    "pending": Said("waits for its turn", "espera sua vez"),
    "handed out": Said("with a worker", "com um coletor"),
    "fetched": Said("kept", "guardada"),
    "dropped": Said("visited, not kept", "visitada, não guardada"),
    "failed": Said("failed", "falhou"),
    "excluded": Said("excluded by robots.txt", "excluída por robots.txt"),
    "too deep": Said("too deep", "funda demais"),
    "aside": Said("of an earlier run, not met yet", "de uma execução anterior, ainda não encontrada"),
    "passed over": Said("passed over", "deixada para trás"),
}
STAGES = {
    "unheard": Said("not mentioned yet", "ainda não mencionado"),
    "heard": Said("mentioned", "mencionado"),
    "listed": Said("in the table", "na tabela"),
    "chosen": Said("being walked", "sendo percorrido"),
    "over": Said("walked", "percorrido"),
}
ACTIONS = {
    "start": Said("Start", "Iniciar"),
    "pause": Said("Pause", "Pausar"),
    "resume": Said("Resume", "Retomar"),
    "retry": Said("Try failures again", "Tentar falhas de novo"),
    "stop": Said("Stop", "Parar"),
    "again": Said("Run again from the roots", "Executar de novo desde as raízes"),
    "delete": Said("Delete", "Apagar"),
}
FATES = {
    "again": Said(
        "May pass: such a URL is tried again, as often as the collection's retries say.",
        "Pode passar: tal URL é tentada de novo, tantas vezes quantas a coleção manda.",
    ),
    "unasked": Said("Settled without asking the host.", "Resolvido sem perguntar ao host."),
    "failed": Said("Given up; it can be tried again by hand.", "Abandonado; pode ser tentado de novo à mão."),
    "moved": Said("It leads elsewhere, and that is visited.", "Leva a outro lugar, que é visitado."),
    "had": Said("It is kept, if the collection wants such pages.", "É guardada, se a coleção quer tais páginas."),
    "answered": Said("An answer: nothing more comes of it.", "Uma resposta: nada mais resulta dela."),
}
SECRETS = {
    "header": Said("header", "cabeçalho"),
    "cookie": Said("cookie", "cookie"),
    "basic": Said("user and password", "usuário e senha"),
}
ROLES = {
    "worker": Said("crawls", "coleta"),
    "follower": Said("indexes what it crawled", "indexa o que coletou"),
    "search": Said("lets others search it", "deixa outros pesquisarem"),
}
SPANS = {
    "15m": Said("15 minutes", "15 minutos"),
    "3h": Said("3 hours", "3 horas"),
    "1d": Said("1 day", "1 dia"),
    "30d": Said("30 days", "30 dias"),
    "all": Said("all", "tudo"),
}


def board_texts(code: str) -> BoardTexts:
    place = Said._fields.index(code) if code in Said._fields else 0
    groups = (WORDS, STATES, ACTIONS, SPANS, ROLES, SECRETS, FATES, URL_STATES, STAGES)
    return BoardTexts(code, *({name: said[place] for name, said in group.items()} for group in groups))
