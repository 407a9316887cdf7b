"""Makes the lexicon of a language: real words first, then invented ones, in Zipf order.

Promises: the `Lexicon` of a language and a seed is always the same. Its most frequent words are real, so that example
searches look natural and language detectors work; its long tail is pronounceable invented words with the accents,
genders and plurals of the language. The order of `nouns` is the order of a Zipf law.
Knows nothing of sentences, pages or hosts.
"""

import unicodedata
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tarrafa.testweb.world.hash_random import uniform


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split())


INVENTED_NOUNS = 12_000  # per language, after the real ones

PT_MASCULINE = _listed("""
pescador rio barco mercado festival museu teatro jornal livro povo governo estado município bairro caminho porto
vento mar peixe campo café açúcar algodão engenho sertão litoral professor estudante aluno projeto trabalho programa
computador sistema documento arquivo endereço servidor serviço produto preço cliente negócio banco comércio turismo
hotel restaurante prato tempero queijo vinho pão doce feijão milho arroz coco dendê carnaval frevo samba tambor violão
músico cantor poeta escritor artista pintor filme cinema espetáculo palco público time jogo campeonato estádio jogador
treinador gol médico hospital remédio exame tratamento paciente vírus clima inverno verão dia mês ano século tempo
momento espaço lugar mapa trem ônibus carro avião aeroporto motor caminhão edifício prédio telhado jardim
quintal cachorro gato cavalo boi pássaro inseto animal bosque coqueiro mangue recife oceano horizonte sol céu planeta
cientista laboratório resultado método estudo problema exemplo número grupo conselho presidente prefeito deputado
partido voto direito juiz tribunal crime acordo contrato imposto salário emprego sindicato operário
""")

PT_FEMININE = _listed("""
rede biblioteca universidade praia cidade escola aula pesquisa página palavra língua história memória cultura música
dança festa feira igreja praça rua ponte estrada viagem paisagem floresta montanha ilha lagoa maré pesca tarrafa
jangada canoa areia chuva seca água terra semente planta árvore flor fruta manga banana cana farinha tapioca moqueca
cozinha mesa casa família criança mulher menina avó comunidade associação cooperativa empresa indústria fábrica loja
moeda economia inflação bolsa venda compra conta taxa lei justiça liberdade eleição campanha câmara assembleia
prefeitura república nação fronteira guerra paz revolução sociedade população região capital vila aldeia fazenda
colheita safra pecuária energia eletricidade máquina ferramenta tecnologia informação comunicação internet tela
fotografia imagem pintura escultura exposição obra arte poesia crônica novela notícia reportagem entrevista revista
editora edição carta mensagem pergunta resposta dúvida solução ideia teoria ciência física química matemática
medicina saúde doença vacina farmácia enfermeira corrida natação vitória derrota equipe partida temporada estação
semana manhã tarde noite hora lua estrela
""")

PT_ADJECTIVES = _listed("""
antigo novo grande pequeno bonito público popular nacional regional municipal internacional brasileiro português
histórico científico político econômico social cultural moderno rápido lento alto baixo largo profundo claro escuro
verde amarelo vermelho branco quente frio seco rico pobre livre simples famoso importante necessário comum raro forte
tranquilo alegre triste jovem tropical marinho urbano rural digital
""")

PT_VERBS = _listed("""
encontrou visitou recebeu mostrou apresentou abriu fechou construiu reuniu estudou ensinou aprendeu publicou leu
escreveu descreveu explicou discutiu aprovou recusou comprou vendeu ofereceu pediu perdeu ganhou venceu levou trouxe
guardou procurou descobriu conheceu mudou melhorou transformou preparou organizou dirigiu acompanhou viu ouviu
celebrou lembrou esqueceu atravessou deixou seguiu cobriu protegeu alimentou plantou colheu pescou pintou fotografou
cantou gravou inaugurou restaurou financiou anunciou criticou elogiou influenciou registrou comparou mediu calculou
""")

