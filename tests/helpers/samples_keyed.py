"""A file in each format of keys and texts, with all that is supported."""

from __future__ import annotations

_JSON = """{
  "titel": "Fotos von {{name}}",
  "menü": {
    "öffnen": "Datei <strong>öffnen</strong>",
    "beenden": "Beenden\\n\\tund \\"speichern\\"",
    "farbe": "#ffcc00",
    "hilfe": "https://example.org/hilfe"
  },
  "foto_one": "{{count}} Foto",
  "foto_other": "{{count}} Fotos",
  "freund_male_one": "Ein Freund",
  "freund_male_other": "{{count}} Freunde",
  "alt": "Ein Hund",
  "alt_plural": "{{count}} Hunde",
  "siehe": "Siehe $t(menü.öffnen) und <1>hier</1>",
  "icu": "{n, plural, =0 {keine Hunde} one {# Hund von {name}} other {# Hunde}}",
  "liste": ["eins", 2, true, null, {"tiefer": "drei \\ud83d\\ude00 Smileys"}],
  "zweimal": "erstens", "zweimal": "zweitens",
  "version": 1.50
}
"""
_ARB = """{
  "@@locale": "de",
  "gruss": "Hallo {name}!",
  "@gruss": {
    "description": "Wird oben gezeigt",
    "placeholders": {"name": {"type": "String", "example": "Anna"}}
  },
  "hunde": "{count, plural, =0{Keine Hunde} =1{Ein Hund} other{{count} Hunde}}",
  "@hunde": {"placeholders": {"count": {}}},
  "wer": "{gender, select, male{Er bellt} female{Sie bellt} other{Es bellt}}"
}
"""
_PROPERTIES = """# Ein Kommentar
! noch einer
titel=Gr\\u00fc\\u00dfe an {0}
lang: Ein Text \\
      mit Fortsetzung
mit\\ leer\\:zeichen   Der Wert
apostroph = Wie geht''s, {0}?
geschweift = Ein '{'Wert'}' f\\u00fcr {1}
zeilen = eins\\n\\tzwei
anzahl = {0,number,integer} Hunde
leer=
url=https://example.org/
pfad = C:\\\\Hunde
"""
_STRINGS = """/* Titel des Fensters */
"title" = "Fotos von %@";
"count \\"n\\"" = "%1$ld von %2$@ Fotos\\nsind da"; // am Ende
CFBundleName = "Gr\\U00fc\\U00dfe";
"zeilen" = "eins
zwei";
"url" = "https://example.org/";
unquoted = wert;
"nur";
"""
_RAILS = """# Ein Kommentar
de:
  titel: Die Hunde von %{name} # bleibt
  "ja": 'Ja, ''gern'''
  escaped: "Grüße\\tund\\nmehr: \\"Hunde\\""
  yes: Ja
  zahl: 5
  text: "5"
  wahr: true
  leer:
  datum:
    format: "%d.%m.%Y"
    lang: "%d. %B um %H Uhr"
    tage: [Sonntag, Montag]
    folge:
    - :day
    - :month
  hunde:
    one: ein Hund
    other: "%{count} Hunde"
  kurz: {one: ein Tag, other: viele Tage}
  wörtlich: |
    Die erste Zeile
      tiefer

    die letzte

  gefaltet: >-
    Ein Absatz
    in zwei Zeilen

    und noch einer
  anker: &a Ein Text
  wieder: *a
  über mehrere: ein Text
    in zwei Zeilen
  liste:
    - Eintrag
    - name: noch einer
"""
_HUGO = """---
greeting:
  other: "Hallo {{ .Name }}"
minutes:
  one: Eine Minute
  other: "{{ .Count }} Minuten"
symfony: "Es gibt %count% Äpfel"
"""

SAMPLES: dict[str, bytes] = {
    "app.json": _JSON.encode(),
    "app.arb": _ARB.encode(),
    "app.properties": _PROPERTIES.encode(),
    "latin.properties": "titel=Grüße, {0}\n".encode("latin-1"),
    "app.strings": b"\xff\xfe" + _STRINGS.encode("utf-16-le"),
    "app.yml": _RAILS.encode(),
    "hugo.yaml": _HUGO.replace("\n", "\r\n").encode(),
}
