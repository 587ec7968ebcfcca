//! Connections: requests read strictly, who may ask, and who gives way.

pub(super) mod guard;
pub(super) mod http;
pub(super) mod inbound;
pub(super) mod limits;
pub(super) mod redirect;
