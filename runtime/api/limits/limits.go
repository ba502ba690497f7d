// Package limits holds how long a text may be in each place of the API that limits it,
// in bytes. Longer ones are cut (internal/text) before they are written.
package limits

const (
	// ConditionMessage is the message of a condition: the API takes 32,768 characters.
	ConditionMessage = 32 << 10
	// EventNote is the note of an event: the API takes 1,024 bytes, and the rest is room
	// for what clients add.
	EventNote = 1000
	// AccessMessage is the message of a condition of an access request or of a cluster
	// credential, the part of the API that agents answer users in.
	AccessMessage = 1024
	// ClusterMessage is what a logical cloud says of one of its clusters.
	ClusterMessage = 1024
	// PreviewText is a message, a path or a value in the answer to a preview.
	PreviewText = 1024
	// ClaimValue is the value of a cluster claim in the status of a managed cluster.
	ClaimValue = 1024
)
