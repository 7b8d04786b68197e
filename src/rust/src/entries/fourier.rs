//! Entries: Fourier transforms. `margin` is a dimension, counted from 1.

use verdigris_engine::array::{fourier, Array};
use verdigris_ops::error::{Error, Kind, Result};

use crate::entries::entry::entries;

fn index(margin: usize) -> Result<usize> {
    margin.checked_sub(1).ok_or_else(|| Error::new(Kind::Argument, "dimensions are counted from 1"))
}

entries! {
    /// The transform over all dimensions (`margin` 0), or of each line along one.
    fn fft(x: Array, dim: Vec<usize>, margin: usize, inverse: bool) -> Result<Array> {
        match margin {
            0 => fourier::all(&x, &dim, inverse),
            margin => fourier::margin(&x, &dim, index(margin)?, inverse),
        }
    }

    /// The first n / 2 + 1 elements of the transform of each real line of n elements.
    fn rfft(x: Array, dim: Vec<usize>, margin: usize) -> Result<Array> {
        fourier::half(&x, &dim, index(margin)?)
    }

    /// The inverse of `rfft`, not normalised: lines of `n` real elements, multiplied by `n`.
    fn irfft(x: Array, dim: Vec<usize>, margin: usize, n: usize) -> Result<Array> {
        fourier::from_half(&x, &dim, index(margin)?, n)
    }
}
