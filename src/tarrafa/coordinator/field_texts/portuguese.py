"""The texts of the collection fields in Portuguese."""

from tarrafa.coordinator.field_texts import Words, from_rows, pairs

FIELDS = from_rows("""
name | Nome | a-z, 0-9, ponto, sublinhado e hífen; não muda mais
roots | Onde começar | URLs ou nomes de servidores, um por linha; são sempre visitados, diga o escopo o que disser
scope.hosts | Servidores | um padrão por linha: www.a.br só ele, *.br tudo abaixo de br, * todos; vazio: os das raízes
scope.include | Só estas URLs | um padrão por linha, como http*://www.a.br/noticias/*; vazio: todas desses servidores
scope.exclude | Não estas URLs | um padrão por linha, como */login*
scope.types | Tipos de documento | tipos MIME, um por linha; o resto não é buscado
scope.size_max | Maior documento | por exemplo 2 MB; o que passa disso é cortado
scope.depth_max | Profundidade | o máximo de cliques desde o começo; 0: só as raízes; vazio: sem limite
scope.pages_max | Páginas | o máximo de páginas guardadas; vazio: sem limite
scope.requests_max | Visitas | o máximo de visitas, guardadas ou não; vazio: sem limite
scope.host_pages_max | Visitas a um servidor | o máximo
scope.site_hosts_max | Servidores de um sítio | o máximo; alguns domínios têm nomes sem fim
scope.copies_max | Cópias de um texto | outras URLs do servidor com o mesmo texto não são guardadas
scope.alike_max | Textos parecidos | o mesmo para textos que só diferem em números, como calendários
scope.languages | Línguas | códigos como pt, um por linha: só se guardam páginas nelas; vazio: todas
scope.beyond | Olhar além dos servidores | com línguas: o que as páginas guardadas apontam fora também é olhado
scope.keep | Guardar | todas as páginas ou só as que trazem dados estruturados
scope.vocabularies | Vocabulários | com dados estruturados: só páginas que usem um destes, como schema; um por linha
politeness.delay | Pausa | entre o fim de uma resposta e o próximo pedido ao mesmo servidor, por exemplo 1 s
politeness.delays | Pausas de alguns servidores | uma por linha: padrão = pausa, por exemplo *.a.br = 5 s
politeness.delay_factor | Pausa pela duração | e não antes de tantas vezes a duração da última resposta
politeness.delay_max | Maior pausa | o máximo que um Crawl-delay ou uma resposta lenta pode pedir
politeness.backoff | Pausa após uma falha | dobra a cada falha, até um dia
politeness.per_ip | Um servidor por endereço | servidores com o mesmo endereço IP contam como um só
politeness.robots | robots.txt | só ignore em servidores seus
politeness.user_agent | Nosso nome | como o coletor se apresenta; os responsáveis pelos sítios o veem
politeness.contact | Contato | uma página ou endereço onde encontrar você; vai em cada pedido
politeness.email | E-mail | vai em cada pedido como From
fetch.time_max | Transferência mais longa | por exemplo 10 min
fetch.connect_timeout | Tempo para conectar | por exemplo 20 s
fetch.stall_timeout | Maior silêncio | desiste-se de uma transferência que nada traz por tanto tempo
fetch.hosts_at_once | Servidores ao mesmo tempo | que um trabalhador visita
fetch.redirects_max | Redirecionamentos | a cadeia mais longa
fetch.retries | Novas tentativas | de uma URL, após uma falha passageira
fetch.host_failures_max | Falhas de um servidor | seguidas, com pausas entre elas; depois se desiste dele
fetch.bandwidth | Banda | bytes por segundo ao todo, por exemplo 2 MB; vazio: sem limite
fetch.host_bandwidth | Banda de um servidor | bytes por segundo, por exemplo 200 KB; vazio: sem limite
fetch.sitemaps | Sitemaps | seguir os que o robots.txt anuncia
fetch.feeds | Feeds | seguir os feeds RSS e Atom que as páginas anunciam
strategy.order | Ordem | quais URLs novas são visitadas primeiro
strategy.favour | Primeiro | padrões de servidores, um por linha, visitados antes dos outros
strategy.penalise | Por último | padrões de URLs, um por linha, visitadas depois das outras
strategy.table_max | Sítios na tabela | da busca em largura: o máximo
strategy.cycle | Sítios de um ciclo | da busca em largura: quantos são escolhidos de cada vez
strategy.weights.length | Peso do comprimento | da busca em largura: quanto vale uma URL curta
strategy.weights.block | Peso dos blocos | da busca em largura: quanto valem poucos passos no caminho
strategy.weights.favour | Peso do favor | da busca em largura: quanto vale um servidor favorecido
strategy.weights.penalty | Peso da pena | da busca em largura: quanto custa uma URL penalizada
revisit.policy | Manter atual | como se decide quando visitar de novo; nunca: coleta-se uma vez
revisit.rate | Revisitas por dia | o máximo; vazio: o que a cortesia permite
revisit.share | Parte das revisitas | das visitas a um servidor, enquanto há URLs novas nele; mais de 0, no máximo 1
revisit.horizon | Horizonte | das políticas que planejam: psp, mp2, m-wolf
revisit.interval_min | Menor intervalo | entre duas visitas a uma página
revisit.grace | Tolerância | uma página que sumiu é pedida mais uma vez depois deste tempo
revisit.weigh | As páginas valem por | seus links de entrada, sua posição, ou todas igual
schedule.start | Início | não antes desta data e hora, por exemplo 2026-12-01 ou 2026-12-01T03:00
schedule.deadline | Prazo | não depois desta data e hora, por exemplo 2026-12-31 ou 2026-12-31T23:59
schedule.every | Repetir | daily, 7 days, 6 hours, ou cinco campos como no cron, por exemplo 0 3 * * 1
schedule.timezone | Fuso horário | destas datas, por exemplo America/Sao_Paulo
notify.webhook | Webhook | um endereço http ou https que fica sabendo
notify.email | E-mail para | um endereço por linha
notify.events | Avisar quando | o que vale um aviso
notify.stalled | Parada depois de | tanto tempo sem visita, embora esteja ativa
network.connect_to | Conectar a | um por linha: padrão = endereço:porta, por exemplo *.test = 127.0.0.1:8090
network.allow_private | Endereços privados | visitar servidores que não estão na Internet pública
network.tls | Certificados | rigoroso, ou aceitar os ruins e anotar o que havia
network.suffixes | Sufixos de domínio | além dos da lista pública, um por linha
network.dns | Servidores de nomes | em vez dos do sistema, um endereço por linha, por exemplo 9.9.9.9 ou 9.9.9.9:5353
network.proxy | Proxy | por quem passam todos os pedidos, por exemplo http://proxy:3128 ou socks5h://localhost:1080
identity.fold_case | Ignorar maiúsculas nos caminhos | fixado quando a coleção é criada
identity.strip_slash | Ignorar a barra no fim | fixado quando a coleção é criada
""")

