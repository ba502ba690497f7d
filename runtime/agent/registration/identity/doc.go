// Package identity is about who an agent is on its hub: the names in its
// certificate, the Secret that keeps certificate and key in the managed
// cluster, and the rules by which a stored identity is still good.
package identity
