package rollout

import "strings"

// aboutOverride begins what AboutOverride makes.
const aboutOverride = "override "

// AboutOverride begins the message of the condition Overridden: it says which override the hub
// has looked at, by its digest, as a change of one gives a replica set no new generation.
func AboutOverride(digest string) string { return aboutOverride + digest + ": " }

// SaidOfOverride is a message of the condition Overridden without its beginning.
func SaidOfOverride(message string) string {
	if _, said, ok := strings.Cut(message, ": "); ok && strings.HasPrefix(message, aboutOverride) {
		return said
	}
	return message
}
