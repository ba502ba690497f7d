// Package hub is the provider's side of a hub: the clients of the provider
// block, what the hub can do, a snapshot of its fleet, what a placement would
// select from it, and the explanation of the hub's errors. All resources and data
// sources go through it. It knows no resource.
package hub
