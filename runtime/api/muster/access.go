package muster

// UserAccessAnnotation on a ManagedCluster says in which modes its agent lets users
// in, separated by commas: "Certificate,Token". The agent writes it. Without it the
// agent does no user access.
const UserAccessAnnotation = "agent.open-cluster-management.io/user-access"

// Labels of the certificate requests that an agent makes for users.
const (
	// AccessHubLabel is the hub's ID.
	AccessHubLabel = "muster-fleet.io/access-hub"
	// AccessClusterLabel is the cluster's name on the hub.
	AccessClusterLabel = "muster-fleet.io/access-cluster"
)

// How long access may last, in seconds.
const (
	MinLifetimeSeconds = 600
	MaxLifetimeSeconds = 31536000
)

// Reasons of the condition Issued of a ClusterCredential.
const (
	ReasonCertificateIssued     = "CertificateIssued"     // the cluster has signed a certificate
	ReasonTokenIssued           = "TokenIssued"           // the cluster has issued a token
	ReasonServiceAccountMissing = "ServiceAccountMissing" // the cloud's work has not brought the token's service account yet
	ReasonTryingAgain           = "TryingAgain"           // the cluster's API server does not do what the agent asks for
)

// Further reasons of the condition Failed of a ClusterCredential.
const (
	ReasonSignerRefused = "SignerRefused" // the cluster's signer has refused to sign
	ReasonRequestDenied = "RequestDenied" // somebody in the cluster has denied the certificate request
)
