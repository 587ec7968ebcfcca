//! Questions asked of a trace; plain rows out.
