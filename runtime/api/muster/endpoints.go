package muster

import "fmt"

// PlaceKey is the entry of an agent's identity Secret with what the agent knows of
// other endpoints of its hub.
const PlaceKey = "muster-hub-place.json"

// AgentFieldManager is the field manager of what an agent writes into its bootstrap
// Secret when its hub has moved, so that others know that it is meant to be so.
const AgentFieldManager = "muster-agent"

// ConditionHubEndpointCurrent of a ManagedCluster says whether its agent uses the
// hub's newest URL and CA. The agent writes it.
const ConditionHubEndpointCurrent = "HubEndpointCurrent"

// FormatEndpointGeneration begins each message of that condition: the generation
// of the hub's endpoints that the agent has followed, and what it says about it.
const FormatEndpointGeneration = "generation %d: %s"

// Reasons of the condition HubEndpointCurrent.
const (
	ReasonEndpointCurrent            = "Current"            // the agent is where the hub wants it
	ReasonOwnEndpoint                = "OwnEndpoint"        // it has a URL that the hub has never published
	ReasonEndpointUnreachable        = "Unreachable"        // the new endpoint does not answer
	ReasonEndpointUntrusted          = "Untrusted"          // the published authorities don't verify it
	ReasonEndpointRefusesCertificate = "CertificateRefused" // it does not take the agent's certificate
	ReasonAnotherHub                 = "AnotherHub"         // it is not the agent's hub
	ReasonEndpointsInvalid           = "Invalid"            // what the hub publishes can't be used
	ReasonFellBack                   = "FellBack"           // the agent went back, as the new endpoint was lost
	ReasonFormerAuthority            = "FormerAuthority"    // the agent's certificate is still one of the old authority
)

// EndpointGeneration reads the generation from a message of the condition
// HubEndpointCurrent; 0 when it has none.
func EndpointGeneration(message string) int64 {
	var generation int64
	if _, err := fmt.Sscanf(message, "generation %d:", &generation); err != nil {
		return 0
	}
	return generation
}
