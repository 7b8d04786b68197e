unit(U(1:3), "npc")
unit(U(c(0.1, 0.5)), "npc") + unit(1, "cm")
linesGrob(U(x), U(y))$x
pointsGrob(U(x), U(y))$y
rectGrob(width = U(0.5))$width
grid.pretty(U(c(0, 7)))
viewport(width = U(0.5))$width
