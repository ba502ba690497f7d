// Package watches watches the kinds of the objects that works hold, and queues the
// works whose objects change. Of the objects it keeps the identity only.
package watches
