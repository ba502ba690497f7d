// Package failure is what can go wrong with a manifest: the errors that the rest
// of the agent tells apart, and their text without the object's content.
//
// It sends no requests, and imports no other package of the agent.
package failure
