//! The call that recorded an operation, for messages.

use std::any::Any;
use std::sync::Arc;

/// R's call. The engine carries it without looking into it.
pub type CallSite = Arc<dyn Any + Send + Sync>;
