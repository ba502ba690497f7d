package logging

// expectation describes errors that libraries log though nothing is wrong. All
// of its fields have to match; an empty one matches everything. Other attributes
// of a line do not count.
type expectation struct {
	// logger is the end of the logger's name.
	logger string
	// message is a part of the message.
	message string
	// err is a part of the error.
	err string
}

// unhandled is the logger of errors that Kubernetes' code can't return.
const unhandled = "UnhandledError"

// expected are errors of a normal start and of normal life.
var expected = []expectation{
	// No file of that kind is ever given.
	{message: "The manifest file is empty, ignoring"},
	// The namespaces are made at the same time as what lives in them; both are
	// tried again a moment later.
	{err: `namespaces "kube-system" not found`},
	{err: `namespaces "kube-node-lease" not found`},
	{err: `namespaces "kube-public" not found`},
	{err: `namespaces "default" not found`},
	// Nothing removes the API server's own endpoint at a stop, as there is
	// nothing behind it.
	{message: "Found stale data, removed previous endpoints on kubernetes service"},
	// The first start gives the API server's own service its address.
	{logger: unhandled, err: "is not allocated; repairing"},
	// A client went away before it had its answer.
	{err: "context canceled"},
	// Controllers that are ahead of their caches try again.
	{err: "is not as new as written version"},
	{err: "the object has been modified; please apply your changes to the latest version"},
}

// expectedAtStop are errors of a stop, which ends requests that are under way.
// Before it the same errors say that the server is overloaded or a part of it
// fails.
var expectedAtStop = []expectation{
	{err: "http: Server closed"},
	{err: "server is shutting down"},
	{err: "io: read/write on closed pipe"},
	{err: "http: Handler timeout"},
	{logger: unhandled, message: "Timeout or abort while handling"},
	{logger: unhandled, message: "Post-timeout activity"},
	{message: "FinishRequest: post-timeout activity"},
	{logger: unhandled, err: "FinishRequest: post-timeout activity"},
	{logger: unhandled, err: "Unable to sync caches"},
	{logger: unhandled, err: "timed out waiting for dependency graph builder sync"},
	{message: "failed to get informer from cache"},
	{message: "Unable start event watcher"},
	{message: "Unable to remove peer endpoint leases"},
	// A leader that stops releases its Lease.
	{message: "error received after stop sequence was engaged", err: "leader election lost"},
}
