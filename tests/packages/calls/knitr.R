kable(data.frame(a = U(x[1:2])))
kable(U(dm))
kable(data.frame(a = U(x[1:2]), b = U(l[1:2])), digits = 1)
combine_words(U(1:3))
