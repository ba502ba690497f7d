// Package manifest reads the manifests of a ManifestWork: which object each is
// for, with which options, in which order they are applied, and which fields are
// left alone. In go a work and a REST mapper, out come values. It also has the
// errors of manifests that the agent distinguishes, and their text without the
// object's content.
//
// It sends no requests.
package manifest
