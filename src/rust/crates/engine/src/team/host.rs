//! The carrier for arrays on the host, by sockets. Arrays on GPUs are copied through the host.

use crate::memory::buffer::{Device, View};
use crate::memory::fallible;
use crate::team::carrier::{Carrier, ReceiveTarget, Received};
use crate::team::collectives::Collectives;
use crate::team::mesh::{self, Mesh, SendItem};
use crate::team::message::Call;
use crate::team::rendezvous::{self, JoinOptions, Listener};
use crate::team::{Caller, Transport};
use verdigris_ops::error::{Error, Kind, Result};

/// A member whose arrays are sent through sockets.
pub type Host = Collectives<Sockets>;

pub struct Sockets(pub Mesh);

/// Joins a team. Only the first member passes a listener.
///
/// # Errors
/// Those of `rendezvous::join`.
pub fn join(listener: Option<Listener>, place: &JoinOptions) -> Result<Host> {
    if place.rank >= place.size {
        return Err(Error::new(Kind::Argument, format!("a team of {} has no member {}", place.size, place.rank + 1)));
    }
    let mesh = Mesh::new(place.rank, rendezvous::join(listener, place)?, place.timeout);
    let mut host = Collectives(Sockets(mesh));
    // So that no member returns while another one fails.
    host.barrier(&Caller::default())?;
    Ok(host)
}

/// The bytes of a contiguous view on the host.
pub fn bytes(view: &View) -> &[u8] {
    let bytes = view.len() * view.dtype.size();
    if bytes == 0 {
        return &[];
    }
    // SAFETY: contiguous elements in a buffer on the host, which lives as long as the view and is not written.
    unsafe { std::slice::from_raw_parts(view.address() as *const u8, bytes) }
}

/// Sends views on the host, and receives into host memory.
pub fn exchange(
    mesh: &mut Mesh,
    call: &Call,
    step: u32,
    sends: &[(usize, View)],
    targets: &[(usize, ReceiveTarget)],
) -> Result<Vec<Received>> {
    let sends = fallible::collected(sends.iter().map(|(to, view)| SendItem { to: *to, bytes: bytes(view) }))?;
    let room = |room: &ReceiveTarget| match room {
        ReceiveTarget::At(view) if !view.is_empty() => {
            // SAFETY: memory of a new buffer that nobody else uses; targets do not overlap.
            mesh::ReceiveTarget::At(unsafe {
                std::slice::from_raw_parts_mut(view.address() as *mut u8, view.len() * view.dtype.size())
            })
        }
        ReceiveTarget::At(_) => mesh::ReceiveTarget::At(&mut []),
        ReceiveTarget::Of(_) | ReceiveTarget::New => mesh::ReceiveTarget::New,
    };
    let targets = fallible::collected(targets.iter().map(|(from, into)| (*from, room(into))))?;
    let received = mesh.exchange(call, step, &sends, targets)?;
    fallible::collected(received.into_iter().map(|r| Received { call: r.call, buffer: r.buffer }))
}

impl Carrier for Sockets {
    fn mesh(&mut self) -> &mut Mesh {
        &mut self.0
    }