PORTUGUESE = Words(
    code="pt",
    sections=pairs("""
     | Coleção
scope | O que faz parte dela
politeness | Com que cortesia
fetch | Limites de uma transferência
strategy | O que vem primeiro
revisit | Quando voltar
schedule | Quando ela trabalha
notify | Quem fica sabendo
network | Rede
identity | Quais URLs são a mesma página
"""),
    fields=FIELDS,
    choices=pairs("""
scope.keep all | todas as páginas
scope.keep structured | só páginas com RDFa, JSON-LD ou microdata
politeness.robots obey | obedecer
politeness.robots ignore | ignorar
strategy.order breadth | largura: sítios novos primeiro
strategy.order backlinks | o que mais páginas apontam
strategy.order fifo | o que foi achado primeiro
strategy.order lifo | o que foi achado por último
strategy.order random | qualquer uma
revisit.policy index | o que mais vale agora
revisit.policy psp | plano: psp
revisit.policy mp2 | plano: mp2
revisit.policy m-wolf | plano: m-wolf
revisit.policy uniform | todas com a mesma frequência
revisit.policy proportional | tantas vezes quanto muda
revisit.policy rateupdate | pela taxa observada
revisit.policy never | nunca
revisit.weigh links | seus links de entrada
revisit.weigh rank | sua posição
revisit.weigh equal | todas igual
network.tls strict | rigoroso
network.tls accept | aceitar e anotar
notify.events started | começar
notify.events finished | terminar
notify.events failed | falhar
notify.events stalled | parar de avançar
"""),
    notes=pairs("""
robots | o robots.txt não é consultado no ensaio: ainda pode proibir uma página
no robots | o robots.txt não é obedecido nesta coleção
depth | a profundidade de uma URL só se conhece na coleta: além de depth_max = {} ela fica fora
limits | atingidos os limites ({}), nada mais é buscado, dentro ou fora
kept | se uma página é guardada, decide o seu conteúdo: a língua, os dados
"""),
    estimate=pairs("""
nothing | não há nada a visitar
bound host | limitada pelas pausas do maior servidor, {host}
bound side by side | limitada pelas pausas de seus servidores, visitados lado a lado
bound places | limitada pelos lugares para servidores: {places} são visitados ao mesmo tempo
bound bandwidth | limitada por [fetch] bandwidth = {bandwidth} bytes por segundo
bound workers | limitada pelo que os trabalhadores conseguem ({workers})
ends | termina com {ends}
met | servidores já conhecidos: {met}, com {met_pages} páginas
unmet | servidores desconhecidos: {unmet}; cada um pode ter {low}, provavelmente {likely}, talvez {high} páginas
unmet breadth | servidores desconhecidos: {unmet}; de cada sítio {low}, provavelmente {likely}, talvez {high} páginas
unfinished | alguns servidores não foram coletados até o fim: o que espera neles é página tanto quanto o que já se viu
narrower | os servidores foram coletados com outro escopo: não se sabe quantas de suas páginas cabem neste
open | podem fazer parte mais servidores do que se conhece; quantos, ninguém sabe: pages_max põe um fim
crawled before | estas raízes e este escopo já foram coletados até o fim: não falta nenhum servidor
delay | {delay} s entre dois pedidos a um servidor, e {factor} vezes a duração de uma resposta
crawl-delay | servidores que pedem uma pausa maior: {slowed}, até {longest} s
answer | uma resposta leva {answer} s, talvez {slow} vezes mais
answer measured | uma resposta leva {answer} s, como medido aqui; talvez {slow} vezes mais
size | uma página tem {size} bytes ao ser transferida ({sizes})
size measured | uma página tem {size} bytes ao ser transferida, como medido aqui
kept | uma página ocupa {kept} bytes em disco além do transferido: texto, índice, grafo, fronteira
kept measured | uma página ocupa {kept} bytes em disco ao todo, como medido aqui
workers | trabalhadores: {workers}, cada um com no máximo {rate} pedidos por segundo; sem endereços em comum
fresh | esta é a primeira passada: depois as páginas são visitadas de novo enquanto a coleção estiver ativa
again | esta é uma coleta: ela se repete ({every})
"""),
)
