nchar(digest(as.vector(U(x))))
