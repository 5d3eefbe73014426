"""Statements of templates, and grammars of the format strings that gettext knows by flags such as `c-format`.

https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html
"""

from __future__ import annotations

import re
from collections.abc import Set
from functools import cache

# Time must be linear in the text: nothing extends beyond the beginning of another expression or statement of its kind.
# None contains a tag outside quotes and comments: in <code>{{</code>, braces are only shown. Groups that may be taken
# back have alternatives that begin differently.
_LESS = r"<(?![%/]|[A-Za-z][^<>{}%]*+>)"
_QUOTED = r"""(?:"(?:[^"%]*+"|(?![^"%]*+"))|'(?:[^'%]*+'|(?![^'%]*+')))"""
STATEMENT = (
    rf"""\{{%(?:[^%{{<"']++|%(?!\}})|\{{(?!%)|{_LESS}|{_QUOTED})*%\}}"""
    r"|\{\#(?!\s*+</)(?:[^\#{]++|\#(?!\})|\{(?!\#))*\#\}"
    rf"""|(?:<|&lt;)%(?:[^%<&"']++|%(?!>|&gt;)|&(?!lt;%)|{_LESS}|{_QUOTED})*%(?:>|&gt;)"""
)
"""A pattern of statements and comments of templates: `{% if x %}`, `{# a comment #}`, `<%= name %>`."""
_PLAIN = rf"(?:[^{{}}<]++|{_LESS})*"
# Quoted text and pairs of braces inside may contain the end.
TEMPLATE = (
    r"""\{\{(?:(?:[^{}<"']++|"[^"{]*+(?:\{(?!\{)[^"{]*+)*"|'[^'{]*+(?:\{(?!\{)[^'{]*+)*'|"""
    rf"{_LESS}|\{{(?!\{{){_PLAIN}(?:\{{(?!\{{){_PLAIN}\}}{_PLAIN})*\}})*|{_PLAIN})\}}\}}|{STATEMENT}"
)
"""A pattern of a `STATEMENT`, or an expression such as `{{ name }}`."""


def masked(text: str) -> str:
    """Return a text with each character of a `TEMPLATE` replaced by an underscore."""
    return re.sub(TEMPLATE, lambda match: "_" * len(match[0]), text)


