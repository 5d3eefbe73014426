"""TMX: the text of segments, languages, encodings, and files that are broken or hostile."""

from __future__ import annotations

import io
from contextlib import nullcontext
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.prepare.formats.units import read_tmx, read_units
from nmt.prepare.inputs import Input
from reading import error_of, read_bytes

START = '<?xml version="1.0"?>\n<tmx version="1.4"><header srclang="fr"/>\n<body>\n'
END = "</body></tmx>"


def unit(*texts: tuple[str, str]) -> str:
    return "<tu>" + "".join(f'<tuv xml:lang="{tag}"><seg>{text}</seg></tuv>' for tag, text in texts) + "</tu>\n"


def memory(*units: str) -> str:
    return START + "".join(units) + END


@pytest.mark.parametrize(
    ("seg", "text"),
    [
        ("Haus", "Haus"),
        ("Press <bpt i='1'>&lt;b&gt;</bpt>OK<ept i='1'>&lt;/b&gt;</ept> now", "Press OK now"),
        ("A <ph x='1'>[0]</ph> <it pos='begin'>[i]</it><ut>\\x</ut>B", "A B"),
        ("A <hi>bold <hi>and <ph>code</ph>more</hi></hi> end", "A bold and more end"),
        ("Print<ph>&lt;fn&gt;<sub>the footnote</sub></ph> it", "Print it"),
        ("one<ph type='lb'/>two", "one two"),
        ("one<ph>&lt;br/&gt;</ph>two<ph>[0]</ph><ph/>3 <ph> </ph>four<ph>&amp;nbsp;</ph>five", "one two 3 four five"),
        (
            "is<ph>&lt;cf bold='True'&gt;</ph>sue d<ph>&amp;apos;</ph>un<ph type='italic'>{</ph>e Gra<ph x='1'/>s",
            "issue dune Gras",
        ),
        ("H<ph>&lt;sub&gt;</ph>2<ph>&lt;/SUB&gt;</ph>O, <ph>&amp;</ph>O<ph>&amp;shy;</ph>K", "H2O, OK"),
        ("(<ph>[0]</ph>one<ph>[1]</ph>). 一<ph/>二, <ph>[2]</ph>two", "(one). 一二, two"),
        ("  one\n   two &amp; <![CDATA[<three>]]><!-- no -->&#233;\n", "one two & <three>é"),
        ("a\tb", "a\tb"),
        # a code takes its space with it
        ("Das <ph/> Haus", "Das Haus"),
        ("Der <bpt i='1'>b</bpt>Mann <ept i='1'>/b</ept> im", "Der Mann im"),
        ("a  b <ph>[0]</ph> <ph>[1]</ph> c  d", "a  b c  d"),
        ("<ph/> Siehe <ph/>, <ph/> und (<ph/> auch) <ph/>.", "Siehe, und (auch)."),
        ("„Wort“ <ph/> und <ph/>„Wort“ <ph/>", "„Wort“ und „Wort“"),
        ("Voir <ph/> ! Et <bpt i='1'>b</bpt>.NET<ept i='1'/>, <ph/>.NET", "Voir ! Et .NET, .NET"),
        ("在 <ph/> 中，请看 <ph/>。打开 <ph/> Excel", "在中，请看。打开 Excel"),
        ("one <ph type='lb'/> two", "one two"),
        # and one that is a placeholder is text
        ("Sie haben <ph x='1'>%d</ph> Tage.", "Sie haben %d Tage."),
        ("<it pos='begin'>{0}</it>{1}<ut>%2$s</ut>!", "{0}{1}%2$s!"),
        ("<bpt i='1'>%1$s</bpt>hier<ept i='1'>%2$s</ept> <ph>{{ name }}</ph>", "%1$shier%2$s {{ name }}"),
        ('<ph>&lt;mq:rxt displaytext="{h:int}" val="{h}" /&gt;</ph> Std', "{h} Std"),
        ("Siehe <ph>https://a.de/b</ph>.", "Siehe https://a.de/b."),
        ("<ph>1</ph>Text <ph>&lt;img alt='%s'/&gt;</ph>", "Text"),
    ],
)
def test_tmx_segment_text_is_extracted(seg: str, text: str) -> None:
    assert read_bytes(read_tmx, memory(unit(("de", seg), ("en", "x")))) == ([(text, "x")], {})


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("x-ConfirmationLevel", ["Draft", "RejectedTranslation", "RejectedSignOff"]),
        ("x-MateCAT-status", ["NEW", "DRAFT", "REJECTED"]),
        ("x-xtm-status", ["Not approved"]),
        ("x-segment-status", ["draft", "needs-review"]),
        ("status", ["fuzzy", "rejected"]),
    ],
)
def test_tmx_units_in_an_unconfirmed_state_are_skipped(kind: str, values: list[str]) -> None:
    def with_state(state: str) -> str:
        return unit(("de", state), ("en", "x")).replace("<tu>", f'<tu><prop type="{kind}">{state}</prop>')

    confirmed = ["Translated", "ApprovedSignOff", "APPROVED", "Approved"]
    pairs, skipped = read_bytes(read_tmx, memory(*map(with_state, values + confirmed)))
    assert [source for source, _ in pairs] == confirmed
    assert skipped == {f"{kind} {value}": 1 for value in values}


