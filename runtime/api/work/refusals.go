package work

// What admission says when it refuses a write. Clients recognise the refusal by
// these words, as upstream's hubs give no other sign.
const (
	// RefusedExecutor stands between the user's name and the executor's, for works
	// whose author lacks the verb execute-as for the executor.
	RefusedExecutor = "cannot manipulate the Manifestwork with executor"
	// RefusedReplicaSet is for replica sets while the feature gate
	// ManifestWorkReplicaSet is off.
	RefusedReplicaSet = "ManifestWorkReplicaSet feature is disabled"
)
