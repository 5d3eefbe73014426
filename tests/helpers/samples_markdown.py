"""A made Markdown file, in German."""

from __future__ import annotations

MARKDOWN = """---
title: Ein Anfang
description: "Was *man* wissen muss"
slug: ein-anfang
---
# Überschrift mit `code` {#anker}

Ein Absatz über
zwei Zeilen mit **fettem**, *schrägem* und ~~altem~~ Text,
einem [Verweis](https://example.org/a_b "Titel (eins)"), einem [zweiten][ref],
einem [Kürzel] und <https://example.org>.{SPACES}
Nach einem Umbruch\\
noch eine Zeile &amp; ein \\*Stern\\* mit 50&nbsp;%.

Setext
------

> Ein Zitat
> über Zeilen
>
> - [ ] Aufgabe eins
> - [x] Aufgabe zwei mit ![Bild](bild.png)

> [!NOTE]
> Ein Hinweis[^1] für alle.

1. Erstens
   ```python
   print("nicht dies")
   ```
2. Zweitens mit <kbd>Strg</kbd> und <b>fett</b>

| Spalte eins | Spalte zwei |
|:------------|------------:|
| Wert \\| mehr | gleich |
| gleich | `a` und {{ name }} |

    eingerückter Code

<p align="center">Bleibt stehen</p>

:::tip
Ein Rat
:::

[ref]: https://example.org/ref "Ein Titel"
[Kürzel]: https://example.org/k
[^1]: Die Fußnote.
""".replace("{SPACES}", "  ").encode()
SAMPLES = {"README.md": MARKDOWN, "crlf.markdown": MARKDOWN.replace(b"\n", b"\r\n")}
