"""XLIFF 1.2 and 2: segments, inline elements, languages, states, and damaged files."""

from __future__ import annotations

import re

import pytest

from nmt.prepare.formats.units import read_xliff
from reading import error_of, read_bytes


def version1(*units: str, languages: str = 'source-language="de" target-language="en-US"') -> str:
    start = '<?xml version="1.0"?><xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">\n'
    file = f'<file {languages} original="a.txt" datatype="plaintext"><body><group>\n'
    return f"{start}{file}{''.join(units)}</group></body></file></xliff>"


def version2(*units: str, languages: str = 'srcLang="de" trgLang="en"') -> str:
    start = f'<?xml version="1.0"?><xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.1" {languages}'
    return f'{start} xmlns:mtc="urn:oasis:names:tc:xliff:matches:2.0"><file id="f">\n{"".join(units)}</file></xliff>'


def unit1(source: str, target: str, of_unit: str = "", of_target: str = "") -> str:
    return f"<trans-unit id='1' {of_unit}><source>{source}</source><target {of_target}>{target}</target></trans-unit>\n"


def unit2(*segments: tuple[str, str], state: str = "") -> str:
    inner = "".join(f"<segment {state}><source>{a}</source><target>{b}</target></segment>" for a, b in segments)
    return f'<unit id="1">{inner}</unit>\n'


XLIFF_1 = [
    ("one", "one"),
    ("<g id='1'>bold <g id='2'>and more</g></g> <x id='3'/>end<bx id='4'/><ex id='5'/>", "bold and more end"),
    (
        "a<ph id='1'>[0]<sub>note</sub></ph><bpt id='2'>[b]</bpt>b<ept id='2'>[/b]</ept><it id='3'>i</it>",
        "a b",
    ),
    ("a <mrk mtype='term'>term</mrk>\n  b", "a term b"),
    ("one<x id='1' ctype='lb'/>two", "one two"),
    (
        "one<x id='1' equiv-text='[0]'/>two <x id='2' equiv-text='&lt;b&gt;'/>t<x id='3' equiv-text='&lt;/b&gt;'/>h"
        "<x id='4' ctype='bold' equiv-text='[b]'/>r<x id='5'/>ee",
        "one two three",
    ),
    ("<g id='1'>one <x id='2'/> </g> two <x id='3' equiv-text='{{n}}'/>.", "one two {{n}}."),
]
XLIFF_2 = [
    (
        "<pc id='1'>bold <pc id='2'>and more</pc></pc> <ph id='3'/>end<sc id='4'/><ec startRef='4'/>",
        "bold and more end",
    ),
    ("a<cp hex='001A'/>b <mrk id='1' type='term'>term</mrk><sm id='m'/><em startRef='m'/>", "ab term"),
    ("one<ph id='1' type='fmt' subType='xlf:lb'/>two", "one two"),
    (
        "d<ph id='1' equiv='&lt;b&gt;'/>s<ph id='2' disp='[n]'/>a<ph id='3' type='fmt' subType='xlf:b' disp='b'/>s",
        "ds as",
    ),
    ("<pc id='1'>one </pc> <ph id='2' equiv='INTERPOLATION' disp='{{n}}'/><ph id='3'/>.", "one {{n}}."),
]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        *((version1(unit1("eins", target)), text) for target, text in XLIFF_1),
        *((version2(unit2(("eins", target))), text) for target, text in XLIFF_2),
    ],
    ids=[text for _, text in XLIFF_1 + XLIFF_2],
)
def test_xliff_text_is_extracted_without_codes(data: str, text: str) -> None:
    assert read_bytes(read_xliff, data) == ([("eins", text)], {})


def test_xliff_2_code_refers_to_its_data() -> None:
    data = "<originalData><data id='d1'>%s</data><data id='d2'>&lt;br/&gt;</data></originalData>"
    unit = unit2(("<ph id='1' dataRef='d1'/>eins<ph id='2' dataRef='d2'/>zwei", "one")).replace(
        "<segment", f"{data}<segment", 1
    )
    assert read_bytes(read_xliff, version2(unit)) == ([("%seins zwei", "one")], {})


