//! The call that recorded an operation, for messages.

use std::any::Any;
use std::sync::Arc;

/// R's call, which the engine carries and does not look into.
pub type CallSite = Arc<dyn Any + Send + Sync>;
