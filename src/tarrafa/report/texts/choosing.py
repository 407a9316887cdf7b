"""Which languages does a report speak?"""

from tarrafa.report.texts import Texts
from tarrafa.report.texts.english import ENGLISH
from tarrafa.report.texts.portuguese import PORTUGUESE

LANGUAGES: dict[str, Texts] = {texts.code: texts for texts in (ENGLISH, PORTUGUESE)}
