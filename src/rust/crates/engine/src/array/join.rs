//! Concatenation into new memory, and views whose axes repeat or overlap.

use crate::array::{Array, Operand};
use crate::backend;
use crate::memory::buffer::{Device, View};
use crate::memory::fallible;
use verdigris_ops::dtype::{Class, DType, Kind as NumberKind};
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::id;
use verdigris_ops::layout::Axis;
use verdigris_ops::scalar::Scalar;

/// A part as contiguous elements of the dtype on the device.
fn ready(part: &Array, dtype: DType, device: Device) -> Result<View> {
    part.to_device(device)?.cast(dtype, None)?.contiguous()
}

impl Array {
    /// The elements of all parts, in order, cast to the dtype, in new memory of the device.
    pub fn join(parts: &[Array], dtype: DType, device: Device) -> Result<Array> {
        let n = parts.iter().map(Array::len).sum::<usize>();
        let size = dtype.size();
        let backend = backend::of(device)?;
        let output = backend.allocate(n * size)?;
        let mut at = 0;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            let view = ready(part, dtype, device)?;
            backend.copy(&view.buffer, view.layout.offset() * size, &output, at * size, view.len() * size)?;
            at += view.len();
        }
        Ok(Array::from_view(View::contiguous(output, dtype, n)))
    }

    /// Stacks matrices of `columns` columns by rows (as rbind), in one pass; None on devices that do it by views
    /// instead.
    pub fn join_rows(parts: &[Array], columns: usize, dtype: DType, device: Device) -> Result<Option<Array>> {
        if device != Device::Cpu {
            return Ok(None);
        }
        let views = parts.iter().map(|part| ready(part, dtype, device)).collect::<Result<Vec<_>>>()?;
        let n = views.iter().map(View::len).sum::<usize>();
        let output = backend::of(device)?.allocate(n * dtype.size())?;
        backend::cpu::join_rows(&views, columns, &output)?;
        Ok(Some(Array::from_view(View::contiguous(output, dtype, n))))
    }

    /// A matrix of zeros with `value` on its diagonal, recorded: it takes the memory of one row and one column.
    ///
    /// # Errors
    /// `Memory`.
    pub fn diagonal(value: f64, rows: usize, columns: usize, device: Device) -> Result<Array> {
        let index = |n, axes: [Axis; 2]| {
            let whole = [Scalar::I32(0), Scalar::I32(1)];
            let whole = Array::source(id::SEQ, Class::I32, DType::Int32, n, device, &whole)?;
            whole.strided(&[n], &axes).map(Operand::Array)
        };
        let repeat = |extent| Axis { of: 0, start: 0, step: 0, extent };
        let row = index(rows, [Axis::whole(0, rows), repeat(columns)])?;
        let column = index(columns, [repeat(rows), Axis::whole(0, columns)])?;
        let is_on = Operand::Array(Array::apply(id::EQ, &[row, column], None)?);
        let number = |value| Operand::Value(Scalar::F64(value), NumberKind::Double);
        Array::apply(id::SELECT, &[is_on, number(value), number(0.0)], None)
    }

    /// A view in which each axis follows one axis of this array, of shape `dim`. If several axes follow the same one,
    /// their indices add up; an axis with a step of 0 repeats.
    ///
    /// # Errors
    /// `Shape` where a view would leave the array.
    pub fn strided(&self, dim: &[usize], axes: &[Axis]) -> Result<Array> {
        let wrong = || Error::new(Kind::Shape, "a view would leave its array");
        if fallible::product(dim.iter().copied())? != self.len() || axes.iter().any(|axis| axis.of >= dim.len()) {
            return Err(wrong());
        }
        let nothing = axes.iter().any(|axis| axis.extent == 0);
        for (of, &extent) in dim.iter().enumerate() {
            let (mut low, mut high) = (0isize, 0isize);
            for axis in axes.iter().filter(|axis| axis.of == of) {
                // Saturated numbers are out of bounds as well.
                let reach = axis.step.saturating_mul(axis.extent as isize - 1);
                let start = isize::try_from(axis.start).unwrap_or(isize::MAX);
                low = low.saturating_add(start).saturating_add(reach.min(0));
                high = high.saturating_add(start).saturating_add(reach.max(0));
            }
            if !nothing && (low < 0 || high >= extent as isize) {
                return Err(wrong());
            }
        }
        self.view(dim, axes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::host_bytes;
    use crate::array::transfer::{Host, HostMut};

    fn doubles(x: &Array) -> Vec<f64> {
        let mut out = vec![0.0; x.len()];
        x.read(0, HostMut::Double(&mut out)).unwrap();
        out
    }

    fn three() -> Array {
        Array::upload(Host::Double(&[1.0, 2.0, 3.0]), None, Device::Cpu, None).unwrap()
    }

    #[test]
    fn parts_are_joined_in_order_and_cast() {
        let whole = Array::upload(Host::Integer(&[4, 5]), None, Device::Cpu, None).unwrap();
        let none = three().view(&[3], &[Axis { of: 0, start: 0, step: 1, extent: 0 }]).unwrap();
        let back = three().view(&[3], &[Axis { of: 0, start: 2, step: -1, extent: 3 }]).unwrap();
        let joined = Array::join(&[three(), none, whole, back], DType::Float64, Device::Cpu).unwrap();
        assert_eq!(doubles(&joined), [1.0, 2.0, 3.0, 4.0, 5.0, 3.0, 2.0, 1.0]);
        assert!(Array::join(&[], DType::Int32, Device::Cpu).unwrap().is_empty());
    }

    #[test]
    fn axes_repeat_and_overlap() {
        let repeat = |extent| Axis { of: 0, start: 0, step: 0, extent };
        let each = three().strided(&[3], &[repeat(2), Axis::whole(0, 3)]).unwrap();
        assert_eq!(doubles(&each), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
        let times = three().strided(&[3], &[Axis::whole(0, 3), repeat(2)]).unwrap();
        assert_eq!(doubles(&times), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
        let windows =
            three().strided(&[3], &[Axis::whole(0, 2), Axis { of: 0, start: 1, step: -1, extent: 2 }]).unwrap();
        assert_eq!(doubles(&windows), [2.0, 3.0, 1.0, 2.0]);
        assert_eq!(host_bytes(&each.contiguous().unwrap()).unwrap().len(), 48);
    }

    #[test]
    fn a_diagonal_is_recorded() {
        let wide = Array::diagonal(2.5, 2, 3, Device::Cpu).unwrap();
        assert!(!wide.is_ready());
        assert_eq!(doubles(&wide), [2.5, 0.0, 0.0, 2.5, 0.0, 0.0]);
        let high = Array::diagonal(1.0, 3, 2, Device::Cpu).unwrap();
        assert_eq!(doubles(&high), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    }

    #[test]
    fn a_view_that_leaves_the_array_is_refused() {
        let beyond = [Axis::whole(0, 3), Axis { of: 0, start: 0, step: 1, extent: 2 }];
        assert!(three().strided(&[3], &beyond).is_err());
        let before = [Axis { of: 0, start: 0, step: -1, extent: 2 }];
        assert!(three().strided(&[3], &before).is_err());
        assert!(three().strided(&[3], &[Axis::whole(1, 1)]).is_err());
        assert!(three().strided(&[2], &[Axis::whole(0, 2)]).is_err());
    }
}
