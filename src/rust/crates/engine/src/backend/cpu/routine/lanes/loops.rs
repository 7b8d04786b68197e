//! Loops over lanes, which leave a loop one at a time.

use super::{fill, Lanes, BREAK, NEXT};
use crate::backend::cpu::routine::program::*;

impl Lanes<'_> {
    /// After an iteration: moves the lanes that continue with the next one to the front.
    fn sorted(&mut self, end: usize, active: usize, loop_body: &LoopBody) -> usize {
        if end == active || !loop_body.nexts {
            return end;
        }
        // SAFETY: every element has a status.
        self.part(end, active, &loop_body.moves, |this, k| unsafe { *this.status(this.element(k)) == NEXT })
    }

    /// After a loop: moves the lanes that left the loop to the front, ahead of the lanes that left the routine.
    fn ended(&mut self, from: usize, to: usize, loop_body: &LoopBody) -> usize {
        if !loop_body.returns {
            return to;
        }
        // SAFETY: every element has a status.
        self.part(from, to, &loop_body.ended, |this, k| unsafe { *this.status(this.element(k)) == BREAK })
    }

    pub(super) fn run_loop(&mut self, loop_body: &LoopBody, from: usize, to: usize) -> usize {
        let mut active = to;
        while active > from {
            let end = self.block(&loop_body.body, from, active);
            if !self.should_continue(active - from, loop_body.body.len()) {
                return from;
            }
            active = self.sorted(end, active, loop_body);
        }
        self.ended(from, to, loop_body)
    }

    pub(super) fn count(&mut self, counted: &Counted, from: usize, to: usize) -> usize {
        let loop_body = &counted.body;
        let times = |this: &Self, k: usize| {
            // SAFETY: lanes are below the width.
            unsafe { *this.at(counted.times, k).cast::<i32>() }
        };
        // Trip counts are kept by element, since the loop may write the register or swap lanes.
        let kept = |this: &Self, k: usize| {
            // SAFETY: there is space for all elements.
            unsafe { this.base.add(counted.kept as usize).cast::<i32>().add(this.element(k)) }
        };
        let all = times(self, from);
        let mut least = all;
        let mut differ = false;
        for k in from..to {
            let own = times(self, k);
            differ |= own != all;
            least = least.min(own);
        }
        if differ {
            for k in from..to {
                // SAFETY: as above.
                unsafe { *kept(self, k) = times(self, k) };
            }
        }
        let mut active = to;
        let mut counter = 0;
        loop {
            if counter >= least {
                if !differ && active == to {
                    return to;
                }
                if !differ {
                    self.leave(from, active, BREAK);
                    break;
                }
                // SAFETY: as above.
                let end = self.part(from, active, &loop_body.moves, |this, k| unsafe { *kept(this, k) > counter });
                self.leave(end, active, BREAK);
                active = end;
                // SAFETY: as above.
                least = (from..active).map(|k| unsafe { *kept(self, k) }).min().unwrap_or(0);
            }
            if active == from {
                break;
            }
            if let Some(slot) = counted.counter {
                // SAFETY: lanes are below the width.
                unsafe { fill(self.at(slot, from).cast(), &counter.to_ne_bytes(), active - from) };
            }
            let end = self.block(&loop_body.body, from, active);
            if !self.should_continue(active - from, loop_body.body.len()) {
                return from;
            }
            active = self.sorted(end, active, loop_body);
            counter += 1;
        }
        self.ended(from, to, loop_body)
    }
}
