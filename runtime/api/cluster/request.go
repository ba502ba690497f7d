package cluster

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// RequestIdentity is the agent that a certificate request asks a certificate
// for.
type RequestIdentity struct {
	// Cluster is the managed cluster, Agent the agent within it.
	Cluster, Agent string
	// CommonName is the user name that the certificate would carry.
	CommonName string
}

// ParseRequest reads the identity that a certificate request asks for. Its error
// says why a request is none that an agent makes.
//
// The request must carry the cluster's name in a label, be for client
// certificates, and have as its subject the cluster's group, optionally the
// group of all managed clusters, and one agent of the cluster.
func ParseRequest(labels map[string]string, signer string, request []byte) (RequestIdentity, error) {
	name := labels[NameLabel]
	if name == "" {
		return RequestIdentity{}, fmt.Errorf("the label %s, which names the cluster, is missing", NameLabel)
	}
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return RequestIdentity{}, fmt.Errorf("the label %s is %q, which is not a cluster's name: %s", NameLabel, name, problems[0])
	}
	if err := ReservedName(name); err != nil {
		return RequestIdentity{}, err
	}
	if signer != certificatesv1.KubeAPIServerClientSignerName {
		return RequestIdentity{}, fmt.Errorf("the signer is %q, and agents ask %q", signer, certificatesv1.KubeAPIServerClientSignerName)
	}
	block, _ := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return RequestIdentity{}, errors.New("the request is not a PEM block of type CERTIFICATE REQUEST")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return RequestIdentity{}, fmt.Errorf("the request is not a certificate request: %w", err)
	}
	organizations := slices.DeleteFunc(slices.Clone(parsed.Subject.Organization), func(o string) bool {
		return o == ManagedClustersGroup
	})
	if len(organizations) != 1 || organizations[0] != Group(name) {
		return RequestIdentity{}, fmt.Errorf("the organizations are %q, and for the cluster %q of the label they must be %q and optionally %q",
			parsed.Subject.Organization, name, Group(name), ManagedClustersGroup)
	}
	of, agent, ok := ParseCommonName(parsed.Subject.CommonName)
	if !ok || of != name {
		return RequestIdentity{}, fmt.Errorf("the common name is %q, and for the cluster %q of the label it must be %q",
			parsed.Subject.CommonName, name, CommonName(name, "<agent>"))
	}
	return RequestIdentity{Cluster: name, Agent: agent, CommonName: parsed.Subject.CommonName}, nil
}
