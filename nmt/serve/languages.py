"""English names of languages by their codes (ISO 639-1)."""

from __future__ import annotations

_NAMES = (
    "af Afrikaans, am Amharic, ar Arabic, as Assamese, az Azerbaijani, be Belarusian, bg Bulgarian, bn Bengali, "
    "br Breton, bs Bosnian, ca Catalan, cs Czech, cy Welsh, da Danish, de German, el Greek, en English, eo Esperanto, "
    "es Spanish, et Estonian, eu Basque, fa Persian, fi Finnish, fo Faroese, fr French, fy Western Frisian, ga Irish, "
    "gd Scottish Gaelic, gl Galician, gu Gujarati, ha Hausa, he Hebrew, hi Hindi, hr Croatian, ht Haitian Creole, "
    "hu Hungarian, hy Armenian, id Indonesian, ig Igbo, is Icelandic, it Italian, ja Japanese, jv Javanese, "
    "ka Georgian, kk Kazakh, km Khmer, kn Kannada, ko Korean, ku Kurdish, ky Kyrgyz, la Latin, lb Luxembourgish, "
    "lo Lao, lt Lithuanian, lv Latvian, mg Malagasy, mi Maori, mk Macedonian, ml Malayalam, mn Mongolian, mr Marathi, "
    "ms Malay, mt Maltese, my Burmese, nb Norwegian Bokmål, ne Nepali, nl Dutch, nn Norwegian Nynorsk, no Norwegian, "
    "ny Nyanja, oc Occitan, or Odia, pa Punjabi, pl Polish, ps Pashto, pt Portuguese, ro Romanian, ru Russian, "
    "rw Kinyarwanda, se Northern Sami, si Sinhala, sk Slovak, sl Slovenian, sn Shona, so Somali, sq Albanian, "
    "sr Serbian, su Sundanese, sv Swedish, sw Swahili, ta Tamil, te Telugu, tg Tajik, th Thai, tk Turkmen, "
    "tl Tagalog, tr Turkish, tt Tatar, ug Uyghur, uk Ukrainian, ur Urdu, uz Uzbek, vi Vietnamese, wa Walloon, "
    "xh Xhosa, yi Yiddish, yo Yoruba, zh Chinese, zu Zulu"
)
NAMES = {entry[:2]: entry[3:] for entry in _NAMES.split(", ")}


def name_of(code: str) -> str:
    """Return the English name of a language: `German` of de, `Portuguese (BR)` of pt_BR; its code if it is unknown."""
    language, _, region = code.replace("-", "_").partition("_")
    if language.lower() not in NAMES:
        return code
    return NAMES[language.lower()] + (f" ({region})" if region else "")


def normalized(code: str) -> str:
    """Return a code in the form in which codes are compared: `pt-BR`, `pt_br` and `PT_BR` are the same."""
    return code.strip().replace("-", "_").lower()
