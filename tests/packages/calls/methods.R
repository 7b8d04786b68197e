is(U(x), "numeric")
is(U(m), "matrix")
is(U(k), "integer")
is(U(x), "matrix")
is(U(quarters), "ts")
is(U(x), "vector")
{setClass("P", representation(w = "matrix", b = "numeric")); new("P", w = U(m), b = U(1))@w}
{setClass("P", representation(b = "numeric")); p <- new("P"); p@b <- U(5); p@b}
{setClass("P", representation(b = "numeric")); tryCatch(new("P", b = U(m)), error = function(e) "refused")}
{A <- setRefClass("A", fields = list(w = "matrix")); A$new(w = U(m))$w}
{setGeneric("g1", function(v) standardGeneric("g1")); setMethod("g1", "numeric", function(v) "n"); g1(U(x))}
{setGeneric("g2", function(v) standardGeneric("g2")); setMethod("g2", "matrix", function(v) "m"); g2(U(m))}
{setGeneric("g3", function(v) standardGeneric("g3")); setMethod("g3", "integer", function(v) "i"); g3(U(k))}
{setGeneric("g4", function(v) standardGeneric("g4")); setMethod("g4", "ANY", function(v) "a"); g4(U(x))}
{setClassUnion("NoM", c("numeric", "matrix")); is(U(x), "NoM")}
{setClass("N", contains = "numeric"); new("N", U(x))@.Data}
as(U(x), "integer")
as(U(k), "numeric")
as(U(x), "character")
existsMethod("show", class(U(x))[1]) || TRUE
