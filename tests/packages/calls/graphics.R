hist(U(x), plot = FALSE)$counts
hist(U(x), breaks = U(c(0, 3, 7)), plot = FALSE)$density
barplot(U(x), plot = FALSE)
barplot(U(dm))
boxplot(U(x), plot = FALSE)$stats
boxplot(x ~ g, data.frame(x = U(x), g = k), plot = FALSE)$n
plot(U(x), U(y))
matplot(U(m), type = "l")
pairs(U(big))
image(U(m))
persp(U(m))
sunflowerplot(U(k), U(w))
co.intervals(U(x), 3)
coplot(y ~ x | w, data.frame(x = U(x), y = U(y), w = U(w)))
polygon(U(c(0, 1, 1)), U(c(0, 0, 1)))
stars(U(m))
symbols(U(x), U(y), circles = U(w))
smoothScatter(U(x), U(y))
stripchart(U(x))
mosaicplot(U(m))
fourfoldplot(U(array(1:8 + 0, c(2, 2, 2))))
