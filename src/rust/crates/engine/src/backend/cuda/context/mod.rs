//! A device's context and what lives in it: streams, memory, transfers, flags, recorded graphs.

pub mod capture;
pub mod deferred;
pub mod device;
pub mod exchange;
pub mod flags;
pub mod hazards;
pub mod lane;
pub mod pool;
pub mod profile;
pub mod streams;
pub mod transfer;
