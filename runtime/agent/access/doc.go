// Package access gives users of the hub access to the managed cluster: for each
// ClusterCredential in the cluster's namespace on the hub it gets a client
// certificate from the cluster's own signer, or a token of a service account, and
// hands it over in the credential's status.
//
// A reconcile goes in one direction: what both sides show is read, decide says what to
// do next, it is done, and reported. The agent holds no key, and remembers nothing that
// it needs: killed at any write, the next one goes on from what both sides show.
// Everything that the hub asks for is checked again, here and against the policy of the
// cluster's owner.
package access
