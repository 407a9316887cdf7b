"""The names of languages and visit statuses in English and Portuguese.

The names that people read, of each language of the interface: for reports and for the pages.
"""

from tarrafa.i18n import PORTUGUESE
from tarrafa.model import STATUS_MEANING

ENGLISH_LANGUAGES = {
    "af": "Afrikaans", "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech",
    "cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto",
    "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French",
    "ga": "Irish", "gl": "Galician", "gn": "Guarani", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian",
    "hu": "Hungarian", "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ko": "Korean",
    "la": "Latin", "lt": "Lithuanian", "lv": "Latvian", "ms": "Malay", "nl": "Dutch", "no": "Norwegian",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian",
    "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "sw": "Swahili", "th": "Thai", "tl": "Tagalog",
    "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
ENGLISH_STATUSES: dict[int, str] = {int(status): str(meaning) for status, meaning in STATUS_MEANING.items()}
PORTUGUESE_LANGUAGES = {
    "af": "Africâner", "ar": "Árabe", "bg": "Búlgaro", "bn": "Bengali", "ca": "Catalão", "cs": "Tcheco",
    "cy": "Galês", "da": "Dinamarquês", "de": "Alemão", "el": "Grego", "en": "Inglês", "eo": "Esperanto",
    "es": "Espanhol", "et": "Estoniano", "eu": "Basco", "fa": "Persa", "fi": "Finlandês", "fr": "Francês",
    "ga": "Irlandês", "gl": "Galego", "gn": "Guarani", "he": "Hebraico", "hi": "Hindi", "hr": "Croata",
    "hu": "Húngaro", "id": "Indonésio", "is": "Islandês", "it": "Italiano", "ja": "Japonês", "ko": "Coreano",
    "la": "Latim", "lt": "Lituano", "lv": "Letão", "ms": "Malaio", "nl": "Holandês", "no": "Norueguês",
    "pl": "Polonês", "pt": "Português", "ro": "Romeno", "ru": "Russo", "sk": "Eslovaco", "sl": "Esloveno",
    "sq": "Albanês", "sr": "Sérvio", "sv": "Sueco", "sw": "Suaíli", "th": "Tailandês", "tl": "Tagalo",
    "tr": "Turco", "uk": "Ucraniano", "ur": "Urdu", "vi": "Vietnamita", "zh": "Chinês",
}  # fmt: skip
PORTUGUESE_STATUSES: dict[int, str] = {
    int(status): PORTUGUESE.render(meaning) for status, meaning in STATUS_MEANING.items()
}
