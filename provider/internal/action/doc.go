// Package action has the actions of the provider: what administrators do to a fleet
// from day to day, and Terraform 1.14 and later on request. They wait until clusters
// have joined, deny or detach one, have an agent renew its certificate, revoke
// bootstrap tokens, have a work applied once more, and resume a rollout that has
// stopped.
//
// All of them write nothing when nothing is to be done, so that they can be
// repeated. What is asked of an agent is an annotation that the agent removes when
// it has done it: two who ask at the same time ask once, and both learn of it.
package action
