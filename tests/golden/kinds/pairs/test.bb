us om
om al
ufil odemof odemof edob ur ed
eses og isus odemof atul irim irim irim
isulos og eb aben ifafim
om ut us irim ed emit etof udaf isan
isulos us ur odemof ufem il eb ufod ob
enib udaf erafef
om umum eses
etas etof olumib ufem ufem usid irim
