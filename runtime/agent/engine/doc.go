// Package engine has what the controllers of the agent share: a manager between hub and
// managed cluster, queues that follow the agent's clock, watches that come and go, and
// what a controller has written and its cache does not show yet.
//
// Works, add-ons and user access have a manager each. A controller starts when all
// watches of its caches show their objects, so with a shared cache a right that only
// one of them lacks would stop the others. And add-ons and user access end and begin
// with what the hub serves, while works go on.
package engine
