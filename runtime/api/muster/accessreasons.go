package muster

// EndpointsAnnotation on a ManagedCluster says where users reach its API server,
// in place of what its agent reports: a list in JSON of endpoints as in the status
// of access requests, with url and caBundle. Administrators of the hub set it.
const EndpointsAnnotation = "muster-fleet.io/api-endpoints"

// Reasons of conditions of AccessRequests beside those why there is no access.
const (
	ReasonGranted          = "Granted"          // Approved: a grant names the user
	ReasonWaitingForRights = "WaitingForRights" // Issued: the key is not bound to roles in the cluster yet
	ReasonWithdrawing      = "Withdrawing"      // Revoked: the rights are not withdrawn in the cluster yet
	ReasonDeleted          = "Deleted"          // Revoked: the request was deleted
	ReasonEnded            = "Ended"            // Expired: the time is over
	ReasonTooManyRevoked   = "TooManyRevoked"   // Revoked: the cloud remembers as many withdrawn keys as it can
)