def test_xliff_1_segments_are_paired_by_number() -> None:
    def seg(mid: int | str, text: str) -> str:
        return f"<mrk mtype='seg' mid='{mid}'>{text}</mrk>"

    def unit(sources: str, targets: str) -> str:
        return (
            f"<trans-unit id='1'><source>Ganz. Es.</source><seg-source>{sources}</seg-source><target>{targets}</target>"
            "<alt-trans><source>nicht</source><target>not</target></alt-trans></trans-unit>"
        )

    data = version1(
        unit(f"{seg(1, 'Eins.')} <g id='1'>{seg(2, 'Zwei.')}</g>", f"{seg(2, 'Two.')} {seg(1, 'One.')}"),
        unit(f"{seg(1, 'Drei.')} {seg(2, 'Vier.')}", seg(1, "Three.")),
        unit(seg(1, "Fünf."), "Five, without marks."),
        unit("Das <mrk mtype='term' mid='1'>Wort</mrk>.", "The <mrk mtype='term' mid='1'>word</mrk>."),
        unit(seg(1, "Sechs.") + seg(1, "Sieben."), seg(1, "Six.")),
    )
    assert read_bytes(read_xliff, data) == (
        [("Eins.", "One."), ("Zwei.", "Two."), ("Drei.", "Three."), ("Ganz. Es.", "Five, without marks."),
         ("Ganz. Es.", "The word."),         ("Ganz. Es.", "Six.")],
        {"no text in en": 1},
    )  # fmt: skip


def test_xliff_2_segments_are_paired() -> None:
    ignored = (
        "<unit id='2'><mtc:matches><mtc:match><source>nicht</source><target>not</target></mtc:match></mtc:matches>"
        "<ignorable><source> </source><target> </target></ignorable>"
        "<segment><source>drei</source><target>three</target></segment><segment><source>vier</source></segment></unit>"
    )
    data = version2(unit2(("eins", "one"), ("zwei", "two")), f"<group id='g'>{ignored}</group>")
    assert read_bytes(read_xliff, data) == ([("eins", "one"), ("zwei", "two"), ("drei", "three")], {"no text in en": 1})


# --- languages ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        version1(unit1("one", "eins"), languages='source-language="en" target-language="DE"'),
        version2(unit2(("one", "eins")), languages='srcLang="en" trgLang="de_AT"'),
    ],
    ids=["1.2", "2"],
)
def test_xliff_direction_may_be_reversed(data: str) -> None:
    assert read_bytes(read_xliff, data)[0] == [("eins", "one")]


def test_files_without_languages_need_columns() -> None:
    for data in (
        version1(unit1("one", "eins"), languages='source-language="en"'),
        version2(unit2(("one", "eins")), languages='srcLang="en"'),
    ):
        assert re.search(
            "no target language is given.*columns: {de: source, en: target} or the reverse", error_of(read_xliff, data)
        )
        assert read_bytes(read_xliff, data, columns={"de": "target", "en": "source"})[0] == [("eins", "one")]
    assert "no source language is given" in error_of(read_xliff, version1(unit1("a", "b"), languages=""))
    untranslated = version1("<trans-unit id='1'><source>one</source></trans-unit>", languages='source-language="en"')
    assert read_bytes(read_xliff, untranslated) == ([], {"no target": 1})
    assert error_of(read_xliff, version1(unit1("a", "b")), {"de": "msgid", "en": "msgstr"}) == (
        "F: columns must be source and target, found msgid and msgstr"
    )


# --- states ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state", ["new", "needs-translation", "needs-adaptation", "needs-l10n", "needs-review-translation"]
)
def test_untranslated_targets_are_skipped(state: str) -> None:
    data = version1(unit1("eins", "eins", of_target=f'state="{state}"'), unit1("zwei", "two"))
    assert read_bytes(read_xliff, data) == ([("zwei", "two")], {f"state {state}": 1})


