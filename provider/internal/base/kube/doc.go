// Package kube is the provider's way to a Kubernetes API server: a small client
// that needs no discovery, retries what is safe to retry, has no rate limit and
// waits by watching.
//
// It stands in for controller-runtime's client and for client-go's typed clientset,
// which would make the provider, that everybody downloads, several times as large.
// It knows neither Terraform nor the kinds of a hub: scheme and mapper are handed
// in.
package kube
