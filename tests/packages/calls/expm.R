expm(U(s / 10))
logm(U(s))
U(s) %^% 2
sqrtm(U(s))
expmCond(U(s / 10))
expAtv(U(s / 10), U(x[1:4]))$eAtv
