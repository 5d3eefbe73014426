"""The lexicon of the sample corpus: one entry per line, and the classes that hold the entries.

Each German lemma has exactly one English counterpart, so that a German sentence has exactly one translation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

# lemma  gender  genitive-ending  plural  english[/plural]  tags
# The endings "n" and "en" on a masculine noun mark the n-declension; "-" means no ending or no plural.
NOUN_TABLE = """
Mann            m  es  Männer           man/men             person,adult
Frau            f  -   Frauen           woman/women         person,adult
Kind            n  es  Kinder           child/children      person,young
Junge           m  n   Jungen           boy                 person,young
Mädchen         n  s   Mädchen          girl                person,young
Freund          m  es  Freunde          friend              person,kin,family
Freundin        f  -   Freundinnen      friend              person,kin,family
Bruder          m  s   Brüder           brother             person,kin,family
Schwester       f  -   Schwestern       sister              person,kin,family
Vater           m  s   Väter            father              person,kin,family,one
Mutter          f  -   Mütter           mother              person,kin,family,one
Sohn            m  es  Söhne            son                 person,kin,family
Tochter         f  -   Töchter          daughter            person,kin,family
Onkel           m  s   Onkel            uncle               person,kin,family
Tante           f  -   Tanten           aunt                person,kin,family
Großvater       m  s   Großväter        grandfather         person,kin,family
Großmutter      f  -   Großmütter       grandmother         person,kin,family
Nachbar         m  n   Nachbarn         neighbour           person,kin,adult
Nachbarin       f  -   Nachbarinnen     neighbour           person,kin,adult
Kollege         m  n   Kollegen         colleague           person,kin
Kollegin        f  -   Kolleginnen      colleague           person,kin
Lehrer          m  s   Lehrer           teacher             person,kin,adult
Lehrerin        f  -   Lehrerinnen      teacher             person,kin,adult
Arzt            m  es  Ärzte            doctor              person,adult
Ärztin          f  -   Ärztinnen        doctor              person,adult
Student         m  en  Studenten        student             person,adult
Studentin       f  -   Studentinnen     student             person,adult
Chef            m  s   Chefs            boss                person,kin,adult,one
Polizist        m  en  Polizisten       policeman/policemen person,adult
Gast            m  es  Gäste            guest               person,kin,adult
Kunde           m  n   Kunden           customer            person,adult
Verkäufer       m  s   Verkäufer        salesman/salesmen   person,adult
Koch            m  s   Köche            cook                person,adult
Künstlerin      f  -   Künstlerinnen    artist              person,adult
Schüler         m  s   Schüler          pupil               person,young
Schülerin       f  -   Schülerinnen     pupil               person,young
Hund            m  es  Hunde            dog                 animal
Katze           f  -   Katzen           cat                 animal
Pferd           n  es  Pferde           horse               animal
Vogel           m  s   Vögel            bird                animal
Apfel           m  s   Äpfel            apple               food,fruit
Birne           f  -   Birnen           pear                food,fruit
Banane          f  -   Bananen          banana              food,fruit
Kuchen          m  s   Kuchen           cake                food,baked
Brötchen        n  s   Brötchen         roll                food,baked
Pizza           f  -   Pizzen           pizza               food,baked,cooked
Suppe           f  -   Suppen           soup                food,cooked
Kartoffel       f  -   Kartoffeln       potato/potatoes     food,fruit
Tomate          f  -   Tomaten          tomato/tomatoes     food,fruit
Ei              n  s   Eier             egg                 food,cooked
Salat           m  s   Salate           salad               food
Wurst           f  -   Würste           sausage             food
Brot            n  es  -                bread               food,mass,baked
Käse            m  s   -                cheese              food,mass
Fleisch         n  es  -                meat                food,mass,cooked
Reis            m  es  -                rice                food,mass,cooked
Schokolade      f  -   -                chocolate           food,mass
Kaffee          m  s   -                coffee              drink,mass
Tee             m  s   -                tea                 drink,mass
Wasser          n  s   -                water               drink,mass
Milch           f  -   -                milk                drink,mass
Saft            m  es  -                juice               drink,mass
Wein            m  es  -                wine                drink,mass
Buch            n  es  Bücher           book                text,object,story
Zeitung         f  -   Zeitungen        newspaper           text,object
Brief           m  es  Briefe           letter              text,object,written,sent
Roman           m  s   Romane           novel               text,written,story
Artikel         m  s   Artikel          article             text,written
Bericht         m  es  Berichte         report              text,written,sent
Gedicht         n  es  Gedichte         poem                text,written
Nachricht       f  -   Nachrichten      message             text,written,sent
Rechnung        f  -   Rechnungen       bill                paper
Vertrag         m  s   Verträge         contract            text,paper
Postkarte       f  -   Postkarten       postcard            text,written,sent
Film            m  es  Filme            film                show,story
Sendung         f  -   Sendungen        programme           show
Foto            n  s   Fotos            photo               picture,object,sent
Bild            n  es  Bilder           picture             picture,object
Lied            n  es  Lieder           song                song
Auto            n  s   Autos            car                 vehicle,own,machine
Fahrrad         n  es  Fahrräder        bicycle             vehicle,own,machine
Bus             m  ses Busse            bus                 transport
Zug             m  es  Züge             train               transport
Flugzeug        n  es  Flugzeuge        plane               transport
Schiff          n  es  Schiffe          ship                transport
Straßenbahn     f  -   Straßenbahnen    tram                transport
Taxi            n  s   Taxis            taxi                cab
Hemd            n  es  Hemden           shirt               clothes
Jacke           f  -   Jacken           jacket              clothes
Mantel          m  s   Mäntel           coat                clothes
Hut             m  es  Hüte             hat                 clothes
Kleid           n  es  Kleider          dress               clothes
Rock            m  es  Röcke            skirt               clothes
Pullover        m  s   Pullover         jumper              clothes
Mütze           f  -   Mützen           cap                 clothes
Schal           m  s   Schals           scarf/scarves       clothes
Tisch           m  es  Tische           table               furniture
Stuhl           m  es  Stühle           chair               furniture,seat
Lampe           f  -   Lampen           lamp                furniture,switch
Bett            n  es  Betten           bed                 furniture,seat
Schrank         m  es  Schränke         cupboard            furniture
Sofa            n  s   Sofas            sofa                furniture,seat
Teppich         m  s   Teppiche         carpet              furniture
Spiegel         m  s   Spiegel          mirror              furniture
Uhr             f  -   Uhren            clock               object,machine
Schlüssel       m  s   Schlüssel        key                 object
Tasche          f  -   Taschen          bag                 object,luggage
Koffer          m  s   Koffer           suitcase            object,luggage
Handy           n  s   Handys           mobile_phone        object,machine
Computer        m  s   Computer         computer            machine,switch,object
Kamera          f  -   Kameras          camera              object,machine
Fernseher       m  s   Fernseher        television          machine,switch
Waschmaschine   f  -   Waschmaschinen   washing_machine     machine,switch
Kühlschrank     m  es  Kühlschränke     fridge              machine,furniture
Regenschirm     m  s   Regenschirme     umbrella            object
Messer          n  s   Messer           knife/knives        object
Glas            n  es  Gläser           glass/glasses       object,dish
Teller          m  s   Teller           plate               object,dish
Tasse           f  -   Tassen           cup                 object,dish
Flasche         f  -   Flaschen         bottle              object,dish
Ball            m  es  Bälle            ball                object
Geschenk        n  es  Geschenke        present             object,sent
Spielzeug       n  s   Spielzeuge       toy                 object
Blume           f  -   Blumen           flower              object
Ring            m  es  Ringe            ring                object
Heft            n  es  Hefte            notebook            object
Fahrkarte       f  -   Fahrkarten       ticket              object
Paket           n  s   Pakete           parcel              object,sent
Gitarre         f  -   Gitarren         guitar              object,instrument
Klavier         n  s   Klaviere         piano               instrument,furniture
Tür             f  -   Türen            door                part,lock
Fenster         n  s   Fenster          window              part
Wand            f  -   Wände            wall                wall
Dach            n  es  Dächer           roof                roof
Haus            n  es  Häuser           house               place,building,lock,in:in
Wohnung         f  -   Wohnungen        flat                place,building,lock,home,in:in
Zimmer          n  s   Zimmer           room                place,room,home,in:in
Küche           f  -   Küchen           kitchen             place,room,home,in:in
Wohnzimmer      n  s   Wohnzimmer       living_room         place,room,home,in:in
Keller          m  s   Keller           cellar              place,room,in:in
Garten          m  s   Gärten           garden              place,home,out,in:in
Balkon          m  s   Balkone          balcony             place,home,auf:on
Büro            n  s   Büros            office              place,room,work,goal,in:in
Schule          f  -   Schulen          school              place,building,work,goal,in:at
Universität     f  -   Universitäten    university          place,work,goal,an:at
Krankenhaus     n  es  Krankenhäuser    hospital            place,building,work,goal,in:in
Bahnhof         m  es  Bahnhöfe         station             place,public,goal,meet,station,an:at
Flughafen       m  s   Flughäfen        airport             place,public,goal,meet,station,an:at
Restaurant      n  s   Restaurants      restaurant          place,public,eat,goal,in:in
Café            n  s   Cafés            café                place,public,eat,goal,in:in
Kino            n  s   Kinos            cinema              place,public,goal,in:at
Theater         n  s   Theater          theatre             place,public,building,goal,in:at
Museum          n  s   Museen           museum              place,public,building,goal,in:in
Bibliothek      f  -   Bibliotheken     library             place,work,goal,in:in
Park            m  s   Parks            park                place,out,goal,meet,in:in
Wald            m  es  Wälder           forest              place,out,in:in
Strand          m  es  Strände          beach               place,out,an:on
See             m  s   Seen             lake                place,out,an:at
Dorf            n  es  Dörfer           village             place,town,in:in
Stadt           f  -   Städte           town                place,town,in:in
Markt           m  es  Märkte           market              place,shop,goal,auf:at
Supermarkt      m  es  Supermärkte      supermarket         place,shop,goal,in:in
Bäckerei        f  -   Bäckereien       bakery              place,shop,work,goal,in:in
Apotheke        f  -   Apotheken        pharmacy            place,shop,work,goal,in:in
Hotel           n  s   Hotels           hotel               place,public,building,goal,in:in
Kirche          f  -   Kirchen          church              place,building,goal,in:in
Schwimmbad      n  es  Schwimmbäder     swimming_pool       place,goal,in:in
Fabrik          f  -   Fabriken         factory             place,building,work,goal,in:in
Werkstatt       f  -   Werkstätten      workshop            place,work,goal,in:in
Bank            f  -   Banken           bank                place,work,goal,in:in
Brücke          f  -   Brücken          bridge              place,auf:on
Straße          f  -   Straßen          street              place,in:in
Frage           f  -   Fragen           question            idea,query
Antwort         f  -   Antworten        answer              idea,word
Aufgabe         f  -   Aufgaben         task                idea,puzzle
Regel           f  -   Regeln           rule                idea,lesson
Problem         n  s   Probleme         problem             idea,puzzle
Geschichte      f  -   Geschichten      story/stories       story,written,tale
Idee            f  -   Ideen            idea                idea,lesson
Plan            m  es  Pläne            plan                idea,lesson,draft
Fehler          m  s   Fehler           mistake             idea,fault
Prüfung         f  -   Prüfungen        exam                event,exam
Wort            n  es  Wörter           word                word,lesson
Adresse         f  -   Adressen         address             word,data
Nummer          f  -   Nummern          number              word,data
Preis           m  es  Preise           price               data
Unfall          m  s   Unfälle          accident            fault
Traum           m  es  Träume           dream               idea,tale
Geld            n  es  -                money               mass,money
Hilfe           f  -   -                help                mass,need
Termin          m  s   Termine          appointment         event,date
Fest            n  es  Feste            party               event,feast
Hochzeit        f  -   Hochzeiten       wedding             event,feast
Reise           f  -   Reisen           journey             event,trip
Ausflug         m  s   Ausflüge         trip                event,trip
Sitzung         f  -   Sitzungen        meeting             event,date
Kurs            m  es  Kurse            course              event,course
Spiel           n  es  Spiele           game                event,match
Konzert         n  es  Konzerte         concert             event,feast
Vortrag         m  s   Vorträge         lecture             event,course
Minute          f  -   Minuten          minute              unit
Stunde          f  -   Stunden          hour                unit,span
Tag             m  es  Tage             day                 unit,span
Woche           f  -   Wochen           week                unit,span
Monat           m  s   Monate           month               unit,span
Jahr            n  es  Jahre            year                unit,span
Euro            m  s   Euro             euro                currency
Abend           m  s   Abende           evening             daytime
Nachmittag      m  s   Nachmittage      afternoon           daytime
Wochenende      n  s   Wochenenden      weekend             daytime
Sommer          m  s   Sommer           summer              season
Winter          m  s   Winter           winter              season
Herbst          m  es  Herbste          autumn              season
Frühling        m  s   Frühlinge        spring              season
Montag          m  s   Montage          Monday              weekday
Dienstag        m  s   Dienstage        Tuesday             weekday
Mittwoch        m  s   Mittwoche        Wednesday           weekday
Donnerstag      m  s   Donnerstage      Thursday            weekday
Freitag         m  s   Freitage         Friday              weekday
Samstag         m  s   Samstage         Saturday            weekday
Sonntag         m  s   Sonntage         Sunday              weekday
Januar          m  s   Januare          January             month
Februar         m  s   Februare         February            month
März            m  es  Märze            March               month
April           m  s   Aprile           April               month
Mai             m  s   Maie             May                 month
Juni            m  s   Junis            June                month
Juli            m  s   Julis            July                month
August          m  s   Auguste          August              month
September       m  s   September        September           month
Oktober         m  s   Oktober          October             month
November        m  s   November         November            month
Dezember        m  s   Dezember         December            month
"""

# infinitive  3rd-singular  participle  auxiliary  english  subject  frame  places  flags
# english: base[/past/participle][_tail]; a tail that begins with "~" follows a pronoun object ("pick him up").
# frame: slots "A:class", "D:class", "preposition+case>english:class"; a class is a tag, a noun, or several with "|".
#        "D>to" puts the dative behind "to"; "?" marks an optional slot; "R" a reflexive verb; "dir" a destination.
# places: tags of places where it may happen, or "-".
# flags: s state (no progressive, no purpose), p passive, i deliberate act (imperative, purpose), k "seit" possible
VERB_TABLE = """
lesen         liest        gelesen        h read/read/read  person  A:text  home|work|out  pi
schreiben     schreibt     geschrieben    h write/wrote/written  person  ?D:person,A:written  home|work  pi
kaufen        kauft        gekauft        h buy/bought/bought person A:object|clothes|food|drink|instrument shop pi
verkaufen     verkauft     verkauft       h sell/sold/sold  person  A:own|clothes|furniture|building  -  pi
suchen        sucht        gesucht        h look_for  person  A:object|public|animal  -  -
finden        findet       gefunden       h find/found/found  person  A:object|money|Hilfe|data  home|work|out  p
verlieren     verliert     verloren       h lose/lost/lost  person  A:object|money  public|out  -
vergessen     vergisst     vergessen      h forget/forgot/forgotten  person  A:object|word|date  -  n
bringen       bringt       gebracht       h bring/brought/brought person D:person,A:drink|dish|text home|public pi
holen         holt         geholt         h fetch  person  A:drink|food|dish|luggage|object  -  pi
tragen        trägt        getragen       h wear/wore/worn  person  A:clothes  -  -
an|ziehen     zieht        angezogen      h put/put/put_~on  person  A:clothes  -  i
waschen       wäscht       gewaschen      h wash  person  A:clothes|own|dish  home  pi
putzen        putzt        geputzt        h clean  person  A:room|part|Dach|furniture  -  pi
reparieren    repariert    repariert      h repair  person  A:machine|roof|part  -  pi
bauen         baut         gebaut         h build/built/built  person  A:building|furniture|Brücke  -  pi
malen         malt         gemalt         h paint  person  A:Bild|Wand|Blume|Haus|Dach|Küche  home  pi
öffnen        öffnet       geöffnet       h open  person  A:part|luggage|Flasche|Brief|Paket  -  pi
schließen     schließt     geschlossen    h close  person  A:part|luggage|shop  -  pi
zeigen        zeigt        gezeigt        h show/showed/shown  person  D:person,A:picture|place|text|object  -  pi
geben         gibt         gegeben        h give/gave/given  person  D:person,A:object|money  -  pi
leihen        leiht        geliehen       h lend/lent/lent  person  D:person,A:object|own|Geld  -  i
schicken      schickt      geschickt      h send/sent/sent  person  D:person,A:sent  -  pi
erklären      erklärt      erklärt        h explain  person  D>to:person,A:idea|lesson  work|home  pi
erzählen      erzählt      erzählt        h tell/told/told  person  D:person,A:tale  home|out  i
empfehlen     empfiehlt    empfohlen      h recommend  person  D>to:person,A:story|show|eat|Hotel|Arzt|course  -  -
bezahlen      bezahlt      bezahlt        h pay/paid/paid_for  person  A:drink|food|Fahrkarte|Reise|cab  -  pi
bestellen     bestellt     bestellt       h order  person  A:food|drink|cab|text  eat  pi
kochen        kocht        gekocht        h cook  person  A:cooked|Kartoffel  home  pi
backen        backt        gebacken       h bake  person  A:baked  home  pi
essen         isst         gegessen       h eat/ate/eaten  person  A:food  home|eat  pi
trinken       trinkt       getrunken      h drink/drank/drunk  person  A:drink  home|eat  i
probieren     probiert     probiert       h try  person  A:food|drink  eat  pi
sehen         sieht        gesehen        h see/saw/seen  person  A:person|animal|show|place|transport  -  s
hören         hört         gehört         h hear/heard/heard  person  A:song|person|tale|animal  -  s
besuchen      besucht      besucht        h visit  person  A:person|Museum|town  -  pi
treffen       trifft       getroffen      h meet/met/met  person  A:person  public|meet  i
kennen        kennt        -              h know/knew/known  person  A:person|story|place|word|song  -  sk
an|rufen      ruft         angerufen      h call  person  A:person  -  pi
ein|laden     lädt         eingeladen     h invite  person  A:person,?zu+D>to:feast  -  pi
ab|holen      holt         abgeholt       h pick_~up  person  A:person|Paket|Fahrkarte  meet  pi
fragen        fragt        gefragt        h ask  person  A:person  -  i
verstehen     versteht     verstanden     h understand/understood/understood person A:lesson|text|query|person - s
lernen        lernt        gelernt        h learn  person  A:word|lesson|song|Gedicht  work|home  pi
unterrichten  unterrichtet unterrichtet   h teach/taught/taught  adult  A:young|Student|Studentin  work  i
prüfen        prüft        geprüft        h check  person  A:paper|data|machine|text  work  pi
übersetzen    übersetzt    übersetzt      h translate  person  A:text|song|word  work  pi
unterschreiben unterschreibt unterschrieben h sign  person  A:paper|Brief  -  pi
benutzen      benutzt      benutzt        h use  person  A:machine|own|instrument|dish  -  pi
brauchen      braucht      gebraucht      h need  person  A:object|clothes|money|need|machine  -  s
haben         hat          gehabt         h have/had/had  person  A:object|own|animal|idea|money|need  -  s
mögen         mag          -              h like  person  A:person|food|drink|story|show|animal  -  s
lieben        liebt        geliebt        h love  person  A:person|animal|song|place  -  s
beobachten    beobachtet   beobachtet     h watch  person  A:person|animal  out|home  pi
fotografieren fotografiert fotografiert   h photograph  person  A:building|person|animal|transport  -  pi
füttern       füttert      gefüttert      h feed/fed/fed  person  A:animal  home  pi
verpassen     verpasst     verpasst       h miss  person  A:transport|show|feast  -  -
planen        plant        geplant        h plan  person  A:event  -  pi
organisieren  organisiert  organisiert    h organise  person  A:event  -  pi
lösen         löst         gelöst         h solve  person  A:puzzle  work  pi
beantworten   beantwortet  beantwortet    h answer  person  A:query|Brief|Nachricht  -  pi
mit|bringen   bringt       mitgebracht    h bring/brought/brought_along  person  A:food|drink|object|clothes  -  i
mit|nehmen    nimmt        mitgenommen    h take/took/taken_along  person  A:object|clothes|person|animal  -  i
ein|schalten  schaltet     eingeschaltet  h switch_~on  person  A:switch  -  pi
aus|schalten  schaltet     ausgeschaltet  h switch_~off  person  A:switch  -  pi
auf|räumen    räumt        aufgeräumt     h tidy_~up  person  A:room|Wohnung|Schrank|Balkon  -  pi
vor|bereiten  bereitet     vorbereitet    h prepare  person  A:event|food  -  pi
weg|werfen    wirft        weggeworfen    h throw/threw/thrown_~away  person  A:text|food|object|clothes  -  pi
zurück|geben  gibt         zurückgegeben  h give/gave/given_~back  person  ?D>to:person,A:object|text  -  i
ab|sagen      sagt         abgesagt       h cancel  person  A:event  -  pi
ab|schließen  schließt     abgeschlossen  h lock  person  A:lock  -  pi
auf|schreiben schreibt     aufgeschrieben h write/wrote/written_~down  person  A:word|data|idea|tale  -  i
stehlen       stiehlt      gestohlen      h steal/stole/stolen  person  A:object|own|money  -  p
zerstören     zerstört     zerstört       h destroy  person  A:building|machine|picture|Brücke  -  p
beschreiben   beschreibt   beschrieben    h describe  person  ?D>to:person,A:idea|place|picture|person  -  pi
packen        packt        gepackt        h pack  person  A:luggage|Geschenk|Paket  home  pi
verstecken    versteckt    versteckt      h hide/hid/hidden  person  A:object|money|sent  home  pi
ändern        ändert       geändert       h change  person  A:lesson|date|data|text  -  pi
schlafen      schläft      geschlafen     h sleep/slept/slept  person  -  home|room  i
arbeiten      arbeitet     gearbeitet     h work  adult  -  work  ik
spielen       spielt       gespielt       h play  person  ?mit+D>with:young|animal  home|out  i
lachen        lacht        gelacht        h laugh  person  über+A>at:tale|fault|person  -  -
weinen        weint        geweint        h cry  person  -  home|work|out  -
tanzen        tanzt        getanzt        h dance  person  ?mit+D>with:person  home|public  i
singen        singt        gesungen       h sing/sang/sung  person  A:song  home|out  pi
schwimmen     schwimmt     geschwommen    s swim/swam/swum  person  in+D>in:See|Schwimmbad  -  i
wandern       wandert      gewandert      s hike  person  ?mit+D>with:person  Wald  i
warten        wartet       gewartet       h wait  person  auf+A>for:transport|person|sent|cab  public|meet  i
wohnen        wohnt        gewohnt        h live  person  at:town|building|Straße  -  sk
bleiben       bleibt       geblieben      s stay  person  at:home|work|public  -  i
sitzen        sitzt        gesessen       h sit/sat/sat  person  at:home|work|public|out  -  -
an|kommen     kommt        angekommen     s arrive  person|transport  ?mit+D>with:kin,at:station|city  -  -
ab|fahren     fährt        abgefahren     s leave/left/left  transport  ?von+D>from:station  -  -
auf|stehen    steht        aufgestanden   s get/got/got_up  person  clock  -  -
ein|steigen   steigt       eingestiegen   s get/got/got_on  person  in+A>:transport  station  -
aus|steigen   steigt       ausgestiegen   s get/got/got_off  person  aus+D>:transport  station  -
um|ziehen     zieht        umgezogen      s move  person  mit+D>with:family,city  -  i
ein|schlafen  schläft      eingeschlafen  s fall/fell/fallen_asleep  person  -  home|public  -
zurück|kommen kommt        zurückgekommen s come/came/come_back person aus+D>from:town|eat|Kino|Büro|Schule|Hotel - -
gehen         geht         gegangen       s go/went/gone  person  dir,?mit+D>with:person  -  i
fahren        fährt        gefahren       s go/went/gone  person  city|dir,vehicle  -  i
fliegen       fliegt       geflogen       s fly/flew/flown  person  mit+D>with:family,city  -  i
laufen        läuft        gelaufen       s run/ran/run  person  dir  -  i
reisen        reist        gereist        s travel  person  mit+D>with:person,city  -  i
denken        denkt        gedacht        h think/thought/thought  person  an+A>of:person|event|money  -  -
sprechen      spricht      gesprochen     h talk person mit+D>to:person,?über+A>about:idea|event|text|tale work|home i
helfen        hilft        geholfen       h help  person  D:person  home|work  i
gehören       gehört       gehört         h belong  object|own|animal|building|clothes  D>to:person  -  s
gefallen      gefällt      gefallen       h like object|clothes|place|story|picture|song|Idee|Plan|Antwort D:person - sx
antworten     antwortet    geantwortet    h reply  person  D>to:person  -  i
danken        dankt        gedankt        h thank  person  D:person,für+A>for:sent|Hilfe|Antwort|Buch|Kuchen  -  i
vertrauen     vertraut     vertraut       h trust  person  D:person  -  s
gratulieren   gratuliert   gratuliert     h congratulate person D:person,zu+D>on:exam|Hochzeit|Roman|Plan|Idee - i
freuen        freut        gefreut        h look_forward_to  person  R,auf+A>:event|sent  -  s
interessieren interessiert interessiert   h be/was/been_interested_in person R,für+A>:story|machine|town|course - s
erinnern      erinnert     erinnert       h remember  person  R,an+A>:person|event|word|tale  -  s
kümmern       kümmert      gekümmert      h take/took/taken_care_of person R,um+A>:young|animal|kin|data|money - i
ärgern        ärgert       geärgert       h be/was/been_annoyed_about person R,über+A>:fault|idea|data|person - s
aus|ruhen     ruht         ausgeruht      h rest  person  R  home|out  i
teil|nehmen nimmt teilgenommen h take/took/taken_part_in person an+D>:course|feast|trip|match|exam|Sitzung - i
auf|passen    passt        aufgepasst     h look_after  person  auf+A>:young|animal|luggage  -  i
träumen       träumt       geträumt       h dream  person  von+D>of:place|own|trip|feast  -  -
nach|denken   denkt        nachgedacht    h think/thought/thought person über+A>about:idea|event|text|tale home|work i
zu|hören      hört         zugehört       h listen  person  D>to:person  -  i
bitten        bittet       gebeten        h ask  person  A:person,um+A>for:object|money|Hilfe|drink  -  i
frühstücken   frühstückt   gefrühstückt   h have/had/had_breakfast  person  ?mit+D>with:person  home|eat  i
ein|kaufen    kauft        eingekauft     h shop  person  at:shop,?mit+D>with:kin  -  i
fern|sehen    sieht        ferngesehen    h watch_television  person  ?mit+D>with:kin  home  i
"""

# lemma  english  comparative  english-comparative  tags
ADJECTIVE_TABLE = """
müde        tired         müder         more_tired         state
krank       ill           -             -                  state
hungrig     hungry        hungriger     hungrier           state
durstig     thirsty       durstiger     thirstier          state
glücklich   happy         glücklicher   happier            state,person
traurig     sad           trauriger     sadder             state,person,story
nervös      nervous       nervöser      more_nervous       state,person
zufrieden   satisfied     zufriedener   more_satisfied     state,person
wütend      angry         wütender      angrier            state,person
gesund      healthy       gesünder      healthier          state,person,food
jung        young         jünger        younger            person,animal
alt         old           älter         older              person,animal,thing,place
nett        nice          netter        nicer              person
freundlich  friendly      freundlicher  friendlier         person,animal
klug        clever        klüger        cleverer           person,idea,animal
fleißig     hard-working  fleißiger     more_hard-working  person
faul        lazy          fauler        lazier             person,animal
berühmt     famous        berühmter     more_famous        person,story,place
höflich     polite        höflicher     more_polite        person
reich       rich          reicher       richer             person
stark       strong        stärker       stronger           person,animal
mutig       brave         mutiger       braver             person
neu         new           neuer         newer              thing,place,story,idea
teuer       expensive     teurer        more_expensive     thing,trip
billig      cheap         billiger      cheaper            thing,trip
groß        big           größer        bigger             thing,place,nature,animal
klein       small         kleiner       smaller            thing,place,nature,animal
schön       beautiful     schöner       more_beautiful     thing,place,nature,story,trip
hässlich    ugly          hässlicher    uglier             thing
schwer      heavy         schwerer      heavier            load
leicht      light         leichter      lighter            load
modern      modern        moderner      more_modern        thing,place
kaputt      broken        -             -                  broken
rot         red           -             -                  colour
blau        blue          -             -                  colour
grün        green         -             -                  colour
gelb        yellow        -             -                  colour
schwarz     black         -             -                  colour,animal
weiß        white         -             -                  colour,animal
grau        grey          -             -                  colour,animal
sauber      clean         sauberer      cleaner            thing,room
schmutzig   dirty         schmutziger   dirtier            thing,room
warm        warm          wärmer        warmer             cooked,drink,room
kalt        cold          kälter        colder             cooked,drink,room
lang        long          länger        longer             text,trip,story
kurz        short         kürzer        shorter            text,trip,story
wichtig     important     wichtiger     more_important     idea,text,event
interessant interesting   interessanter more_interesting   idea,text,story,place,event
langweilig  boring        langweiliger  more_boring        idea,text,story,event
schwierig   difficult     schwieriger   more_difficult     idea,exam
einfach     simple        einfacher     simpler            idea
gefährlich  dangerous     gefährlicher  more_dangerous     animal,trip
spannend    exciting      spannender    more_exciting      story,trip,event
frisch      fresh         frischer      fresher            food
lecker      delicious     leckerer      more_delicious     food
süß         sweet         süßer         sweeter            food
ruhig       quiet         ruhiger       quieter            place,nature,room,person
hell        bright        heller        brighter           room
dunkel      dark          dunkler       darker             room,colour
gemütlich   cosy          gemütlicher   cosier             room,seat
bequem      comfortable   bequemer      more_comfortable   seat,clothes,transport
leer        empty         -             -                  dish,luggage,place
schnell     fast          schneller     faster             transport,animal
"""

# lemma  english  kind
ADVERB_TABLE = """
gestern      yesterday          past
vorgestern   the_day_before_yesterday  past
neulich      recently           past
morgen       tomorrow           future
übermorgen   the_day_after_tomorrow  future
bald         soon               future
oft          often              frequency
immer        always             frequency
selten       rarely             frequency
manchmal     sometimes          frequency
meistens     usually            frequency
nie          never              frequency
schon        already            perfect
gerade       -                  progressive
heute        today              day
allein       alone              manner
schnell      quickly            manner
langsam      slowly             manner
leise        quietly            manner
gern         like_to            modal
sehr         very               degree
zu           too                degree
ziemlich     quite              degree
wirklich     really             degree
noch         still              degree
vielleicht   perhaps            sentence
wahrscheinlich probably         sentence
leider       unfortunately      sentence
deshalb      so                 connective
bitte        please             request
"""

NAMES_M = [
    "Paul",
    "Peter",
    "Jan",
    "Tim",
    "Leon",
    "Martin",
    "Stefan",
    "Erik",
    "Oliver",
    "Daniel",
    "Jonas",
    "Simon",
]
NAMES_F = [
    "Anna",
    "Maria",
    "Laura",
    "Julia",
    "Lena",
    "Sophie",
    "Clara",
    "Emma",
    "Nina",
    "Eva",
    "Lisa",
    "Sarah",
]
CITY_TABLE = """
Berlin     Berlin
Hamburg    Hamburg
München    Munich
Köln       Cologne
Wien       Vienna
Zürich     Zurich
Leipzig    Leipzig
Dresden    Dresden
Frankfurt  Frankfurt
Genf       Geneva
Rom        Rome
Paris      Paris
Prag       Prague
London     London
"""

NUMBERS = {
    2: ("zwei", "two"), 3: ("drei", "three"), 4: ("vier", "four"), 5: ("fünf", "five"), 6: ("sechs", "six"),
    7: ("sieben", "seven"), 8: ("acht", "eight"), 9: ("neun", "nine"), 10: ("zehn", "ten"), 11: ("elf", "eleven"),
    12: ("zwölf", "twelve"), 13: ("dreizehn", "thirteen"), 14: ("vierzehn", "fourteen"), 15: ("fünfzehn", "fifteen"),
    16: ("sechzehn", "sixteen"), 17: ("siebzehn", "seventeen"), 18: ("achtzehn", "eighteen"),
    19: ("neunzehn", "nineteen"), 20: ("zwanzig", "twenty"), 30: ("dreißig", "thirty"), 40: ("vierzig", "forty"),
    50: ("fünfzig", "fifty"), 60: ("sechzig", "sixty"), 70: ("siebzig", "seventy"), 80: ("achtzig", "eighty"),
    90: ("neunzig", "ninety"),
}  # fmt: skip

FUNCTION_WORDS = """
der the
ein a
kein no
dieser this
mein my
dein your
sein his
ihr her
unser our
Ihr your
ich I
du you
er he
sie she
wir we
Sie you
es it
man one
sich himself
wer who
was what
wann when
wo where
warum why
wohin where
wie how
welcher which
viel many
jeder every
nächster next
letzter last
in in
an at
auf on
mit with
ohne without
von from
zu to
aus from
für for
um at
über about
nach after
vor before
seit for
während during
wegen because_of
trotz despite
halb half_past
Viertel quarter
weil because
dass that
ob whether
obwohl although
wenn if
nachdem after
bevor before
sobald as_soon_as
und and
aber but
als than
so as
nicht not
können can
müssen have_to
wollen want_to
dürfen be_allowed_to
sollen should
möchten would_like_to
Haus home
"""


@dataclass(frozen=True)
class Noun:
    """A noun with its declension and its English forms."""

    lemma: str
    gender: str
    genitive: str
    plural: str
    en: str
    en_plural: str
    tags: tuple[str, ...]

    @property
    def weak(self) -> bool:
        """Whether the noun follows the n-declension (der Nachbar, den Nachbarn)."""
        return self.gender == "m" and self.genitive in ("n", "en")

    @property
    def mass(self) -> bool:
        return "mass" in self.tags

    @cached_property
    def animate(self) -> bool:
        return "person" in self.tags

    @property
    def place(self) -> tuple[str, str] | None:
        """The prepositions, German and English, with which the noun names a location."""
        for tag in self.tags:
            if ":" in tag:
                german, english = tag.split(":")
                return german, english
        return None

    def form(self, case: str, plural: bool) -> str:
        """The declined form; ``case`` is N, A, D or G."""
        if plural:
            return self.plural + ("n" if case == "D" and self.plural[-1] not in "ns" else "")
        if self.weak:
            return self.lemma if case == "N" else self.lemma + self.genitive
        if case == "G" and self.genitive != "-":
            return self.lemma + self.genitive
        return self.lemma


@dataclass(frozen=True)
class English:
    """The forms of an English verb; ``tail`` is what follows it ("look" + "for")."""

    base: str
    past: str
    participle: str
    tail: str = ""

    @property
    def third(self) -> str:
        special = {"be": "is", "have": "has", "go": "goes"}
        if self.base in special:
            return special[self.base]
        if self.base.endswith(("s", "sh", "ch", "x", "z")):
            return self.base + "es"
        if self.base.endswith("y") and self.base[-2] not in "aeiou":
            return self.base[:-1] + "ies"
        return self.base + "s"

    @property
    def ing(self) -> str:
        word = self.base
        if word == "lie":
            return "lying"
        if word.endswith("e") and not word.endswith("ee") and word != "be":
            return word[:-1] + "ing"
        if word in DOUBLING:
            return word + word[-1] + "ing"
        return word + "ing"


@dataclass(frozen=True)
class Slot:
    """One complement of a verb."""

    kind: str
    german: str
    case: str
    english: str
    classes: tuple[str, ...]
    optional: bool


@dataclass(frozen=True)
class Verb:
    """A verb with its German forms, its English counterpart and its complements."""

    stem: str
    prefix: str
    third: str
    participle: str
    aux: str
    en: English
    subject: tuple[str, ...]
    slots: tuple[Slot, ...]
    places: tuple[str, ...]
    flags: str
    reflexive: bool = False

    @cached_property
    def lemma(self) -> str:
        return self.prefix + self.stem

    def present(self, person: int, plural: bool) -> str:
        """The finite present form without its separable prefix."""
        if plural:
            return self.stem
        if person == 3:
            return self.third
        if person == 1:
            if self.stem == "haben":
                return "habe"
            if self.stem == "mögen":
                return "mag"
            if self.stem.endswith(("eln", "ern")):
                return self.stem[:-1] if self.stem.endswith("eln") else self.stem[:-1] + "e"
            return self.stem[:-1]
        special = {"hat": "hast", "hält": "hältst", "lädt": "lädst", "mag": "magst"}
        if self.third in special:
            return special[self.third]
        root = self.third[:-1]
        if root.endswith(("s", "ß", "z", "x")):
            return self.third
        return root + "st"

    def zu_infinitive(self) -> str:
        return f"{self.prefix}zu{self.stem}" if self.prefix else f"zu {self.stem}"


@dataclass(frozen=True)
class Adjective:
    """An adjective with its comparative and its English counterpart."""

    lemma: str
    en: str
    comparative: str
    en_comparative: str
    tags: tuple[str, ...]

    @property
    def stem(self) -> str:
        """The lemma without what it loses before an ending: teur for teuer, as in teurer."""
        special = {"teuer": "teur", "dunkel": "dunkl", "müde": "müd"}
        return special.get(self.lemma, self.lemma)


DOUBLING = ("put", "get", "run", "swim", "plan", "sit", "begin", "shop", "forget", "cancel", "travel")


def _rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def regular_plural(word: str) -> str:
    """The regular English plural."""
    if word.endswith(("s", "sh", "ch", "x", "z")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def regular_past(word: str) -> str:
    """The regular English past form."""
    if word.endswith("e"):
        return word + "d"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ied"
    return word + (word[-1] if word in DOUBLING else "") + "ed"


def english_verb(text: str) -> English:
    """Read ``base[/past/participle][_tail]``."""
    head, _, tail = text.partition("_")
    forms = head.split("/")
    tail = tail.replace("_", " ")
    if len(forms) == 3:
        last, _, rest = forms[2].partition("_")
        return English(forms[0], forms[1], last, rest or tail)
    past = regular_past(head)
    return English(head, past, past, tail)


def _noun(row: list[str]) -> Noun:
    lemma, gender, genitive, plural, english, tags = row
    single, _, several = english.replace("_", " ").partition("/")
    return Noun(lemma, gender, genitive, plural, single, several or regular_plural(single), tuple(tags.split(",")))


def _slot(text: str) -> Slot:
    optional = text.startswith("?")
    text = text.lstrip("?")
    head, _, classes = text.partition(":")
    names = tuple(classes.split("|")) if classes else ()
    german, arrow, english = head.partition(">")
    if "+" in german:
        preposition, case = german.split("+")
        return Slot("P", preposition, case, english, names, optional)
    if german in ("A", "D"):
        return Slot("P" if arrow else german, "", german, english, names, optional)
    return Slot(head, "", "", "", names, optional)


def _verb(row: list[str]) -> Verb:
    infinitive, third, participle, aux, english, subject, frame, places, flags = row
    prefix, _, stem = infinitive.rpartition("|")
    slots = [] if frame == "-" else [_slot(part) for part in frame.split(",")]
    return Verb(
        stem, prefix, third, participle, aux, english_verb(english), tuple(subject.split("|")),
        tuple(slot for slot in slots if slot.kind != "R"), () if places == "-" else tuple(places.split("|")),
        flags.replace("-", ""), any(slot.kind == "R" for slot in slots),
    )  # fmt: skip


def _adjective(row: list[str]) -> Adjective:
    lemma, english, comparative, english_comparative, tags = row
    return Adjective(
        lemma, english, comparative.replace("-", ""), english_comparative.replace("more_", "more ").lstrip("-"),
        tuple(tags.split(",")),
    )  # fmt: skip


NOUNS = [_noun(row) for row in _rows(NOUN_TABLE)]
NOUN = {noun.lemma: noun for noun in NOUNS}
VERBS = [_verb(row) for row in _rows(VERB_TABLE)]
VERB = {verb.lemma: verb for verb in VERBS}
ADJECTIVES = [_adjective(row) for row in _rows(ADJECTIVE_TABLE)]
ADVERBS = [(row[0], row[1].replace("_", " "), row[2]) for row in _rows(ADVERB_TABLE)]
CITIES = [(row[0], row[1]) for row in _rows(CITY_TABLE)]
FUNCTION = {row[0]: row[1].replace("_", " ") for row in _rows(FUNCTION_WORDS)}


@cache
def nouns_of(classes: tuple[str, ...]) -> tuple[Noun, ...]:
    """The nouns that carry one of the tags, or are named, in the order of the table."""
    return tuple(noun for noun in NOUNS if noun.lemma in classes or any(tag in noun.tags for tag in classes))