# The width and precision of a directive as in printf.
_SIZE = r"(?:\*(?:\d+\$)?|\d++)?(?:\.(?:\*(?:\d+\$)?|\d*+))?"
# A simple argument; a # in a branch of a plural, which the next brace, after simple arguments, closes; structure.
_ICU = (
    r"(\{\s*+[\w.-]++\s*+(?:,\s*+(?!(?:plural|select|selectordinal|choice)\b)[^{}]*+)?\})"
    r"|\#(?=[^{}]{0,200}+(?:\{[^{}]{0,200}+\}[^{}]{0,200}+){0,9}+\})"
    r"|'?\{\s*+[\w.-]++\s*+(?:,[^{}]*+[{}]|\})|'?\}\s*+'?\}|'?\}\s*+[\w=-]*+\s*+'?\{|'?[{}]"
)
# A flag, empty for ordinary text, and the pattern of a directive, or of a sign that begins none. A group of the pattern
# is the number or name of the argument, or a directive without argument. Time must be linear in the text.
_GRAMMARS = r"""
  (?!)
awk-format  %(?:(%)|(\d+\$)?[-+ #0]*+SIZE[%csidouxXeEfgGaA])|%[^%]?
boost-format  %(?:(%)|(\d+%)|\|[^|]*+\||(\d+\$)?[-+ #0'_=hl]*+SIZE(?:[hlL]?(?:[%cCsSidouxXeEfgGptn]|T.)))|%[^%]?
c-format  %(?:(%)|(\d+\$)?[-+ #0'I]*+SIZE(?:[hlqLjztZ]*+[%diouxXeEfFgGaAcCsSpnm]|<PRI\w++>))|%[^%]?
c++-format  (\{\{|\}\})|\{(?::[^{}]*+)?\}|(\{(?:[^{}]++|\{[^{}]*+\})*\})|\{[^{}]*+|\}
csharp-format  (\{\{|\}\}|\{[^{}]*+\})|\{[^{}]*+|\}
elisp-format  %(?:(%)|(\d+\$)?[-+ #0]*+SIZE[%cdixXoeEfgGsS])|%[^%]?
gcc-internal-format  %(?:(%)|(\d+\$)?[q+#lw]*+SIZE[%<>'A-Za-z])|%[^%]?
gfc-internal-format  %(?:(%)|(\d+\$)?SIZEl?[%CLiducs])|%[^%]?
go-format  %(?:(%)|(\d+\$)?[-+ #0]*+(?:\[\d++\])?SIZE[%vTtbcdoOqxXUeEfFgGsp])|%[^%]?
icu-format  ICU
java-format  ('[^']*+'?|\{[^{}]*+\})|\{[^{}]*+|\}
java-printf-format  %(?:(%)|(\d+\$)?[-+ #0,(<]*+SIZE(?:[tT][A-Za-z]|[%nbBhHsScCdoxXeEfgGaA]))|%[^%]?
javascript-format  %(?:(%)|(\d+\$)?[-+ #0I]*+SIZE[%sbduoxXfcj])|%[^%]?
kde-format  %([1-9]\d*+)
kde-kuit-format  %([1-9]\d*+)|<[^<>]*+>?|&(?:#?\w++;)?|>
librep-format  %(?:(%)|(\d+\$)?[-+ ^0]*+SIZE[%cdxXosS])|%[^%]?
lisp-format  ~(?:[-+]?\d++|'.|[vV#])?(?:,(?:[-+]?\d++|'.|[vV#])?)*[:@]*+(?:/[^/]*+/|\{~:?\}|.)|~
lua-format  %(?:(%)|(\d+\$)?[-+ #0]*+SIZE[%sqdiouxXaAeEfgGc])|%[^%]?
objc-format  %(?:(%)|(\d+\$)?[-+ #0'I]*+SIZE(?:[hlqLjztZ]*+[%diouxXeEfFgGaAcCsSpnm@]|<PRI\w++>))|%[^%]?
object-pascal-format  %(?:(%)|(\d*+:)?(?:\*:)?-?SIZE[%duxefgnmspDUXEFGNMSP])|%[^%]?
perl-format  %(?:(%)|(\d+\$)?[-+ #0]*+(?:(?:\*(?:\d+\$)?)?v)?SIZE(?:[hlLqV]*+|I\d*+)[%cs_pidDuUboOxXeEfFgGn])|%[^%]?
perl-brace-format  (\{[A-Za-z_]\w*+\})
php-format  %(?:(%)|(\d+\$)?[-+ 0]*+(?:'.[-+ 0]*+){0,2}SIZEl?[%sbduoxXeEfFgGc])|%[^%]?
python-format  %(?:(%)|(\((?:[^()]++|\([^()]*+\))*\))?[-+ #0]*+SIZE[hlL]?[%csraiduoxXeEfFgG])|%[^%]?
python-brace-format  (\{\{|\}\}|\{(?:[^{}]++|\{[^{}]*+\})*\})|\{[^{}]*+|\}
qt-format  %(L?(?:\d\d?|n))
qt-plural-format  %(L?n)
ruby-format  %(?:(%)|(\d+\$)?[-+ #*.$\d]*+(?:(<[^<>%]*+>)[-+ #*.$\d]*+)?(?:(\{[^{}%]*+\})|[%\w]))|%[<{][^<>{}%]*+|%[^%]?
rust-format  (\{\{|\}\})|\{(?::[^{}]*+)?\}|(\{(?:[^{}]++|\{[^{}]*+\})*\})|\{[^{}]*+|\}
scheme-format  ~(?:[-+]?\d++|'.|[vV#])?(?:,(?:[-+]?\d++|'.|[vV#])?)*[:@]*+(?:/[^/]*+/|\{~:?\}|.)|~
sh-format  (\$(?:[A-Za-z_]\w*+|\{[^{}]*+\}))|\$
smalltalk-format  %([%1-9])|%
tcl-format  %(?:(%)|(\d+\$)?[-+ #0]*+SIZE[hl]?[%csidouxXeEfgG])|%[^%]?
ycp-format  %([%1-9])|%
"""
GRAMMARS = dict(re.findall("(.*?)  (.+)\n", _GRAMMARS.replace("SIZE", _SIZE).replace("ICU", _ICU)))
"""Flag -> pattern of its directives."""

_ICU_ARGUMENT = re.compile(
    r"\{\s*+[\w.-]++\s*+,\s*+(?:number|date|time|plural|select|selectordinal|choice|spellout|ordinal|duration)\s*+[,}]"
)


def formats_of(text: str, flags: Set[str] = frozenset()) -> list[str]:
    """Return at least one of the `GRAMMARS` for a text, given flags; ICU messages (`{n, plural, ...}`) need no flag."""
    return sorted(flags & GRAMMARS.keys()) or ["icu-format" if _ICU_ARGUMENT.search(text) else ""]


@cache
def _directive(flag: str) -> re.Pattern[str]:
    return re.compile(GRAMMARS[flag], re.ASCII | re.DOTALL)


def directives(text: str, flag: str) -> list[str]:
    """Return the directives of a format string, first each `%%`: the others in their order, or sorted if all are
    numbered or named."""
    matches = list(_directive(flag).finditer(text))
    texts = [match[0] for match in matches]
    if all(match.lastindex for match in matches):
        texts.sort()
    return sorted(texts, key="%%".__ne__)
