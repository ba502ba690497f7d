// Package agentoptions is how a configuration says in which way an agent runs: the
// attributes that muster_klusterlet, muster_cluster_import and klusterlet_manifests
// share, and the way between them and the API's options.
package agentoptions
