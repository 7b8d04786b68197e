coordinates(SpatialPoints(U(cbind(1, 2))))
coordinates(SpatialPointsDataFrame(U(cbind(x, y)), data.frame(w = U(w))))
spDists(U(cbind(x, y)))[1:3]
spDistsN1(U(cbind(x, y)), U(c(1, 1)))
point.in.polygon(U(x), U(y), c(0, 6, 6, 0), c(0, 0, 6, 6))
Polygon(U(cbind(c(0, 1, 1, 0), c(0, 0, 1, 0))))@area
Line(U(cbind(x, y)))@coords
bbox(U(cbind(x, y)))
GridTopology(U(c(0, 0)), U(c(1, 1)), U(c(2L, 2L)))
