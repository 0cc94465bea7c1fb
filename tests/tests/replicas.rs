//! Several engines on one PostgreSQL, without a leader: they hear of each other's work, lease nothing twice, and end
//! what a dead one began.
