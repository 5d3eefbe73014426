irim inilim
ufod es erafef imugan erideb og uf
uf om eb ed idul inilim ut
eb ed us erafef ufem og inilim
um um atom oden udaf om emus og an
inilim uf
erasil edob isulos
abef isan ifafim ufod etas ed og eg
afof ufem om
urufeb aforem obunin atul og em imugan ur ed
eg an atom es enib uf ur erasil
umum es isulos erasil obug ifafim urufeb isulos
ilomor olumib erasil anib atul um emus olumib
afof afof
umum obunin uf em eb ut
em eses ufil eb ur
eg isulos ufil umum erideb inilim odemof
imugan aforem
odemof ufil erideb isulos
erafef ifafim enib
olilam etof aben emus il etas
es uf emit isan isan irim
oden urufeb em in usid ilomor odemof ifafim uf
eses um atom il umum enib eses
olilam emus erasil erideb il us em udaf ob
ufod ur aben
og il
aben ilomor erideb al etof ob ur
imugan oden erafef al anib itar in
edob omameg olumib
ifafim um isan ufil
oden inilim irim
ifafim atul emit usid ifafim om
aforem etas anib
obunin atul
al og um
ed enib isulos
anib eg erasil
emit enib eg erideb imugan atul ufod
omameg an al ifafim usid etof anib udaf
obug obunin aben isulos
itar eg og erideb etof eses og obunin ufil
ob abef uf ut in
ur abef emus odemof atom obug olumib og
edob erasil eg us usid erasil imugan isan
afof isulos enib og udaf irim
odemof uf isan olumib
imugan afof
us afof ufod ufod obunin abef olilam
atul isan eses ir og atul aben om erafef
atul eses isus
abef ur isulos ut irim ufem
al emit obug erideb isus eb irim odemof erafef
umum obunin ilomor
us ufil eses afof irim anib omameg uf
ut obunin omameg
eg ufod isan udaf
erasil og imugan idul edob urufeb an ut
idul isus erafef erafef usid olilam itar
imugan aforem erasil itar
ufod erasil ufem es ufod odemof irim
aben eg obunin inilim eses afof isan
