//! The option that selects how plans are run: by kernels compiled for them, or by an interpreter and prebuilt kernels.

use std::sync::atomic::{AtomicU8, Ordering};

use verdigris_ops::error::{Error, Kind, Result};

/// Which kernels may run a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Tier {
    /// The plan's own kernel once it is compiled; until then an interpreter, if one can be loaded without compilation.
    Auto,
    /// The plan's own kernel; the call waits for its compilation.
    Compiled,
    /// Only the interpreter and the prebuilt kernels.
    Interpreted,
}

/// The names, for messages.
pub const NAMES: &str = "\"auto\", \"compiled\" or \"interpreted\"";

impl Tier {
    pub const fn name(self) -> &'static str {
        match self {
            Tier::Auto => "auto",
            Tier::Compiled => "compiled",
            Tier::Interpreted => "interpreted",
        }
    }

    /// # Errors
    /// `Argument` for any other name.
    pub fn from_name(name: &str) -> Result<Tier> {
        [Tier::Auto, Tier::Compiled, Tier::Interpreted].into_iter().find(|t| t.name() == name).ok_or_else(|| {
            Error::new(Kind::Argument, format!("there is no tier \"{name}\""))
                .advise("Tiers are \"auto\", \"compiled\" and \"interpreted\".")
        })
    }
}

static TIER: AtomicU8 = AtomicU8::new(UNSET);
const UNSET: u8 = u8::MAX;

pub fn set_tier(tier: Tier) {
    TIER.store(tier as u8, Ordering::Relaxed);
}

/// The tier set by `set_tier`, else by the environment variable `VERDIGRIS_TIER`, else `Auto`.
pub fn tier() -> Tier {
    match TIER.load(Ordering::Relaxed) {
        0 => Tier::Auto,
        1 => Tier::Compiled,
        2 => Tier::Interpreted,
        _ => {
            let named = std::env::var("VERDIGRIS_TIER").ok().and_then(|name| Tier::from_name(&name).ok());
            set_tier(named.unwrap_or(Tier::Auto));
            tier()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_have_names() {
        for tier in [Tier::Auto, Tier::Compiled, Tier::Interpreted] {
            assert_eq!(Tier::from_name(tier.name()).unwrap(), tier);
        }
        assert_eq!(Tier::from_name("quick").unwrap_err().kind, Kind::Argument);
    }
}
