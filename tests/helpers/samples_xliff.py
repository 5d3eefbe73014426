"""XLIFF in the style of several programs."""

from __future__ import annotations

XLIFF_1 = """<?xml version="1.0" encoding="UTF-8"?>
<!-- from a web application -->
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
  <file original="src/app/messages.ts" source-language="de-AT" datatype="plaintext" translate='yes'>
    <header><note>Größe &gt; 5</note></header>
    <body>
      <trans-unit id="title" datatype="html">
        <source>Willkommen, <x id="INTERPOLATION" equiv-text="{{name}}"/>!</source>
        <context-group purpose="location"><context context-type="sourcefile">app.html</context></context-group>
        <note priority="1">Startseite</note>
      </trans-unit>
      <trans-unit id="1" resname="menu.open">
        <source>Datei &amp;öffnen &#8230;<bpt id="1" rid="1">&lt;b&gt;</bpt>jetzt<ept id="2" rid="1">\
&lt;/b&gt;</ept></source>
        <target/>
      </trans-unit>
      <trans-unit id="2" maxwidth="12" size-unit="char"><source>Es gibt %d Dateien</source><target state='new'>\
x</target>
        <alt-trans><source>Eine Datei</source><target>One file</target></alt-trans></trans-unit>
      <trans-unit id="3"><source>Fertig</source><target state="translated">Done</target></trans-unit>
      <trans-unit id="4" approved="yes"><source>Abgenommen</source><target></target></trans-unit>
      <group translate="no">
        <trans-unit id="5"><source>Bleibt so</source></trans-unit>
        <trans-unit id="6" translate="yes"><source>Doch wieder</source></trans-unit>
      </group>
      <trans-unit id="7" xml:space="preserve"><source>  Erste Zeile
  Zweite Zeile&#13;
</source></trans-unit>
      <trans-unit id="8"><source>Ein <g id="1">kleiner <g id="2">Hund</g></g> und <mrk mtype="protected">nmt</mrk>
          <bx id="3"/>bellt<ex id="3"/> <ph id="4">&lt;img alt="<sub>Bild</sub>"&gt;</ph><it id="5" pos="open">\
[i]</it></source>
      </trans-unit>
      <trans-unit id="9"><source>Zwei Sätze. Der zweite.</source>
        <seg-source><g id="1"><mrk mtype="seg" mid="0">Zwei Sätze.</mrk></g> <mrk mtype="seg" mid="1">Der \
zweite.</mrk></seg-source>
      </trans-unit>
      <bin-unit id="b" mime-type="image/png"><bin-source><internal-file form="base64">AAAA</internal-file>\
</bin-source></bin-unit>
    </body>
  </file>
</xliff>
"""
XLIFF_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="de" trgLang="en-GB"
 xmlns:mtc="urn:oasis:names:tc:xliff:matches:2.0">\r
 <file id="f" original="handbuch.docx"><skeleton href="x"/>\r
  <unit id="u1"><mtc:matches><mtc:match ref="#s1"><source>Hallo</source><target>Hi</target></mtc:match>\
</mtc:matches>\r
   <notes><note>Ein Hinweis</note></notes><originalData><data id="d1">&lt;b&gt;</data></originalData>\r
   <segment id="s1"><source>Hallo <pc id="1" dataRefStart="d1"><mrk id="m1" type="term">Welt</mrk></pc>!</source>\r
   </segment>\r
   <ignorable><source> </source></ignorable>\r
   <segment id="s2" state="initial">\r
    <source>Der <sc id="2"/>zweite <ph id="3" equiv="{n}"/><ec startRef="2"/> Satz<cp hex="0007"/>.</source>\r
    <target>Der zweite Satz</target>\r
   </segment>\r
   <segment id="s3" state="final"><source>Fertig</source><target>Done</target></segment>\r
   <segment id="s4"><source>Ohne Zustand</source><target>Without a state</target></segment>\r
   <segment id="s5"><source>Ein <sm id="m2" translate="no"/>Name<em startRef="m2"/> und <mrk id="m3" \
translate="no">Wort</mrk></source><target></target></segment>\r
  </unit>\r
  <group id="g" translate="no"><unit id="u2"><segment><source>Bleibt</source></segment></unit></group>\r
 </file>\r
