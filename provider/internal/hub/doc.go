// Package hub is the provider's side of a hub: the clients of the provider
// block, what the hub can do, a snapshot of its fleet, and the explanation of
// its errors. All resources and data sources go through it. It knows no
// resource.
package hub
