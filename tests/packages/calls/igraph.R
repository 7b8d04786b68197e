gsize(graph_from_adjacency_matrix(U((s > 5) + 0)))
ecount(graph_from_edgelist(U(cbind(1:3, 2:4))))
vcount(make_graph(U(c(1, 2, 2, 3))))
edge_attr(set_edge_attr(make_ring(3), "w", value = U(named)))
distances(make_ring(4), weights = U(c(1, 2, 3, 4)))
page_rank(make_ring(4), personalized = U(c(1, 0, 0, 0)))$vector
compare(U(two), two, "nmi")
vertex_attr(set_vertex_attr(make_ring(3), "w", value = U(named)), "w")
degree(graph_from_adjacency_matrix(U((s > 5) + 0), mode = "undirected", diag = FALSE))
betweenness(make_ring(4), weights = U(c(1, 2, 3, 4)))
mst(make_full_graph(4), weights = U(c(1, 2, 3, 4, 5, 6))) |> ecount()
layout_in_circle(make_ring(3))[U(1:2), 1]
