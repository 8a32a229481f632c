// Package simulate computes what a million workspaces do on working days, and the resulting load of each server of the
// installation. It shows which part of an installation breaks first, and checks the numbers in the guide about scaling
// out.
//
// It owns the people: when they come, how long they work, and how much they store. For the product's behaviour it calls
// the product's own code: package planner for the operations and rows of a change, package schedule for the order of
// storage jobs, and package ttl for unused workspaces. The costs of rows and queries were measured; see [Units]. It is
// pure, and programs must not import it.
package simulate