@pytest.mark.parametrize(
    ("of_unit", "of_target", "reason"),
    [
        ("", 'state="translated" state-qualifier="rejected-grammar"', "state-qualifier rejected-grammar"),
        ("", 'state="rejected"', "state rejected"),
        ("", 'state-qualifier="leveraged-mt"', "state-qualifier leveraged-mt"),
        ('mq:status="Rejected"', "", "status Rejected"),
        ('mq:status="NotStarted"', "", "status NotStarted"),
        ('mq:status="PartiallyEdited"', "", "status PartiallyEdited"),
        ('mq:status="MachineTranslated"', 'state="translated"', "status MachineTranslated"),
        ('mq:status="Pretranslated"', "", "status Pretranslated"),
        ('m:confirmed="0"', "", "confirmed 0"),
    ],
)
def test_unconfirmed_targets_of_programs_are_skipped(of_unit: str, of_target: str, reason: str) -> None:
    data = version1(
        unit1("eins", "eins", of_unit, of_target),
        *(
            unit1(f"zwei {confirmed}", "two", confirmed)
            for confirmed in ("mq:status='ManuallyConfirmed'", "m:confirmed='1'")
        ),
        unit1("drei", "three", "mq:locked='locked' approved='no'", "state='final' state-qualifier='exact-match'"),
    ).replace("<xliff", "<xliff xmlns:mq='MQXliff' xmlns:m='http://www.memsource.com/mxlf/2.0'", 1)
    pairs, skipped = read_bytes(read_xliff, data)
    assert [target for _, target in pairs] == ["two", "two", "three"] and skipped == {reason: 1}


def test_segments_of_sdlxliff_are_skipped_by_their_states() -> None:
    states = ["Translated", "Draft", "RejectedTranslation", "RejectedSignOff", "ApprovedSignOff", None]
    texts = [f"<mrk mtype='seg' mid='{i}'>{state}</mrk>" for i, state in enumerate(states)]
    conf = [f"<sdl:seg id='{i}'" + (f" conf='{state}'/>" if state else "/>") for i, state in enumerate(states)]
    side = " ".join(texts)
    unit = (
        f"<trans-unit id='1'><source>x</source><seg-source>{side}</seg-source><target>{side}</target>"
        f"<sdl:seg-defs>{''.join(conf)}</sdl:seg-defs></trans-unit>"
    )
    data = version1(unit).replace("<xliff", "<xliff xmlns:sdl='http://sdl.com/FileTypes/SdlXliff/1.0'", 1)
    pairs, skipped = read_bytes(read_xliff, data)
    assert [source for source, _ in pairs] == ["Translated", "ApprovedSignOff"]
    assert skipped == {
        f"conf {state or 'Unspecified'}": 1 for state in states if state not in ("Translated", "ApprovedSignOff")
    }


def test_xliff_2_states_are_respected() -> None:
    states = ["initial", "translated", "reviewed", "final"]
    data = version2(*[unit2((state, "x"), state=f'state="{state}"') for state in states], unit2(("none", "x")))
    pairs, skipped = read_bytes(read_xliff, data)
    assert [source for source, _ in pairs] == ["translated", "reviewed", "final", "none"]
    assert skipped == {"state initial": 1}


def test_groups_and_units_not_to_be_translated_are_skipped() -> None:
    group = "<group translate='no'>{}</group>"
    data = version1(
        group.format(unit1("eins", "one")),
        group.format("<group>" + unit1("zwei", "two") + unit1("drei", "three", "translate='yes'") + "</group>"),
        unit1("vier", "four", "translate='no'"),
        unit1("fünf", "five"),
    )
    assert read_bytes(read_xliff, data) == ([("drei", "three"), ("fünf", "five")], {"translate no": 3})
    data = version2(group.format(unit2(("eins", "one"))), unit2(("zwei", "two")))
    assert read_bytes(read_xliff, data) == ([("zwei", "two")], {"translate no": 1})


# --- damaged --------------------------------------------------------------------------------------


def test_broken_file_raises_with_line() -> None:
    data = version1(unit1("eins", "one"), unit1("zwei", "two</g>"))
    for content, said in (
        (data, "line 4: broken XML ("),
        ("<tmx/>", "its outermost element is not <xliff>"),
        (data.replace("<xliff", '<!DOCTYPE xliff [<!ENTITY a "b">]><xliff', 1), "its DOCTYPE defines entities"),
    ):
        assert said in error_of(read_xliff, content)
