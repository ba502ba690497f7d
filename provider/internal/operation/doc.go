// Package operation does what administrators do to a fleet from day to day: wait
// until clusters have joined, deny or detach one, have an agent renew its
// certificate, revoke bootstrap tokens, have a work applied once more, and resume
// a rollout that has stopped. Each function does one of these and tells a Listener
// how it goes on. They know nothing of Terraform's actions, which call them.
//
// All of them write nothing when nothing is to be done, so that they can be
// repeated. What is asked of an agent is an annotation that the agent removes when
// it has done it: two who ask at the same time ask once, and both learn of it.
package operation
