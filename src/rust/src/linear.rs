//! Matrix products for R.

use crate::r;
use verdigris_engine::array;
use verdigris_engine::error::{Error, Kind};

use crate::convert;
use crate::entry;
use crate::handle;

entry! {
    /// The product of two arrays as an m x k and a k x n matrix, flat; NULL where the host's BLAS serves.
    fn multiply(x, y, extents) {
        let (a, b) = (handle::array(x)?, handle::array(y)?);
        let sizes = convert::sizes(extents)?;
        let [m, k, n] = sizes[..] else {
            return Err(Error::new(Kind::Argument, "extents are three sizes"));
        };
        if a.len() != m * k || b.len() != k * n {
            return Err(Error::new(Kind::Shape, "non-conformable arguments"));
        }
        Ok(match array::multiply(&a, &b, m, k, n)? {
            Some(out) => handle::wrap(out),
            None => r::null(),
        })
    }
}
