enib aben edob es aben ob etof idul
erasil obug itar odemof
ob atom ed
usid obunin atul ifafim edob obug isus
erideb aforem uf ir oden es eb emus
udaf isus eg aben obunin ufem
olilam etof aben emus il etas
um aben odemof obunin emit es anib olilam om
anib eg erasil
eg isulos ufil umum erideb inilim odemof
imugan aforem
erasil ob obug
ufil aben erafef eb um us ur oden
erasil uf eses imugan obug
usid obug ur es uf aben um ilomor
inilim etas ob ifafim
usid inilim erideb olumib ufod urufeb
il irim us um atul erafef etas irim
afof isulos enib og udaf irim
og afof edob abef etas
il em ir
obunin il atom olumib itar ufem ur ut
aforem etof aforem isus etof atom
og ir edob olilam il in
ut olumib
eg ut
es og inilim erideb ufod ed aben em olilam
isus il urufeb olumib usid abef atul ufil
inilim edob ufod irim omameg obunin erafef
ilomor oden in eb udaf isulos um
al erideb ut emus
isan ufem
ut imugan ifafim isus obug aben erasil
em em afof olumib
omameg erideb aben olilam obunin es anib aforem es
ufod es erafef imugan erideb og uf
atul erideb al es inilim ufil obunin
irim atom isus
om aben emit afof itar enib
ifafim um isan ufil
ob etas idul om og erasil
ufil aben ut isulos olilam irim isan
om ufem
idul aforem
um ur enib us em um
ob abef uf ut in
erideb al eb oden
uf atom inilim isus edob ilomor ufem
eg idul aforem om aben il etof emit obug
ufod ur aben
ufod irim olilam ufem anib
obunin erasil om edob om afof obug
olumib urufeb udaf ilomor
irim inilim
il uf ed etof isulos abef
itar eg og erideb etof eses og obunin ufil
ed itar ifafim atul odemof isan
isus es
og in ut inilim
eg ufod isan udaf
es ufil etas og oden atul udaf
ilomor erideb usid og ifafim isulos abef oden usid
ufod eses an uf urufeb al imugan itar irim
idul isus erafef erafef usid olilam itar
ut edob olilam il
eb ufil ed ufod enib atom inilim ut
erasil edob isulos
odemof ufil erideb isulos
etof isan ilomor ufod udaf ur ob an
ufod ob
om erideb obunin al om erideb us
us ufil eses afof irim anib omameg uf
obug in al odemof ir erafef ur
ufil usid ifafim ufod umum
ur abef emus odemof atom obug olumib og
us afof ufod ufod obunin abef olilam
atul eses isus
um isus ilomor
us odemof anib uf atom in ifafim ifafim
etof obunin il ifafim
ufod abef ed udaf
eb ed us erafef ufem og inilim
es enib abef aben erafef ur atul omameg
eses edob umum
abef us isus us omameg irim isulos isulos ir
ed enib isulos
ut ir ufil imugan
edob erasil eg us usid erasil imugan isan
aben eg obunin inilim eses afof isan
eses um atom il umum enib eses
umum obunin ilomor
ifafim og in
etof usid il inilim anib
erasil isulos itar ut isan emus ob emit
imugan aforem erasil itar
us in erasil isulos enib usid afof em
um um atom oden udaf om emus og an
ifafim al
umum es isulos erasil obug ifafim urufeb isulos
ifafim atul emit usid ifafim om
eses om um erasil itar il
obug edob afof
us urufeb erideb enib
eses anib ifafim enib erideb isan omameg olilam il
obunin etof obug obug obunin al umum
edob edob um
olilam emus erasil erideb il us em udaf ob
om erasil
obug ur olilam isulos uf olilam irim atul
udaf etof
edob omameg olumib
es uf emit isan isan irim
al og um
erasil og imugan idul edob urufeb an ut
obug eg ir etas ilomor
urufeb aforem ir ufod anib aforem usid
udaf em aforem olilam isus emus
itar atom etof oden
urufeb etas erasil
ob ilomor udaf in idul idul erideb um ufil
oden inilim irim
imugan afof
anib ufil us
imugan atom an eses erasil obunin aforem eses
odemof uf isan olumib
ufem il og olumib isus ifafim afof itar ut
olilam atul us an etof udaf erideb umum isan
obunin erafef ufod ifafim
erafef ifafim enib
abef ur isulos ut irim ufem
erafef isus abef
um emus usid etas
umum obunin uf em eb ut
abef an obug ufod isan og uf og
itar ed ufil olumib ob isan ifafim afof
om abef imugan
olumib ut odemof
omameg an al ifafim usid etof anib udaf
eb uf afof irim em enib og olumib
idul imugan isus es aforem um ufod etof uf
ur al il
olilam olilam udaf
imugan aforem inilim
obug obunin aben isulos
aben ilomor erideb al etof ob ur
edob obunin in obunin og odemof odemof in em
erideb us enib obunin
inilim umum ufil erafef ifafim olumib eb uf isan
ufod erasil ufem es ufod odemof irim
olilam eb usid al eg aben ob etas erafef
ilomor olumib erasil anib atul um emus olumib
udaf eses oden edob ir uf udaf
in obug
og il
enib enib
aben isulos udaf imugan
om ufod erideb
al emit obug erideb isus eb irim odemof erafef
ob al ur
etas emus og
inilim uf
il atom eg enib emus abef om emus
in anib
em eses ufil eb ur
enib udaf irim em olumib olumib idul ufod
es usid urufeb etas em irim ilomor
isulos ifafim irim
irim ir isan irim ob og
odemof og erasil es afof omameg ed erafef us
usid etof emus idul usid ed obug ilomor aforem
obunin atul
afof ufem om
uf om eb ed idul inilim ut
eses obug omameg
aben an etas
oden urufeb em in usid ilomor odemof ifafim uf
ut obunin omameg
ed abef itar em emit ifafim isus
urufeb aforem obunin atul og em imugan ur ed
inilim enib idul em an ut an
abef isan ifafim ufod etas ed og eg
ir udaf
oden ilomor
afof afof
ed es imugan etas olumib obunin
abef isus ed aben og erafef isus erafef
eb emus isan isan ufod edob
og anib imugan inilim ir eg
eg an atom es enib uf ur erasil
atom an ilomor ufem olilam olumib urufeb etas
enib erasil erafef umum umum ut
in anib
emit omameg
emit enib eg erideb imugan atul ufod
oden obug om um obug eg
inilim og og anib og aforem om
atul isan eses ir og atul aben om erafef
aforem etas anib
erasil ur erasil odemof olilam ed omameg ir il
imugan oden erafef al anib itar in
