//! A device in use: [`device`] and its streams ([`stream_state`], [`current_stream`], [`waits`], [`hazards`]), its
//! memory ([`memory_pool`], [`allocate`], [`transfer`], [`peer`] between devices, [`ipc`] between processes, [`exchange`]
//! with other libraries),
//! results on their way to the host ([`flags`], [`slots`], [`deferred`]), the [`background`] thread, and features for
//! users: [`capture`] of graphs, [`profile`], [`streams`].

pub mod allocate;
pub mod background;
pub mod capture;
pub mod core;
pub mod current_stream;
pub mod deferred;
pub mod device;
pub mod exchange;
pub mod flags;
pub mod hazards;
pub mod ipc;
pub mod memory_pool;
pub mod peer;
pub mod profile;
pub mod slots;
pub mod stream_state;
pub mod streams;
pub mod transfer;
pub mod waits;