EN_NOUNS = _listed("""
library river network fisherman market festival museum theatre newspaper book people government state county street
road harbour wind sea fish field coffee sugar cotton coast teacher student project work programme computer system
document archive address server service product price customer business bank trade tourism hotel restaurant dish
cheese wine bread corn rice carnival drum guitar musician singer poet writer artist painter film cinema stage crowd
team game championship stadium player coach doctor hospital medicine treatment patient virus climate winter summer
day month year century time moment space place map train bus car plane airport engine truck building roof garden dog
cat horse bird insect animal wood reef ocean horizon sun sky planet scientist laboratory result method study problem
example number group council president mayor party vote right judge court crime agreement contract tax salary job
union worker university beach city school lesson research page word language history memory culture music dance party
church square bridge journey landscape forest mountain island lake tide boat sand rain drought water land seed plant
tree flower fruit kitchen table house family child woman grandmother community association company industry factory
shop coin economy inflation account law justice freedom election campaign assembly republic nation border war peace
revolution society population region capital village farm harvest energy electricity machine tool technology
information message question answer doubt solution idea theory science physics chemistry health disease vaccine
pharmacy nurse race victory defeat season station week morning evening night hour moon star
""")

EN_ADJECTIVES = _listed("""
old new great small beautiful public popular national regional local international British American historic
scientific political economic social cultural modern quick slow high low wide deep clear dark green yellow red white
warm cold dry rich poor free simple famous important necessary common rare strong quiet happy sad young tropical
marine urban rural digital
""")

EN_VERBS = _listed("""
found visited received showed presented opened closed built gathered studied taught learned published read wrote
described explained discussed approved refused bought sold offered requested lost won carried brought kept sought
discovered knew changed improved transformed prepared organised directed followed saw heard celebrated remembered
forgot crossed left covered protected fed planted harvested painted photographed recorded launched restored financed
announced criticised praised influenced registered compared measured calculated
""")

IRREGULAR_PLURALS = {
    "pão": "pães", "mês": "meses", "vírus": "vírus", "ônibus": "ônibus", "gol": "gols", "virus": "viruses",
    "fisherman": "fishermen", "woman": "women", "child": "children", "people": "peoples", "fish": "fish",
}  # fmt: skip

PT_SYLLABLES = _listed("""
ba ca da fa ga ja la ma na pa ra sa ta va be ce de fe le me ne pe re se te ve bi di li mi ni pi ri si
ti vi bo co do fo go lo mo no po ro so to vo bu cu du fu lu mu nu pu ru su tu pra tra bra cha que gui""")
PT_STRESSED = _listed("""bá câ dí fé gó lú má né pí rô sá tê vó ção trá ché lhó""")
PT_ENDINGS = [
    ("eiro", "m"), ("ador", "m"), ("mento", "m"), ("al", "m"), ("lo", "m"), ("co", "m"), ("nho", "m"), ("ção", "f"),
    ("dade", "f"), ("agem", "f"), ("eira", "f"), ("ra", "f"), ("lha", "f"), ("ncia", "f"),
]  # fmt: skip
EN_SYLLABLES = _listed("""
bar ber bel bran car cal cor den der dor el fen fer gar gram hal har hol in jar ken kin lan lar len
lin lor mar mel mer mor nor pen per pol ram ral ren ric sal sel ser sor stan tan tel ter tor tran
ul ver wal wen win""")
EN_ENDINGS = ["er", "ment", "ness", "tion", "ity", "ow", "ing", "ance", "ship", "ard", "et", "le"]


@dataclass(frozen=True, slots=True)
class Noun:
    singular: str
    plural: str
    gender: str  # "m", "f", or "" where the language has none


@dataclass(frozen=True, slots=True)
class Lexicon:
    language: str
    nouns: tuple[Noun, ...]
    adjectives: tuple[str, ...]
    verbs: tuple[str, ...]


