// Package manifest reads the manifests of a ManifestWork: which object each is
// for, with which options, in which order they are applied, and which fields are
// left alone. In go a work and a REST mapper, out come values.
//
// It sends no requests, and knows nothing of what became of a manifest.
package manifest