    fn rank(&self) -> usize {
        self.0.rank
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn place(&self, _: Device) -> Device {
        Device::Cpu
    }

    fn one_step_max_bytes(&self) -> usize {
        1 << 15
    }

    fn exchange(
        &mut self,
        call: &Call,
        step: u32,
        sends: &[(usize, View)],
        targets: Vec<(usize, ReceiveTarget)>,
    ) -> Result<Vec<Received>> {
        exchange(&mut self.0, call, step, sends, &targets)
    }

    fn stop(&mut self, reason: &str) {
        self.0.stop(reason);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::array::{Array, Operand};
    use crate::team::message::Fold;
    use crate::team::rendezvous::Token;
    use crate::team::run;
    use crate::testing::{array, values};
    use verdigris_ops::dtype::DType;
    use verdigris_ops::scalar::Scalar;

    /// Runs each member on a thread; returns their results by rank.
    fn team<R: Send + 'static>(
        size: usize,
        timeout: f64,
        member: impl Fn(Host) -> R + Send + Clone + 'static,
    ) -> Vec<R> {
        let listener = Listener::new("127.0.0.1", 0).unwrap();
        let (port, token) = (listener.port().unwrap(), Token::new());
        let mut first = Some(listener);
        let threads: Vec<_> = (0..size)
            .map(|rank| {
                let (listener, member) = (first.take(), member.clone());
                thread::spawn(move || {
                    let timeout = Duration::from_secs_f64(timeout);
                    let place = JoinOptions { rank, size, address: "127.0.0.1", port, token, version: "1", timeout };
                    member(join(listener, &place).unwrap())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }

    fn element(rank: usize, k: usize) -> f64 {
        ((k * 7 + rank * 31) % 101) as f64 * 0.1 - 3.0
    }

    fn elements(rank: usize, n: usize) -> Vec<f64> {
        (0..n).map(|k| element(rank, k)).collect()
    }

    #[test]
    fn sums_are_those_in_the_order_of_ranks_however_long() {
        for size in 1..=4 {
            for n in [0, 1, 7, 5000, 200_003] {
                let all = team(size, 30.0, move |mut host| {
                    let x = array(&elements(host.rank(), n));
                    let sum = host.all_reduce(&x, Fold::Sum, false, &Caller::default()).unwrap();
                    let part = host.reduce_scatter(&x, Fold::Sum, 1, false, &Caller::default()).unwrap();
                    let most = host.all_reduce(&x, Fold::Max, true, &Caller::default()).unwrap();
                    (values(&sum), values(&part), values(&most))
                });
                let folded = |f: fn(f64, f64) -> f64| -> Vec<f64> {
                    (0..n).map(|k| (0..size).map(|rank| element(rank, k)).reduce(f).unwrap()).collect()
                };
                let (sum, most) = (folded(|a, b| a + b), folded(f64::max));
                for (rank, (total, part, greatest)) in all.into_iter().enumerate() {
                    assert!(total == sum && greatest == most, "{size} members, {n} elements");
                    assert_eq!(part, sum[run(n, rank, size)]);
                }
            }
        }
    }

    #[test]
    fn each_dtype_folds_as_the_operators_do() {
        for dtype in DType::ALL {
            for fold in [Fold::Sum, Fold::Product, Fold::Min, Fold::Max] {
                let found = team(3, 30.0, move |mut host| {
                    let part = |rank| array(&elements(rank, 100)).cast(dtype, None).unwrap();
                    let got = host.all_reduce(&part(host.rank()), fold, false, &Caller::default());
                    let one =
                        |a: Array, b: Array| Array::apply(fold.row(), &[Operand::Array(a), Operand::Array(b)], None);
                    let want = one(part(0), part(1)).and_then(|two| one(two, part(2)));
                    match (got, want) {
                        (Ok(got), Ok(want)) => {
                            let (got, want) = (got.contiguous().unwrap(), want.contiguous().unwrap());
                            got.dtype == want.dtype && bytes(&got) == bytes(&want)
                        }
                        (Err(got), Err(want)) => got.kind == want.kind && got.message == want.message,
                        _ => false,
                    }
                });
                assert_eq!(found, [true; 3], "{dtype} {fold:?}");
            }
        }
    }

    #[test]
    fn parts_are_gathered_and_broadcast() {
        team(3, 30.0, |mut host| {
            let rank = host.rank();
            let parts = host.all_gather(&array(&elements(rank, 1000 * rank)), &Caller::default()).unwrap();
            for (k, part) in parts.iter().enumerate() {
                assert_eq!(values(part), elements(k, 1000 * k));
            }
            for root in 0..3 {
                // receivers need not know the dtype or length
                let own = if rank == root { array(&elements(root, 70_000)) } else { array(&[]) };
                let x = host.broadcast(&own, root, &Caller::default()).unwrap();
                assert_eq!(values(&x), elements(root, 70_000));
            }
            assert!(host.broadcast(&array(&[]), 3, &Caller::default()).is_err());
            host.barrier(&Caller::default()).unwrap();
        });
    }

    #[test]
    fn whole_numbers_that_overflow_are_missing() {
        let sums = team(2, 30.0, |mut host| {
            let one = Operand::Value(Scalar::F64(2e9), verdigris_ops::dtype::Kind::Double);
            let x = Array::apply(verdigris_ops::id::ADD, &[Operand::Array(array(&[0.0, -1.9e9])), one], None).unwrap();
            let x = x.cast(DType::Int32, None).unwrap();
            let sum = host.all_reduce(&x, Fold::Sum, false, &Caller::default()).unwrap();
            values(&sum.cast(DType::Float64, None).unwrap())
        });
        assert!(sums.iter().all(|sum| sum[0].is_nan() && sum[1] == 2e8));
    }

    #[test]
    fn different_collectives_are_an_error_that_names_both() {
        let said = team(3, 30.0, |mut host| {
            let caller = Caller { site: None, text: format!("f{}()", host.rank() + 1) };
            let x = array(&[1.0, 2.0]);
            let error = match host.rank() {
                1 => host.barrier(&caller).unwrap_err(),
                _ => host.all_reduce(&x, Fold::Sum, false, &caller).err().unwrap(),
            };
            // the team has ended, and later calls give the same error
            assert_eq!(host.barrier(&caller).unwrap_err().message, error.message);
            assert_eq!(error.kind, Kind::Member);
            error.message
        });
        for (rank, message) in said.iter().enumerate() {
            let heard = message.contains("f2()") && (message.contains("f1()") || message.contains("f3()"));
            assert!(heard && message.contains("barrier") && message.contains("2 float64"), "{rank}: {message}");
        }
    }

    #[test]
    fn a_member_that_ends_or_stops_is_told_of_soon() {
        for n in [3, 3_000_000] {
            for stops in [false, true] {
                let took = team(3, 60.0, move |mut host| {
                    if host.rank() == 1 {
                        if stops {
                            host.stop("planted");
                        }
                        return (0.0, String::new());
                    }
                    let (began, x) = (Instant::now(), array(&elements(0, n)));
                    let error = host.all_reduce(&x, Fold::Sum, false, &Caller::default()).err().unwrap();
                    assert_eq!(error.kind, Kind::Member);
                    (began.elapsed().as_secs_f64(), error.message)
                });
                for (seconds, message) in took.iter().filter(|(_, message)| !message.is_empty()) {
                    assert!(*seconds < 2.0 && message.contains(if stops { "planted" } else { "ended" }), "{message}");
                }
            }
        }
    }

    #[test]
    fn a_member_may_end_after_its_last_collective() {
        let sums = team(3, 30.0, |mut host| {
            // the first two members have all they need long before the third
            if host.rank() == 2 {
                thread::sleep(Duration::from_millis(100));
            }
            let x = array(&elements(host.rank(), 1_000_000));
            host.all_reduce(&x, Fold::Sum, false, &Caller::default()).is_ok()
        });
        assert_eq!(sums, [true; 3]);
    }

    #[test]
    fn a_member_that_does_not_come_is_waited_for_no_longer_than_asked() {
        team(2, 0.3, |mut host| {
            if host.rank() == 1 {
                return thread::sleep(Duration::from_millis(900));
            }
            let began = Instant::now();
            let error = host.barrier(&Caller::default()).unwrap_err();
            assert!(error.message.contains("has not come within 0.3 s"), "{error}");
            assert!(began.elapsed() < Duration::from_millis(800));
        });
    }

    #[cfg(not(any(target_os = "macos", windows)))]
    #[test]
    fn members_agree_on_what_all_have_and_share_an_id() {
        use crate::backend::cuda::communicator::ID;
        use crate::team::gpus;
        let id = [7; ID];
        let found = team(3, 30.0, move |mut host| {
            let agreed = [true, host.rank() != 1].map(|here| gpus::all(&mut host, here).unwrap());
            let given = if host.rank() == 0 { Ok(id) } else { Ok([0; ID]) };
            let failed = Err(Error::new(Kind::Library, "planted"));
            (agreed, gpus::share_id(&mut host, given).unwrap(), gpus::share_id(&mut host, failed).unwrap())
        });
        assert_eq!(found, vec![([true, false], Some(id), None); 3]);
    }

    #[cfg(not(any(target_os = "macos", windows)))]
    #[test]
    fn without_gpus_members_stay_on_the_host_and_say_why() {
        use crate::team::gpus;
        let said = team(2, 30.0, |host| match gpus::connect(host, None, Duration::from_secs(1)).unwrap() {
            gpus::Connected::Gpus(_) => String::new(),
            gpus::Connected::Host(mut host, why) => {
                host.barrier(&Caller::default()).unwrap();
                why.message
            }
        });
        assert_eq!(said, ["a member has no GPU"; 2]);
    }
}