</xliff>\r
"""
SDLXLIFF = """\ufeff<?xml version="1.0" encoding="utf-8"?><xliff xmlns:sdl="http://sdl.com/FileTypes/SdlXliff/1.0" \
xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2" sdl:version="1.0"><file original="C:\\Texte\\Brief.docx" \
source-language="de-DE" target-language="en-US"><header><reference><internal-file form="base64">UEsDBBQAAAAI
AAAA</internal-file></reference></header><body>
<trans-unit id="a-1" translate="no"><source><x id="0"/></source></trans-unit>
<trans-unit id="a-2"><source><g id="5">Erster Satz. Zweiter Satz. Dritter. Vierter.</g></source>
<seg-source><g id="5"><mrk mtype="seg" mid="1">Erster <x id="6"/> Satz.</mrk> <mrk mtype="seg" mid="2">Zweiter \
Satz.</mrk> \
<mrk mtype="seg" mid="3">Dritter.</mrk> <mrk mtype="seg" mid="4">Vierter.</mrk></g></seg-source>
<target><g id="5"><mrk mtype="seg" mid="1" /> <mrk mtype="seg" mid="2">Second sentence.</mrk> <mrk mtype="seg" \
mid="3"/> \
<mrk mtype="seg" mid="4">?</mrk></g></target>
<sdl:seg-defs><sdl:seg id="1"/><sdl:seg id="2" conf="Translated" origin="interactive"><sdl:rep id="x"/></sdl:seg>\
<sdl:seg id="3" locked="true"/><sdl:seg id="4" conf="Unspecified" origin="source"/></sdl:seg-defs></trans-unit>
</body></file></xliff>
"""
MQXLIFF = """<?xml version="1.0" encoding="utf-8"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:mq="MQXliff" version="1.2" mq:version="1">
<file original="brief.docx" source-language="de" target-language="en-us" datatype="x-docx"><body>
<trans-unit id="1" mq:segmentguid="a1" mq:status="NotStarted" mq:percent="0"><source xml:space="preserve">\
Drücken Sie \
<bpt id="1" ctype="bold">{}</bpt>Start<ept id="1">{}</ept>.<ph id="2">&lt;mq:ch val="&#10;" /&gt;</ph></source>
<target xml:space="preserve"></target></trans-unit>
<trans-unit id="2" mq:status="ManuallyConfirmed"><source xml:space="preserve">Ja</source>\
<target xml:space="preserve"></target></trans-unit>
<trans-unit id="3" mq:status="NotStarted" mq:locked="locked"><source xml:space="preserve">Gesperrt</source>\
<target xml:space="preserve"/></trans-unit>
<trans-unit id="4" mq:status="Pretranslated"><source xml:space="preserve">Nein</source>\
<target xml:space="preserve">No</target></trans-unit>
<trans-unit id="5" mq:status="NotStarted"><source xml:space="preserve">Das Ende</source><target xml:space="preserve"/>
<mq:minorversions><mq:historical-unit mq:status="NotStarted"><source>Ende</source><target/></mq:historical-unit>\
</mq:minorversions></trans-unit>
</body></file></xliff>
"""
MXLIFF = """<?xml version='1.0' encoding='UTF-8'?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:m="http://www.memsource.com/mxlf/2.0" version="1.2" \
m:version="2.4">
<file original="seite.html" source-language="de" target-language="en" datatype="x-htm"><body><group id="0" \
m:para-id="0">
<trans-unit id="job:0" xml:space="preserve" m:score="0.0" m:confirmed="0" m:locked="false" m:trans-origin="null">
<source>Ein {1&gt;fettes&lt;1} Wort{2} hier</source>
<target></target>
<alt-trans origin="machine-trans"><target>A bold word</target></alt-trans>
</trans-unit>
<trans-unit id="job:1" m:confirmed="1" m:locked="false" m:trans-origin="null"><source>Ja</source><target/>\
</trans-unit>
<trans-unit id="job:2" m:confirmed="0" m:locked="true"><source>Nein</source><target></target></trans-unit>
<trans-unit id="job:3" m:confirmed="0" m:locked="false"><source>Vielleicht</source><target></target></trans-unit>
</group></body></file></xliff>
"""
SAMPLES: dict[str, bytes] = {
    "a.xlf": XLIFF_1.encode(),
    "b.xliff": XLIFF_2.encode(),
    "c.sdlxliff": SDLXLIFF.encode(),
    "d.mqxliff": MQXLIFF.encode(),
    "e.mxliff": MXLIFF.encode(),
}
