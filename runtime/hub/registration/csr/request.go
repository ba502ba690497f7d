// Package csr approves the certificate requests of agents.
package csr

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// Identity is whom a certificate request asks a certificate for.
type Identity struct {
	// Cluster is the managed cluster, Agent the agent within it.
	Cluster, Agent string
	// CommonName is the user name that the certificate would carry.
	CommonName string
}

// Parse reads the identity that a certificate request asks for. Its error says
// why a request is none that an agent makes.
//
// The request must carry the cluster's name in a label, be for client
// certificates, and have as its subject the cluster's group, optionally the
// group of all managed clusters, and one agent of the cluster.
func Parse(labels map[string]string, signer string, request []byte) (Identity, error) {
	name := labels[cluster.NameLabel]
	if name == "" {
		return Identity{}, fmt.Errorf("the label %s, which names the cluster, is missing", cluster.NameLabel)
	}
	if signer != certificatesv1.KubeAPIServerClientSignerName {
		return Identity{}, fmt.Errorf("the signer is %q, and agents ask %q", signer, certificatesv1.KubeAPIServerClientSignerName)
	}
	block, _ := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return Identity{}, errors.New("the request is not a PEM block of type CERTIFICATE REQUEST")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return Identity{}, fmt.Errorf("the request is not a certificate request: %w", err)
	}
	organizations := slices.DeleteFunc(slices.Clone(parsed.Subject.Organization), func(o string) bool {
		return o == cluster.ManagedClustersGroup
	})
	if len(organizations) != 1 || organizations[0] != cluster.Group(name) {
		return Identity{}, fmt.Errorf("the organizations are %q, and for the cluster %q of the label they must be %q and optionally %q",
			parsed.Subject.Organization, name, cluster.Group(name), cluster.ManagedClustersGroup)
	}
	of, agent, ok := cluster.ParseCommonName(parsed.Subject.CommonName)
	if !ok || of != name {
		return Identity{}, fmt.Errorf("the common name is %q, and for the cluster %q of the label it must be %q",
			parsed.Subject.CommonName, name, cluster.CommonName(name, "<agent>"))
	}
	return Identity{Cluster: name, Agent: agent, CommonName: parsed.Subject.CommonName}, nil
}
