ob etas idul om og erasil
etof isan ilomor ufod udaf ur ob an
atul erideb al es inilim ufil obunin
enib udaf irim em olumib olumib idul ufod
idul aforem
us odemof anib uf atom in ifafim ifafim
eg ut
ufod ob
olilam olilam udaf
udaf eses oden edob ir uf udaf
idul imugan isus es aforem um ufod etof uf
ob atom ed
um aben odemof obunin emit es anib olilam om
il irim us um atul erafef etas irim
ufod abef ed udaf
imugan aforem inilim
enib erasil erafef umum umum ut
erafef isus abef
obug edob afof
um isus ilomor
erasil ur erasil odemof olilam ed omameg ir il
omameg erideb aben olilam obunin es anib aforem es
urufeb etas erasil
abef us isus us omameg irim isulos isulos ir
inilim enib idul em an ut an
om ufem
inilim og og anib og aforem om
in anib
al erideb ut emus
og afof edob abef etas
olumib ut odemof
il atom eg enib emus abef om emus
isus il urufeb olumib usid abef atul ufil
obug ur olilam isulos uf olilam irim atul
ufil aben erafef eb um us ur oden
ed itar ifafim atul odemof isan
us urufeb erideb enib
eb ufil ed ufod enib atom inilim ut
emit omameg
imugan atom an eses erasil obunin aforem eses
em em afof olumib
eg idul aforem om aben il etof emit obug
ut ir ufil imugan
es ufil etas og oden atul udaf
oden ilomor
ir udaf
olilam atul us an etof udaf erideb umum isan
isan ufem
erideb us enib obunin
inilim umum ufil erafef ifafim olumib eb uf isan
erideb al eb oden
abef isus ed aben og erafef isus erafef
oden obug om um obug eg
ob al ur
obunin il atom olumib itar ufem ur ut
ed es imugan etas olumib obunin
om erideb obunin al om erideb us
olumib urufeb udaf ilomor
erasil isulos itar ut isan emus ob emit
ifafim al
odemof og erasil es afof omameg ed erafef us
erasil ob obug
anib ufil us
etof usid il inilim anib
es enib abef aben erafef ur atul omameg
ufod eses an uf urufeb al imugan itar irim
