layer_data(ggplot(data.frame(x = U(x), y = U(y)), aes(x, y)) + geom_point())[, 1:2]
layer_data(ggplot(data.frame(x = U(x), y = U(y)), aes(x, y, colour = y)) + geom_point())$colour
layer_data(ggplot(data.frame(x = U(x), y = U(y)), aes(x, y, fill = y)) + geom_tile())$fill
layer_data(ggplot(data.frame(x = U(x)), aes(x)) + geom_histogram(bins = 5))$count
layer_data(ggplot(data.frame(x = U(x)), aes(x)) + geom_density())$y[1:3]
layer_data(ggplot(data.frame(x = U(x), g = group), aes(g, x)) + geom_boxplot())$middle
layer_data(ggplot(data.frame(x = U(x), y = U(y)), aes(x, y)) + geom_line())$y
layer_data(ggplot(data.frame(x = U(x), y = U(y)), aes(x, y)) + geom_smooth(method = lm, formula = y ~ x))$y[1:3]
layer_data(ggplot(data.frame(x = U(x), y = U(y), s = U(w)), aes(x, y, size = s)) + geom_point())$size
layer_data(ggplot(data.frame(x = U(l)), aes(x)) + geom_bar())$count
layer_data(ggplot(data.frame(x = U(x), y = U(y)), aes(x, y)) + geom_point() + scale_x_log10())$x
layer_data(ggplot(data.frame(x = U(x), y = U(y), k = k), aes(x, y)) + geom_point() + facet_wrap(~ k))$PANEL
ggplotGrob(ggplot(data.frame(x = U(x), y = U(y)), aes(x, y)) + geom_point()) |> class()
xlim(U(c(0, 1)))$limits
ylim(U(c(0, 1)))$limits
lims(x = U(c(0, 1)))[[1]]$limits
scale_x_continuous(limits = U(c(0, 5)), breaks = U(c(1, 2)))$breaks
cut_interval(U(x), 3)
cut_number(U(x), 3)
cut_width(U(x), 2)
mean_se(U(x))
resolution(U(x))
expansion(U(c(0, 1)))
geom_vline(xintercept = U(c(1, 2)))$data
layer_data(qplot(U(x), U(y)))[, 1:2]
layer_data(ggplot(data.frame(x = U(x), y = U(y)), aes(x, y, z = x)) + stat_summary_2d(bins = 2))$value