def test_states_of_a_hostile_file_are_counted_together_beyond_some() -> None:
    state = '<tu><prop type="status">needs-{}</prop>'
    units = [unit(("de", "a"), ("en", "b")).replace("<tu>", state.format(i)) for i in range(200)]
    pairs, skipped = read_bytes(read_tmx, memory(*units))
    assert not pairs and len(skipped) < 100 and sum(skipped.values()) == 200


def test_pairs_start_with_alphabetically_first_language() -> None:
    data = memory(unit(("en", "one"), ("fr", "un"), ("de", "eins")), unit(("de", "zwei"), ("en", "two")))
    assert read_bytes(read_tmx, data)[0] == [("eins", "one"), ("zwei", "two")]


@pytest.mark.parametrize(
    ("languages", "tags", "is_found"),
    [
        (("de", "en"), ("DE-at", "en_US"), True),
        (("de_DE", "en"), ("de-AT", "en"), False),
        (("de_DE", "en"), ("de", "en"), False),
        (("en", "pt_BR"), ("en-GB", "pt-br"), True),
        (("eng", "khm_Khmr"), ("en-GB", "km-KH"), True),
        (("en", "zh_Hans"), ("en", "zh-TW"), False),
        (("de", "en"), ("den", "en"), False),
        (("pt", "pt_BR"), ("pt-PT", "pt-BR"), True),
        (("zh_Hans", "zh_Hant"), ("zh-Hans-CN", "zh-Hant"), True),
    ],
)
def test_language_code_matches_beginning_of_tag(
    languages: tuple[str, str], tags: tuple[str, str], is_found: bool
) -> None:
    data = memory(unit((tags[1], "2"), (tags[0], "1")))
    assert read_bytes(read_tmx, data, languages)[0] == ([("1", "2")] if is_found else [])


def test_tmx_language_names_in_old_attribute_are_matched() -> None:
    data = memory(unit(("German", "eins"), ("EN", "one"))).replace("xml:lang", "lang")
    assert read_bytes(read_tmx, data, columns={"de": "german", "en": "en"})[0] == [("eins", "one")]
    pairs, skipped = read_bytes(read_tmx, data)
    assert not pairs and all(word in str(skipped) for word in ("no text in de", "German", "columns"))


