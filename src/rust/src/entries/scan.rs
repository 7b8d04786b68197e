//! Entries: cumulative sums, products and extremes.

use verdigris_ops::error::{Error, Kind};
use verdigris_ops::scan::Scan;

use crate::array::{convert, handle};
use crate::entry;
use crate::r::{self, values, List};

entry! {
    /// Scans x: list(the result, whether a sum of whole numbers does not fit). The result has no attribute but its
    /// class.
    fn scan(name, x) {
        let name = values::string(name, "name")?;
        let scan = Scan::ALL
            .into_iter()
            .find(|s| s.name() == name)
            .ok_or_else(|| Error::new(Kind::Argument, format!("there is no scan `{name}`")))?;
        let (out, overflow) = convert::array(x)?.scan(scan)?;
        Ok(List::new(2).add("", handle::wrap(out)).add("", r::logical(overflow)).finish())
    }
}