def fold(word: str) -> str:
    """The word in lower-case ASCII, as used in paths."""
    return unicodedata.normalize("NFKD", word).encode("ascii", "ignore").decode().lower()


def pt_plural(word: str) -> str:
    if word in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[word]
    for ending, plural in (("ção", "ções"), ("ão", "ões"), ("al", "ais"), ("el", "éis"), ("ol", "óis"), ("m", "ns")):
        if word.endswith(ending):
            return word.removesuffix(ending) + plural
    return word + ("es" if word[-1] in "rzs" else "s")


def en_plural(word: str) -> str:
    if word in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[word]
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")


def pt_adjective(word: str, gender: str) -> str:
    if gender == "f" and word.endswith("o"):
        return word[:-1] + "a"
    return word + "a" if gender == "f" and word == "português" else word


def _shuffled(words: list[Noun], seed: int, purpose: int) -> list[Noun]:
    return [words[i] for i in np.argsort(uniform(seed, purpose, len(words)), kind="stable")]


def _picks(seed: int, purpose: int, count: int, choices: int) -> list[int]:
    return [int(pick) for pick in uniform(seed, purpose, count) * choices]


def _invented_pt(seed: int) -> list[Noun]:
    first = _picks(seed, 1, INVENTED_NOUNS, len(PT_SYLLABLES))
    second = _picks(seed, 2, INVENTED_NOUNS, 2 * len(PT_SYLLABLES))
    third = _picks(seed, 3, INVENTED_NOUNS, 8 * len(PT_STRESSED))
    last = _picks(seed, 4, INVENTED_NOUNS, len(PT_ENDINGS))
    nouns = []
    for a, b, c, d in zip(first, second, third, last, strict=True):
        middle = PT_SYLLABLES[b] if b < len(PT_SYLLABLES) else ""
        stressed = PT_STRESSED[c] if c < len(PT_STRESSED) and PT_ENDINGS[d][0] in ("lo", "co", "ra") else ""
        word = PT_SYLLABLES[a] + middle + stressed + PT_ENDINGS[d][0]
        nouns.append(Noun(word, pt_plural(word), PT_ENDINGS[d][1]))
    return nouns


def _invented_en(seed: int) -> list[Noun]:
    first = _picks(seed, 5, INVENTED_NOUNS, len(EN_SYLLABLES))
    second = _picks(seed, 6, INVENTED_NOUNS, 2 * len(EN_SYLLABLES))
    last = _picks(seed, 7, INVENTED_NOUNS, len(EN_ENDINGS))
    nouns = []
    for a, b, d in zip(first, second, last, strict=True):
        word = EN_SYLLABLES[a] + (EN_SYLLABLES[b] if b < len(EN_SYLLABLES) else "") + EN_ENDINGS[d]
        nouns.append(Noun(word, en_plural(word), ""))
    return nouns


@lru_cache(maxsize=16)
def lexicon(language: str, seed: int) -> Lexicon:
    """The words of one language ("pt" or "en"): real nouns shuffled by the seed, then the invented ones, none twice."""
    if language == "pt":
        real = [Noun(word, pt_plural(word), "m") for word in PT_MASCULINE]
        real += [Noun(word, pt_plural(word), "f") for word in PT_FEMININE]
        nouns = _shuffled(real, seed, 8) + _invented_pt(seed)
        return Lexicon("pt", _distinct(nouns), PT_ADJECTIVES, PT_VERBS)
    real = [Noun(word, en_plural(word), "") for word in EN_NOUNS]
    nouns = _shuffled(real, seed, 9) + _invented_en(seed)
    return Lexicon("en", _distinct(nouns), EN_ADJECTIVES, EN_VERBS)


def _distinct(nouns: list[Noun]) -> tuple[Noun, ...]:
    return tuple({noun.singular: noun for noun in nouns}.values())