def test_tmx_variants_of_a_language_are_all_paired() -> None:
    texts = ("de-AT", "Jänner"), ("de-DE", "Januar"), ("en-GB", "January"), ("en-US", "Jan"), ("en-IE", "Eanáir")
    assert read_bytes(read_tmx, memory(unit(*texts)))[0] == [
        ("Jänner", "January"),
        ("Jänner", "Jan"),
        ("Jänner", "Eanáir"),
        ("Januar", "January"),
    ]
    units = [*zip(("de-AT", "en-US", "en-GB"), ("Jänner", "color", "colour"), strict=True)]
    assert read_bytes(read_tmx, memory(unit(*units), unit(*units)))[1] == {
        "several texts in a language, all used (de-AT, en-US, en-GB)": 2
    }
    for code in ("en_GB", "EN-gb"):
        assert read_bytes(read_tmx, memory(unit(*units)), columns={"de": "de_AT", "en": code}) == (
            [("Jänner", "colour")],
            {},
        )
    exact = memory(unit(*texts, ("de", "genau")))
    assert read_bytes(read_tmx, exact, ("de", "en_US"))[0] == [("genau", "Jan")]


def test_tmx_unit_has_first_of_preferred_variants() -> None:
    de, gb, us, plain = ("de", "Farbe"), ("en-GB", "colour"), ("en-US", "color"), ("en", "hue")
    data = memory(
        unit(de, us, gb), unit(us, de), unit(de, us, plain), unit(de, ("fr", "couleur")), unit(de, ("en-GB", ""))
    )
    pairs, skipped = read_bytes(read_tmx, data, columns={"de": "de", "en": ["en-GB", "en"]})
    assert pairs == [("Farbe", "colour"), ("Farbe", "color"), ("Farbe", "hue")]
    assert sum(skipped.values()) == 2 and any("fr" in reason for reason in skipped)
    pairs, skipped = read_bytes(read_tmx, data, columns={"de": "de", "en": "en-GB"})
    assert pairs == [("Farbe", "colour")] and any("en-US" in reason for reason in skipped)
    assert not any("set columns" in reason for reason in skipped), "they are set"


def test_units_without_text_in_a_language_are_counted() -> None:
    data = memory(
        unit(("de", "nur")),
        unit(("en", "only"), ("fr", "x")),
        unit(("fr", "x")),
        '<tu><tuv xml:lang="de"/><tuv xml:lang="en"><seg>x</seg></tuv></tu>',
        "<tu><tuv><seg>no language</seg></tuv></tu>",
        unit(("de", ""), ("en", "empty")),
    )
    skipped = {
        "no text in en": 1, "no text in de": 2, "no text in de (found fr; see columns)": 1,
        "no text in de or en": 1, "no text in de or en (found fr; see columns)": 1,
    }  # fmt: skip
    assert read_bytes(read_tmx, data) == ([], skipped)


def test_variant_without_text_is_not_paired() -> None:
    data = memory(unit(("de", "eins"), ("en", "<ph/> "), ("en-GB", "one")))
    assert read_bytes(read_tmx, data) == ([("eins", "one")], {})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "iso-8859-1", "cp1252"])
@pytest.mark.parametrize("is_declared", [True, False])
def test_tmx_encodings_are_read(encoding: str, is_declared: bool) -> None:
    data = memory(unit(("de", "größer"), ("en", "x")))
    if is_declared:
        data = data.replace("?>", f' encoding="{encoding.removesuffix("-sig")}"?>', 1)
    elif encoding in ("iso-8859-1", "cp1252"):
        assert "line 4: broken XML (" in error_of(read_tmx, data.encode(encoding))
        return
    assert read_bytes(read_tmx, data.encode(encoding))[0] == [("größer", "x")]


# --- broken and hostile ---------------------------------------------------------------------------


def test_external_dtd_is_not_fetched() -> None:
    pairs = memory(unit(("de", "eins"), ("en", "one")))
    for doctype in (
        '<!DOCTYPE tmx SYSTEM "tmx14.dtd">',
        '<!DOCTYPE tmx PUBLIC "-//LISA OSCAR:1998//DTD for Translation Memory eXchange//EN" "file:///nowhere/x.dtd">',
        '<!DOCTYPE tmx [<!ELEMENT tmx ANY><!ATTLIST seg x CDATA "y">]>',
    ):
        assert read_bytes(read_tmx, pairs.replace("<tmx", doctype + "<tmx", 1))[0] == [("eins", "one")]


