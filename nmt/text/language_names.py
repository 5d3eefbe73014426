"""English names of languages by ISO 639 code."""

from __future__ import annotations

_NAMES = """
af Afrikaans; am Amharic; ar Arabic; as Assamese; az Azerbaijani; be Belarusian; bg Bulgarian; bn Bengali; bo Tibetan;
br Breton; bs Bosnian; ca Catalan; ceb Cebuano; co Corsican; cs Czech; cy Welsh; da Danish; de German; el Greek;
en English; eo Esperanto; es Spanish; et Estonian; eu Basque; fa Persian; fi Finnish; fil Filipino; fo Faroese;
fr French; fy Western Frisian; ga Irish; gd Scottish Gaelic; gl Galician; gu Gujarati; ha Hausa; haw Hawaiian;
he Hebrew; hi Hindi; hr Croatian; hsb Upper Sorbian; ht Haitian Creole; hu Hungarian; hy Armenian; id Indonesian;
ig Igbo; is Icelandic; it Italian; ja Japanese; jv Javanese; ka Georgian; kk Kazakh; km Khmer; kn Kannada; ko Korean;
ku Kurdish; ky Kyrgyz; la Latin; lb Luxembourgish; lo Lao; lt Lithuanian; lv Latvian; mg Malagasy; mi Maori;
mk Macedonian; ml Malayalam; mn Mongolian; mr Marathi; ms Malay; mt Maltese; my Burmese; nb Norwegian Bokmål;
ne Nepali; nl Dutch; nn Norwegian Nynorsk; no Norwegian; ny Nyanja; oc Occitan; or Odia; pa Punjabi; pl Polish;
ps Pashto; pt Portuguese; rm Romansh; ro Romanian; ru Russian; rw Kinyarwanda; sa Sanskrit; sd Sindhi;
se Northern Sami; si Sinhala; sk Slovak; sl Slovenian; sn Shona; so Somali; sq Albanian; sr Serbian; st Southern Sotho;
su Sundanese; sv Swedish; sw Swahili; ta Tamil; te Telugu; tg Tajik; th Thai; tk Turkmen; tl Tagalog; tn Tswana;
tr Turkish; tt Tatar; ug Uyghur; uk Ukrainian; ur Urdu; uz Uzbek; vi Vietnamese; wa Walloon; wo Wolof; xh Xhosa;
yi Yiddish; yo Yoruba; zh Chinese; zu Zulu
"""
_BY_CODE = dict(entry.split(maxsplit=1) for entry in _NAMES.strip().split(";"))


def language_name(code: str) -> str:
    """Return the English name of a language, such as "Portuguese (BR)" for `pt_BR`; an unknown code is returned as
    is."""
    language, _, region = code.replace("-", "_").partition("_")
    if language.lower() not in _BY_CODE:
        return code
    name = _BY_CODE[language.lower()]
    return f"{name} ({region})" if region else name


def normalized(code: str) -> str:
    """Normalize a language code for comparison: `pt-BR`, `pt_br` and `PT_BR` all become `pt_br`."""
    return code.strip().replace("-", "_").lower()
