package manifestwork

import (
	"regexp"
	"strings"
)

// severity is what may be expected of a failure.
type severity int

const (
	// passing is what may well be over soon: a namespace that another work brings,
	// or a webhook that does not answer.
	passing severity = iota
	// lasting is what only somebody's doing ends, in the cluster or in the work.
	lasting
	// definite is what only another manifest ends.
	definite
)

// severityOf judges the words of a cluster's API server, as the agent reports them.
func severityOf(message string) severity {
	says := func(phrases ...string) bool {
		for _, phrase := range phrases {
			if strings.Contains(message, phrase) {
				return true
			}
		}
		return false
	}
	unknownKind := noSuchKind.FindStringSubmatch(message)
	switch {
	case unknownKind != nil && isKubernetesOwn(unknownKind[1]):
		return definite
	case unknownKind != nil, says("denied the request", "exceeded quota", "failed quota"):
		return lasting
	case says("failed calling webhook", "because it is being terminated", "error looking up service account", "not yet ready to handle request",
		"could not find the requested resource", "connection refused", "timeout", "timed out", "deadline exceeded", "Internal error", "EOF",
		"Too many requests", "too many requests", "currently unable to handle the request", "no endpoints available", "the object has been modified"):
		return passing
	case says(" is invalid: ", " is forbidden: ", "strict decoding error", "cannot unmarshal", "unable to decode", "cannot be handled as a",
		"failed to create typed patch object", "field not declared in schema", "unknown field", "does not match the namespace"):
		return definite
	case says("not found"):
		return passing
	default:
		return lasting
	}
}

// noSuchKind is how a kind that the cluster does not have is reported.
var noSuchKind = regexp.MustCompile(`no matches for kind "[^"]*" in version "([^"]*)"`)

// isKubernetesOwn reports whether an API is Kubernetes' own, which no definition
// adds to.
func isKubernetesOwn(apiVersion string) bool {
	group, _, found := strings.Cut(apiVersion, "/")
	switch group {
	case "apps", "autoscaling", "batch", "policy", "rbac.authorization.k8s.io", "networking.k8s.io", "storage.k8s.io", "coordination.k8s.io",
		"scheduling.k8s.io", "apiextensions.k8s.io", "admissionregistration.k8s.io", "apiregistration.k8s.io":
		return true
	}
	return !found
}
