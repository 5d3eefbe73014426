"""Made files of software strings in XML, in German."""

from __future__ import annotations

ANDROID = """<?xml version="1.0" encoding="utf-8"?>
<!-- Texte -->
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <string name="app_name" translatable="false">Beispiel</string>
    <string name="open">Datei öffnen</string>
    <string name="apostrophe">Geht\\'s los? \\u00bbJa\\u00ab, sagt \\"Anna\\"</string>
    <string name="quoted">"  Mit Raum davor und 'Zeichen'  "</string>
    <string name="lines">Erste Zeile\\nZweite Zeile\\tund Spalte</string>
    <string name="count">Noch %1$d Dateien von <b>%2$s</b> (100 %%)</string>
    <string name="held">Fassung <xliff:g id="version" example="1.2">%s</xliff:g> ist neu</string>
    <string name="link"><![CDATA[Siehe <a href=\\"https://example.org/?a=1&b=2\\">die Seite</a> & mehr]]></string>
    <string name="escaped">Ein &lt;i&gt;Wort&lt;/i&gt; &amp; noch eins &#8230;</string>
    <string name="at">\\@zuhause und \\?fragend</string>
    <string name="same">@string/open</string>
    <string name="price" product="tablet">Preis am Tablet</string>
    <string name="price" product="default">Preis am Telefon</string>
    <string name="wrapped">
        Ein Text über
        zwei Zeilen
    </string>
    <string name="empty"/>
    <string-array name="days">
        <item>Montag</item>
        <item>Dienstag <!-- zwei --></item>
        <item>@string/open</item>
    </string-array>
    <plurals name="songs">
        <item quantity="one">Ein Lied gefunden</item>
        <item quantity="other">%d Lieder gefunden</item>
    </plurals>
    <color name="red">#f00</color>
</resources>
""".encode()
RESX = """\ufeff<?xml version="1.0" encoding="utf-8"?>\r
<root>\r
  <xsd:schema id="root" xmlns="" xmlns:xsd="http://www.w3.org/2001/XMLSchema"><xsd:element name="data"/></xsd:schema>\r
  <resheader name="resmimetype">\r
    <value>text/microsoft-resx</value>\r
  </resheader>\r
  <data name="Greeting" xml:space="preserve">\r
    <value>Guten Tag, {0}! Es ist {1:N2} Uhr &amp; kalt.</value>\r
    <comment>für alle</comment>\r
  </data>\r
  <data name="Lines" xml:space="preserve">\r
    <value>Erste Zeile\r
Zweite Zeile mit &lt;b&gt;Fett&lt;/b&gt;</value>\r
  </data>\r
  <data name="Brand" xml:space="preserve">\r
    <value>Beispiel</value>\r
    <comment>{Locked}</comment>\r
  </data>\r
  <data name="&gt;&gt;button1.Name" xml:space="preserve"><value>Knopf</value></data>\r
  <data name="button1.Text" xml:space="preserve"><value>&amp;Speichern</value></data>\r
  <data name="button1.Size" type="System.Drawing.Size, System.Drawing"><value>75, 23 Punkte</value></data>\r
  <data name="icon" mimetype="application/x-microsoft.net.object.binary.base64"><value>AAEAAAD/Text</value></data>\r
  <data name="Empty" xml:space="preserve"><value/></data>\r
</root>\r
""".encode()
QT = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" sourcelanguage="de">
<context>
    <name>Hauptfenster</name>
    <message>
        <location filename="../haupt.cpp" line="12"/>
        <source>&amp;Datei öffnen …</source>
        <comment>Menü</comment>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Fertig</source>
        <translation>Done</translation>
    </message>
    <message>
        <source>Seite %1 von %L2 ist &lt;b&gt;leer&lt;/b&gt;.
Noch eine Zeile</source>
        <translation type="unfinished"/>
    </message>
    <message numerus="yes">
        <source>%n Datei(en) gelöscht</source>
        <translation type="unfinished">
            <numerusform></numerusform>
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n Bild(er)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Ton <byte value="x7"/> an</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Geprüft</source>
        <translation type="unfinished">Checked</translation>
    </message>
    <message>
        <source>Alt</source>
        <translation type="vanished"></translation>
    </message>
</context>
</TS>
""".encode()
SAMPLES = {"strings.xml": ANDROID, "Texts.resx": RESX, "app.ts": QT}
