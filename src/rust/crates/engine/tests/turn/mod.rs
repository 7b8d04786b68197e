//! Long tests take a share of their cases in each CI run, in turn: `.ci/run` sets `VERDIGRIS_TURN` to the number of
//! commits. Without the variable they take all.

/// Whether case `k` belongs to this run's share, which is one of `shares`.
pub fn in_turn(k: usize, shares: usize) -> bool {
    let turn = std::env::var("VERDIGRIS_TURN").ok().and_then(|turn| turn.parse::<usize>().ok());
    turn.is_none_or(|turn| k % shares == turn % shares)
}
