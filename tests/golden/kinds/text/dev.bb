enib oden
ut etof
inilim anib oden olumib al
erafef odemof odemof og eses
ufil olumib isulos oden oden aforem uf udaf atul
es es erasil erasil emit isan ilomor
enib umum odemof eb erafef edob
og atom erafef odemof ir
irim enib
isus ur itar afof atom idul
isan odemof
aben inilim ufil il ufem aben aforem udaf