@pytest.mark.parametrize(
    ("doctype", "text", "message"),
    [
        ('[<!ENTITY a "x"><!ENTITY b "&a;&a;">]', "&b;", "its DOCTYPE defines entities"),
        ('[<!ENTITY a SYSTEM "file:///etc/passwd">]', "&a;", "its DOCTYPE defines entities"),
        ('[<!ENTITY % a SYSTEM "http://localhost/x"> %a;]', "", "its DOCTYPE defines entities"),
        ('[<!-- ] --><!ENTITY a "x">]', "&a;", "its DOCTYPE defines entities"),
        ('SYSTEM ">" [<!ENTITY a "x">]', "&a;", "its DOCTYPE defines entities"),
        ('SYSTEM "tmx14.dtd"', "a&nbsp;b", "line 4: entity 'nbsp' is not defined"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("before", ["", "<?a ?><!-- <tmx> -->"])
def test_entities_are_refused(doctype: str, text: str, message: str, encoding: str, before: str) -> None:
    data = memory(unit(("de", text), ("en", "x"))).replace("<tmx", f"{before}<!DOCTYPE tmx {doctype}><tmx", 1)
    assert message in error_of(read_tmx, data.encode(encoding))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "is empty"),
        (" \n", "broken XML ("),
        (START + unit(("de", "a")) + unit(("de", "&#1;"), ("en", "")), "line 5: broken XML ("),
        (START + unit(("de", "a")) + unit(("de", "a</hi>")), "line 5: broken XML ("),
        (START + unit(("de", "a")), "line 5: broken XML ("),
        (START + unit(("de", "a")) + "<tu>\n<tuv>", "line 6: broken XML ("),
        (memory(unit(("de", "a"))) + "<a/>", "line 5: broken XML ("),
        (memory(unit(("de", "&uuml;"))), "line 4: broken XML (Entity 'uuml' not defined)"),
        (memory("<tu x:y='z'/>"), "broken XML (Namespace prefix x"),
        ("<html><body/></html>", "its outermost element is not <tmx>"),
        ("<tmx xmlns='a}b'><tu>", "line 1: broken XML ("),
        ("<html><tmx><tu/></tmx></html>", "its outermost element is not <tmx>"),
        (memory(unit(("de", "<a>" * 3000))), "line 4: broken XML (Excessive depth"),
        (START + "<a b='" + 11_000_000 * "x", "line 4: broken XML ("),
        (START.replace("?>", ' encoding="punycode"?>'), "broken XML (Unsupported encoding"),
    ],
)
def test_broken_tmx_raises(data: str, message: str) -> None:
    assert message in error_of(read_tmx, data)


def test_tmx_memory_is_bounded() -> None:
    class Long(io.RawIOBase):
        """Units in groups of their own, beside elements that are no units: 5 MB."""

        left = 160

        def read(self, size: int = -1) -> bytes:
            self.left -= 1
            if self.left == 159:
                return START.encode()
            return b"<group><note>a</note><tu><a/><b>text</b></tu></group>" * (size // 53) if self.left > 0 else b""

    sizes = []
    with pytest.raises(DataError, match="broken XML"):
        for n, _ in enumerate(read_units(Input("F", "tmx", lambda: nullcontext(Long())), "tmx", frozenset({"tu"}))):
            if n % 5000 == 0:
                sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) >> 8)  # MB
    assert n > 75_000 and sizes[-1] < sizes[5] + 10


def test_long_text_is_read_and_larger_unit_raises() -> None:
    long = unit(("de", "x " * 10_000_000), ("en", "y"))
    assert [(len(one), two) for one, two in read_bytes(read_tmx, memory(long))[0]] == [(19_999_999, "y")]
    for many in ("<hi/>" * 1_000_000, "x" * 34_000_000):
        assert "a unit of more than 32 MiB" in error_of(read_tmx, memory(unit(("de", many), ("en", "y"))))
