isulos ifafim irim
ufod irim olilam ufem anib
eses edob umum
enib enib
om ufod erideb
erasil obug itar odemof
eses anib ifafim enib erideb isan omameg olilam il
eb uf afof irim em enib og olumib
ut olumib
il uf ed etof isulos abef
uf atom inilim isus edob ilomor ufem
obug eg ir etas ilomor
erasil uf eses imugan obug
ut edob olilam il
urufeb aforem ir ufod anib aforem usid
om erasil
og in ut inilim
inilim edob ufod irim omameg obunin erafef
aben isulos udaf imugan
irim atom isus
etas emus og
usid obug ur es uf aben um ilomor
og ir edob olilam il in
obunin etof obug obug obunin al umum
il em ir
enib aben edob es aben ob etof idul
obug in al odemof ir erafef ur
ufil aben ut isulos olilam irim isan
irim ir isan irim ob og
ilomor erideb usid og ifafim isulos abef oden usid
atom an ilomor ufem olilam olumib urufeb etas
um ur enib us em um
abef an obug ufod isan og uf og
om abef imugan
um emus usid etas
ufil usid ifafim ufod umum
inilim etas ob ifafim
og anib imugan inilim ir eg
eses obug omameg
olilam eb usid al eg aben ob etas erafef
om aben emit afof itar enib
aben an etas
ifafim og in
edob edob um
aforem etof aforem isus etof atom
ufem il og olumib isus ifafim afof itar ut
udaf etof
ed abef itar em emit ifafim isus
es usid urufeb etas em irim ilomor
ilomor oden in eb udaf isulos um
us in erasil isulos enib usid afof em
eb emus isan isan ufod edob
usid etof emus idul usid ed obug ilomor aforem
in obug
edob obunin in obunin og odemof odemof in em
isus es
usid obunin atul ifafim edob obug isus
ut imugan ifafim isus obug aben erasil
etof obunin il ifafim
obunin erasil om edob om afof obug
erideb aforem uf ir oden es eb emus
eses om um erasil itar il
itar atom etof oden
itar ed ufil olumib ob isan ifafim afof
ob ilomor udaf in idul idul erideb um ufil
obunin erafef ufod ifafim
es og inilim erideb ufod ed aben em olilam
udaf isus eg aben obunin ufem
ur al il
udaf em aforem olilam isus emus
usid inilim erideb olumib ufod urufeb
