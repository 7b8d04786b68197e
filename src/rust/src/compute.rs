//! Computing what is recorded.

use crate::{entry, handle};

entry! {
    /// Computes an array's values: queued on its device, not waited for. Returns x.
    fn compute(x) {
        handle::array(x)?.settle()?;
        Ok(x)
    }
}
