//! Entries: Fourier transforms. `margin` is a dimension, from 1.

use verdigris_engine::array::{fourier, Array};
use verdigris_ops::error::{Error, Kind, Result};

use crate::entries::entry::entries;

fn index(margin: usize) -> Result<usize> {
    margin.checked_sub(1).ok_or_else(|| Error::new(Kind::Argument, "dimensions are counted from 1"))
}

entries! {
    /// The transform of all dimensions (`margin` 0), or of all lines along one.
    fn fft(x: Array, dim: Vec<usize>, margin: usize, inverse: bool) -> Result<Array> {
        match margin {
            0 => fourier::all(&x, &dim, inverse),
            margin => fourier::margin(&x, &dim, index(margin)?, inverse),
        }
    }

    /// The first half of the transforms of real lines.
    fn rfft(x: Array, dim: Vec<usize>, margin: usize) -> Result<Array> {
        fourier::half(&x, &dim, index(margin)?)
    }

    /// The `n` real elements of lines of whose transforms the first half is given, times `n`.
    fn irfft(x: Array, dim: Vec<usize>, margin: usize, n: usize) -> Result<Array> {
        fourier::from_half(&x, &dim, index(margin)?, n)
    }
}
