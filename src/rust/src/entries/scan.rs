//! Entries: cumulative sums, products and extremes.

use verdigris_engine::array::Array;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::scan::Scan;

use crate::entries::entry::entries;
use crate::r::typed::FromR;
use crate::r::{List, SEXP};

impl FromR for Scan {
    fn from_r(x: SEXP, argument: &'static str) -> Result<Scan> {
        let name = <&str>::from_r(x, argument)?;
        let found = Scan::ALL.into_iter().find(|s| s.name() == name);
        found.ok_or_else(|| Error::new(Kind::Argument, format!("there is no scan `{name}`")))
    }
}

entries! {
    /// list(the scan of x, whether an integer sum has overflowed). The result has no attributes but its class.
    fn scan(name: Scan, x: Array) -> Result<List> {
        let (out, overflow) = x.scan(name)?;
        Ok(List::new(2).add("", out).add("", overflow))
    }
}
