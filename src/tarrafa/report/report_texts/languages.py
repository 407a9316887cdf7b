"""The languages of a report."""

from tarrafa.report.report_texts import Texts
from tarrafa.report.report_texts.english import ENGLISH
from tarrafa.report.report_texts.portuguese import PORTUGUESE

LANGUAGES: dict[str, Texts] = {texts.code: texts for texts in (ENGLISH, PORTUGUESE)}
