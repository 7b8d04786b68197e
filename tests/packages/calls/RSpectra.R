eigs_sym(U(s), 1)$values
eigs(U(s), 1)$values
svds(U(m), 1)$d
svds(U(m), 1, nu = 0, nv = 1)$v
eigs_sym(U(s), 2, which = "SA")$values
