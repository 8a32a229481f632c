// Package simulate computes what an installation of a million workspaces does on working days, and
// what that asks of each of its servers. It says what breaks first, and what the guide about scaling
// out says about it.
//
// It owns the people: when they come, for how long they work, and what they store. What the product
// does for them it asks the product: the operations and rows of a change are those of package
// planner, who gets a storage job is decided by package schedule, and what is unused by package ttl.
// What a row or a query costs was measured; see [Units]. It is pure, and programs must not import it.
package simulate
